import DBus
import Glibc

/// Files that the tool reads and writes for its user.
public enum FileOutput {
  /// Writes `bytes` to a file that only its owner can read.
  public static func write(_ bytes: [UInt8], to path: String) throws(Failure) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure(path, "written") }
    defer { close(descriptor) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw failure(path, "written") }
      rest = rest.dropFirst(count)
    }
  }

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
  public static func failure(_ path: String, _ what: String) -> Failure {
    Failure(.failed, "\(path) cannot be \(what): \(String(cString: strerror(errno)))")
  }
}
