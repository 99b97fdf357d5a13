internal import CMemFD
import Glibc

/// Files in anonymous memory that are passed as descriptors (memfd_create(2), fcntl(2) "File Sealing"): for what is too large
/// or too private for a message.
public enum MemoryFile {
  /// What the system refused, as `errno` says it.
  public struct Failure: Error, Hashable, Sendable {
    public let number: Int32
  }

  private static let closeOnExec: UInt32 = 0x0001
  private static let allowSealing: UInt32 = 0x0002
  private static let setLease: Int32 = 1024
  private static let addSeals: Int32 = 1033
  private static let getSeals: Int32 = 1034
  /// No seal can be added: a memory file that cannot be sealed says this of itself, and so does a file on an ordinary tmpfs.
  private static let sealOfSeals: Int32 = 0x0001
  /// No further seals, no shrinking, no growing, no writing.
  private static let allSeals: Int32 = sealOfSeals | 0x0002 | 0x0004 | 0x0008

  /// A memory file with `bytes` in it that no program can change any more, to be read from its beginning.
  ///
  /// - Parameter name: shown in `/proc`, for debugging only; at most 249 bytes (EINVAL).
  /// - Returns: a descriptor that is open for reading alone, and that the caller closes.
  public static func sealed(_ bytes: [UInt8], name: String) throws(Failure) -> Int32 {
    let descriptor = memfd_create(name, closeOnExec | allowSealing)
    guard descriptor >= 0 else { throw Failure(number: errno) }
    defer { close(descriptor) }
    guard fill(descriptor, with: bytes), fcntl(descriptor, addSeals, allSeals) == 0 else {
      throw Failure(number: errno)
    }
    return try reopened(descriptor)
  }

  /// The same file opened once more, for reading alone and from its beginning.
  public static func reopened(_ descriptor: Int32) throws(Failure) -> Int32 {
    let copy = open("/proc/self/fd/\(descriptor)", O_RDONLY | O_CLOEXEC)
    guard copy >= 0 else { throw Failure(number: errno) }
    return copy
  }

  /// Whether somebody else has the file open, be it another program or this one a second time. The kernel gives a lease for
  /// writing (fcntl(2) "Leases") to the only one who has a file open; it is given back at once.
  public static func isOpenElsewhere(_ descriptor: Int32) -> Bool {
    guard fcntl(descriptor, setLease, CInt(F_WRLCK)) == 0 else { return errno == EAGAIN }
    _ = fcntl(descriptor, setLease, CInt(F_UNLCK))
    return false
  }

  /// Whether a descriptor is a memory file that could be sealed, and is not: another program may change it at any time.
  public static func isUnsealed(_ descriptor: Int32) -> Bool {
    let seals = fcntl(descriptor, getSeals)
    let content = allSeals & ~sealOfSeals
    return seals >= 0 && seals != sealOfSeals && seals & content != content
  }

  /// Writes without moving the place at which the file is read.
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
