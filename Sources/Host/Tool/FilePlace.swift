import CommandLine
import Glibc

/// The destination of received data: one file, or one file for each item.
///
/// A file is written completely, synchronised to the disk, and accessible only to its owner (0600, regardless of an
/// existing file), or not written at all.
public enum FilePlace: Sendable, Equatable {
  /// One file, which replaces an existing one.
  case one(String)
  /// One file for each item, with the item's name between the two parts; it replaces no existing file.
  case each(before: String, after: String)

  /// Parses a path: a file; a folder; or a path with `{}` in its last component, which stands for the item's name.
  ///
  /// - Throws: `usage` for an invalid path; `notWritten` if the folder does not exist or is not writable.
  public init(_ path: String) throws(Failure) {
    var status = stat()
    let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    guard !path.isEmpty else { throw Failure(.usage, "The file name is empty.") }
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

  /// Whether the destination can store more than one item.
  public var isForMany: Bool {
    if case .each = self { true } else { false }
  }

  /// Writes the bytes, and returns when they are synchronised to the disk.
  ///
  /// - Parameter name: the item's name. If a file of that name exists, the next free of `name-2`, `name-3`, … is used.
  /// - Returns: the path of the file.
  /// - Throws: `notWritten`; there is then no new file.
  public func keep(_ bytes: [UInt8], as name: String) throws(Failure) -> String {
    switch self {
    case .one(let path):
      try Self.replace(path, bytes)
      return path
    case .each(let before, let after):
      for number in 1...Self.mostOfOneName {
        let path = before + name + (number == 1 ? "" : "-\(number)") + after
        // The name is reserved first, exclusively: renaming would replace another program's file.
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
      throw Failure(.notWritten, "\(before)\(name)\(after) and \(Self.mostOfOneName - 1) numbered variants exist.")
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

  /// Replaces a file. An entry that is not a regular file, such as a pipe, is written to; of a symbolic link the target
  /// is replaced.
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

  /// Writes the bytes to a temporary file, syncs it, and renames it to `path`.
  private func put(_ bytes: [UInt8], at path: String) throws(Failure) {
    let folder = folder
    var template = Array("\(folder)/.earshot-XXXXXX".utf8CString)
    // mkstemp creates the file with O_EXCL and mode 0600.
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
