import CommandLine
import DBus
import Glibc

/// Files that the tool reads for its user, and what is said where one fails.
public enum FileOutput {
  /// Larger than any limit of the service's; it says what its own is.
  private static let readLimit = 128 << 20

  /// Reads what comes until it ends, a pipe's slow writer included.
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
