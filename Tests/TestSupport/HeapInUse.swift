import Foundation

/// What this process has taken from the heap and not given back.
public enum HeapInUse {
  private typealias Info = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32

  /// Bytes, as `malloc_info` tells them; nil where it does not. It says how many the heap has from the system, and how many of those
  /// are free.
  public static var bytes: Int? {
    guard let symbol = dlsym(nil, "malloc_info") else { return nil }
    let info = unsafeBitCast(symbol, to: Info.self)
    var (text, size): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
    guard let stream = open_memstream(&text, &size) else { return nil }
    let result = info(0, stream)
    fclose(stream)
    defer { free(text) }
    guard result == 0, let text else { return nil }
    // The sums of all arenas come after the last of them.
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
