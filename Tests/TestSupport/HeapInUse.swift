import Foundation

/// Heap memory that this process has allocated and not freed.
public enum HeapInUse {
  private typealias Info = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32

  /// Bytes according to `malloc_info`, the difference of memory obtained from the system and free memory; nil where
  /// it does not report them.
  public static var bytes: Int? {
    guard let symbol = dlsym(nil, "malloc_info") else { return nil }
    let info = unsafeBitCast(symbol, to: Info.self)
    var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
    guard let stream = open_memstream(&text, &size) else { return nil }
    let result = info(0, stream)
    fclose(stream)
    defer { free(text) }
    guard result == 0, let text else { return nil }
    // In the output of `malloc_info`, the totals of all arenas follow the last arena.
    let report = String(cString: text)
    guard let end = report.range(of: "</heap>", options: .backwards) else { return nil }
    let sums = report[end.upperBound...]
    guard let system = number(in: sums, after: "<system type=\"current\" size=\"") else { return nil }
    let mapped = number(in: sums, after: "<total type=\"mmap\"", "size=\"") ?? 0
    let free = ["fast", "rest"].compactMap { number(in: sums, after: "<total type=\"\($0)\"", "size=\"") }
    return system + mapped - free.reduce(0, +)
  }

  private static func number(in text: Substring, after marks: String...) -> Int? {
    var rest = text
    for mark in marks {
      guard let found = rest.range(of: mark) else { return nil }
      rest = rest[found.upperBound...]
    }
    return Int(rest.prefix { $0.isNumber })
  }
}
