internal import CDBus
import Glibc

/// Bytes in anonymous memory that is passed as a descriptor: for what is too large or too private for a message.
public enum MemFD {
  private static let allowSealing: UInt32 = 0x0002
  private static let closeOnExec: UInt32 = 0x0001
  private static let addSeals: Int32 = 1033
  /// No further seals, no shrinking, no growing, no writing.
  private static let allSeals: Int32 = 0x0001 | 0x0002 | 0x0004 | 0x0008
  private static let nameLimit = 249

  private static let getSeals: Int32 = 1034
  /// No seal can be added: a file in memory that nobody can seal says this of itself, and so does one on an ordinary tmpfs.
  private static let sealOfSeals: Int32 = 0x0001

  /// Whether a descriptor is a memory file that could be sealed, and is not: another program may change it at any time.
  static func isUnsealed(_ descriptor: Int32) -> Bool {
    let seals = fcntl(descriptor, getSeals)
    let content = allSeals & ~sealOfSeals
    return seals >= 0 && seals != sealOfSeals && seals & content != content
  }

  /// A memory file with `bytes` in it that no program can change any more, to be read from its beginning.
  ///
  /// - Parameter name: shown in `/proc`, for debugging only.
  public static func sealed(_ bytes: [UInt8], name: String) throws(DBusError) -> FileDescriptor {
    guard Validity.isText(name), name.utf8.count <= nameLimit else {
      throw .invalidArgs("A memory file's name has at most \(nameLimit) bytes and no NUL.")
    }
    let descriptor = memfd_create(name, closeOnExec | allowSealing)
    guard descriptor >= 0 else { throw .failed("No memory file: \(reason(errno)).") }
    let file = FileDescriptor(owning: descriptor)
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes {
        pwrite(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written, off_t(written))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw .failed("The memory file cannot be written: \(reason(errno)).") }
      written += count
    }
    guard fcntl(descriptor, addSeals, allSeals) == 0 else {
      throw .failed("The memory file cannot be sealed: \(reason(errno)).")
    }
    return file
  }
}
