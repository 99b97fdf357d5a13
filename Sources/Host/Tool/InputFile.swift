import CommandLine
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
