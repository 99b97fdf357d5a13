internal import CMemFD
import Glibc

/// Memory files that are passed as descriptors (memfd_create(2), fcntl(2) "File Sealing"), for data that is too large
/// or too private for a message.
public enum MemoryFile {
  /// An error of a system call, as `errno`.
  public struct Failure: Error, Hashable, Sendable {
    public let number: Int32
  }

  private static let closeOnExec: UInt32 = 0x0001
  private static let allowSealing: UInt32 = 0x0002
  private static let setLease: Int32 = 1024
  private static let addSeals: Int32 = 1033
  private static let getSeals: Int32 = 1034
  /// F_SEAL_SEAL: no seal can be added. A memory file that cannot be sealed has this seal, and so does a file on an
  /// ordinary tmpfs.
  private static let sealOfSeals: Int32 = 0x0001
  /// The seals against further seals, shrinking, growing and writing.
  private static let allSeals: Int32 = sealOfSeals | 0x0002 | 0x0004 | 0x0008

  /// Creates a memory file with `bytes` that no program can change, positioned at its beginning.
  ///
  /// - Parameter name: shown in `/proc`, for debugging only; at most 249 bytes (EINVAL).
  /// - Returns: a read-only descriptor, which the caller must close.
  public static func sealed(_ bytes: [UInt8], name: String) throws(Failure) -> Int32 {
    let descriptor = memfd_create(name, closeOnExec | allowSealing)
    guard descriptor >= 0 else { throw Failure(number: errno) }
    defer { close(descriptor) }
    guard fill(descriptor, with: bytes), fcntl(descriptor, addSeals, allSeals) == 0 else {
      throw Failure(number: errno)
    }
    return try reopened(descriptor)
  }

  /// Opens the same file again, read-only and positioned at its beginning.
  public static func reopened(_ descriptor: Int32) throws(Failure) -> Int32 {
    let copy = open("/proc/self/fd/\(descriptor)", O_RDONLY | O_CLOEXEC)
    guard copy >= 0 else { throw Failure(number: errno) }
    return copy
  }

  /// Whether the file is open elsewhere, in another program or a second time in this one. The kernel grants a write
  /// lease (fcntl(2) "Leases") only if the file is not open elsewhere; the lease is released immediately.
  public static func isOpenElsewhere(_ descriptor: Int32) -> Bool {
    guard fcntl(descriptor, setLease, CInt(F_WRLCK)) == 0 else { return errno == EAGAIN }
    _ = fcntl(descriptor, setLease, CInt(F_UNLCK))
    return false
  }

  /// Whether a descriptor is a memory file that could be sealed but is not, so that another program may change it.
  public static func isUnsealed(_ descriptor: Int32) -> Bool {
    let seals = fcntl(descriptor, getSeals)
    let content = allSeals & ~sealOfSeals
    return seals >= 0 && seals != sealOfSeals && seals & content != content
  }

  /// Writes without changing the file position.
  ///
  /// - Returns: false with the reason in `errno`.
  private static func fill(_ descriptor: Int32, with bytes: [UInt8]) -> Bool {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes {
        pwrite(descriptor, $0.baseAddress?.advanced(by: written), $0.count - written, off_t(written))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      written += count
    }
    return true
  }
}
