import CommandLine
import Glibc

/// Where a command keeps what it receives: in one file, or in a file for each thing.
///
/// A file is there as a whole, on the disk, and for its owner alone (0600, whatever stood there), or not at all.
public enum FilePlace: Sendable, Equatable {
  /// One file, which takes the place of an older one.
  case one(String)
  /// A file for each, with the thing's name between the two; it takes the place of nothing.
  case each(before: String, after: String)

  /// As a person says it: a file; a folder; or a path with `{}` in its last part, which stands for the thing's name.
  ///
  /// - Throws: `usage` for a path that cannot be one; `notWritten` where the folder is not there, or may not be written to.
  public init(_ path: String) throws(Failure) {
    var status = stat()
    let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    guard !path.isEmpty else { throw Failure(.usage, "The name of the file is empty.") }
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    if isFolder || path.hasSuffix("/") {
      self = .each(before: path.hasSuffix("/") ? path : path + "/", after: "")
    } else if let last = parts.last, let mark = Self.mark(in: last) {
      guard Self.mark(in: last[mark.upperBound...]) == nil else {
        throw Failure(.usage, "\(path) has more than one {}.")
      }
      self = .each(before: String(path[..<mark.lowerBound]), after: String(last[mark.upperBound...]))
    } else {
      self = .one(path)
    }
    let folder = folder
    guard access(folder, W_OK | X_OK) == 0 else { throw FileOutput.failure(folder, "written to", .notWritten) }
  }

  /// Whether a second thing has a place as well.
  public var isForMany: Bool {
    if case .each = self { true } else { false }
  }

  /// Writes the bytes, and returns when the disk has them.
  ///
  /// - Parameter name: of the thing. Where a file of that name is there, the next free of `name-2`, `name-3`, … is taken.
  /// - Returns: the path of the file.
  /// - Throws: `notWritten`; then there is no new file.
  public func keep(_ bytes: [UInt8], as name: String) throws(Failure) -> String {
    switch self {
    case .one(let path):
      try Self.replace(path, bytes)
      return path
    case .each(let before, let after):
      for number in 1...Self.mostOfOneName {
        let path = before + name + (number == 1 ? "" : "-\(number)") + after
        // The name is taken first, and by one program only: renaming would write over another's.
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        if descriptor < 0, errno == EEXIST { continue }
        guard descriptor >= 0 else { throw FileOutput.failure(path, "written", .notWritten) }
        close(descriptor)
        do throws(Failure) {
          try put(bytes, at: path)
          return path
        } catch {
          unlink(path)
          throw error
        }
      }
      throw Failure(.notWritten, "\(before)\(name)\(after) and \(Self.mostOfOneName - 1) like it are there already.")
    }
  }

  private static let mostOfOneName = 10_000

  private static func mark(in text: Substring) -> Range<Substring.Index>? {
    guard let begin = text.firstIndex(of: "{") else { return nil }
    let next = text.index(after: begin)
    guard next < text.endIndex else { return nil }
    return text[next] == "}" ? begin..<text.index(after: next) : mark(in: text[next...])
  }

  private var folder: String {
    let path =
      switch self {
      case .one(let path): path
      case .each(let before, _): before
      }
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  // MARK: Writing

  /// What is no file, a pipe for instance, is written into; a link is followed, so that what it points at is replaced.
  private static func replace(_ path: String, _ bytes: [UInt8]) throws(Failure) {
    var status = stat()
    guard stat(path, &status) == 0 else { return try FilePlace.one(path).put(bytes, at: path) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      let descriptor = open(path, O_WRONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw FileOutput.failure(path, "written", .notWritten) }
      defer { close(descriptor) }
      return try write(bytes, descriptor, path)
    }
    guard let real = realpath(path, nil) else { throw FileOutput.failure(path, "written", .notWritten) }
    defer { free(real) }
    let target = String(cString: real)
    try FilePlace.one(target).put(bytes, at: target)
  }

  /// Into a file of its own first, which then takes the name.
  private func put(_ bytes: [UInt8], at path: String) throws(Failure) {
    let folder = folder
    var template = Array("\(folder)/.earshot-XXXXXX".utf8CString)
    // Created by O_EXCL, 0600.
    let descriptor = mkstemp(&template)
    guard descriptor >= 0 else { throw FileOutput.failure(path, "written", .notWritten) }
    defer { close(descriptor) }
    do throws(Failure) {
      try Self.write(bytes, descriptor, path)
      guard fchmod(descriptor, 0o600) == 0, fsync(descriptor) == 0, rename(template, path) == 0 else {
        throw FileOutput.failure(path, "written", .notWritten)
      }
    } catch {
      unlink(template)
      throw error
    }
    let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { if directory >= 0 { close(directory) } }
    guard directory >= 0, fsync(directory) == 0 else { throw FileOutput.failure(path, "written", .notWritten) }
  }

  private static func write(_ bytes: [UInt8], _ descriptor: Int32, _ path: String) throws(Failure) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw FileOutput.failure(path, "written", .notWritten) }
      rest = rest.dropFirst(count)
    }
  }
}
