import CommandLine
import Common
import DBus
import Glibc

/// A file that a command passes to the service.
public struct InputFile {
  /// A regular file, or a sealed memory file with the content of a pipe.
  public let descriptor: FileDescriptor
  /// The size in bytes.
  public let size: Int

  /// Opens the file; `-` is standard input.
  ///
  /// - Parameter name: the name of the memory file, if one is needed.
  /// - Throws: `usage` for a folder; `failed` if the file cannot be read.
  public init(_ path: String, name: String) throws(Failure) {
    let opened = path == "-" ? dup(STDIN_FILENO) : Glibc.open(path, O_RDONLY | O_CLOEXEC)
    guard opened >= 0 else { throw FileOutput.failure(path, "read") }
    let file = FileDescriptor(owning: opened)
    var status = stat()
    guard fstat(opened, &status) == 0 else { throw FileOutput.failure(path, "read") }
    guard status.st_mode & S_IFMT != S_IFDIR else { throw Failure(.usage, "\(path) is a folder.") }
    guard status.st_mode & S_IFMT != S_IFREG else {
      (descriptor, size) = (file, Int(status.st_size))
      return
    }
    // The service does not wait for the writer of a pipe, so the pipe is read to its end here.
    let content = try FileOutput.readToEnd(file, path)
    do throws(DBusError) {
      (descriptor, size) = (try FileDescriptor.sealed(content, name: name), content.count)
    } catch {
      throw Failure(.failed, error.message)
    }
  }
}

/// The text that a command sends, from its arguments or from standard input.
public enum StandardInput {
  /// The words joined by blanks; for a single `-` the standard input, without trailing line ends. White space is
  /// otherwise preserved.
  ///
  /// - Throws: `usage` if the text contains only white space.
  public static func text(or words: [String]) throws(Failure) -> String {
    let text = words == ["-"] ? try all() : words.joined(separator: " ")
    guard !PastedText.trimmed(text).isEmpty else {
      throw Failure(.usage, "TEXT is missing. Give the message, or - to read it from standard input.")
    }
    guard words == ["-"], let last = text.lastIndex(where: { !$0.isNewline }) else { return text }
    return String(text[...last])
  }

  /// Standard input as text, without surrounding blanks and line ends.
  public static func text() throws(Failure) -> String { PastedText.trimmed(try all()) }

  private static func all() throws(Failure) -> String {
    let file = FileDescriptor(owning: dup(STDIN_FILENO))
    return String(decoding: try FileOutput.readToEnd(file, "-"), as: UTF8.self)
  }
}

/// Reading files for the user, and errors about files.
public enum FileOutput {
  /// Maximum bytes to read, larger than all limits of the service, which reports its own limit.
  private static let readLimit = 128 << 20

  /// Reads a file or a pipe to its end. The call blocks while the writer of a pipe is slow.
  public static func readToEnd(_ file: FileDescriptor, _ path: String) throws(Failure) -> [UInt8] {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count <= readLimit {
      let count = read(file.raw, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure(path, "read") }
      if count == 0 { return bytes }
      bytes += buffer[..<count]
    }
    throw Failure(.failed, "\(path) has more than \(readLimit) bytes.")
  }

  /// - Parameter what: completes "… cannot be …".
  public static func failure(_ path: String, _ what: String, _ code: ExitCode = .failed) -> Failure {
    Failure(code, "\(path) cannot be \(what): \(String(cString: strerror(errno)))")
  }
}
