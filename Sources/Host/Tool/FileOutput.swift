import CommandLine
import DBus
import Glibc

/// Reading files for the user, and errors about files.
public enum FileOutput {
  /// Maximum bytes to read, larger than all limits of the service, which reports its own limit.
  private static let readLimit = 128 << 20

  /// Reads to the end; blocks while the writer of a pipe is slow.
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
