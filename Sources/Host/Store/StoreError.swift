import Common
import Glibc

/// The reason why data could not be stored, read or erased, with what an administrator can do.
public struct StoreError: CodedError, Hashable, CustomStringConvertible {
  public enum Reason: String, CaseIterable, Sendable {
    case diskFull = "DiskFull"
    case readOnly = "ReadOnly"
    case notPermitted = "NotPermitted"
    case missing = "Missing"
    case exists = "Exists"
    /// The directory is in use by another process.
    case inUse = "InUse"
    /// Other users than the service's can read or write the entry.
    case wrongMode = "WrongMode"
    case wrongOwner = "WrongOwner"
    /// The entry is a symbolic link, a pipe or a directory instead of a file, or vice versa.
    case wrongKind = "WrongKind"
    case tooLarge = "TooLarge"
    /// The content is invalid.
    case damaged = "Damaged"
    /// A later release wrote the file.
    case tooNew = "TooNew"
    /// An earlier or later release wrote the file, and this release cannot read it.
    case otherRelease = "OtherRelease"
    /// The file was sealed with a key that is not available.
    case keyMissing = "KeyMissing"
    /// A record does not fit into the limits of the spool.
    case spoolFull = "SpoolFull"
    /// The disk reports an error.
    case diskFailed = "DiskFailed"
    /// The disk does not respond.
    case diskStalled = "DiskStalled"
    case failed = "Failed"
  }

  public let reason: Reason
  public let sentence: String

  public init(_ reason: Reason, _ sentence: String) {
    self.reason = reason
    self.sentence = sentence
  }

  public var code: String { reason.rawValue }
  public var description: String { "\(code): \(sentence)" }
}

extension StoreError {
  /// Describes `errno` of a system call for the administrator.
  ///
  /// - Parameters:
  ///   - doing: completes "cannot be …": `written`.
  ///   - path: the path of the file or directory.
  public init(errno number: Int32, _ doing: String, _ path: String) {
    let path = PrintableText.clean(path)
    switch number {
    case ENOSPC, EDQUOT:
      self.init(.diskFull, "\(path) cannot be \(doing): the disk or the quota is full. Free space there.")
    case EROFS:
      self.init(
        .readOnly, "\(path) cannot be \(doing): its file system is read-only. Remount it writable, or choose another.")
    case EACCES, EPERM:
      self.init(
        .notPermitted,
        "\(path) cannot be \(doing): the service's user has no permission. Make it the owner, and let systemd create "
          + "the directory with StateDirectory=.")
    case ENOENT: self.init(.missing, "\(path) cannot be \(doing): there is no such file or directory.")
    case EEXIST, ENOTEMPTY: self.init(.exists, "\(path) cannot be \(doing): it already exists.")
    case EWOULDBLOCK:
      self.init(.inUse, "\(path) is used by another earshotd. Stop that process, or give it another directory.")
    case ELOOP, ENOTDIR, EISDIR: self.init(.wrongKind, "\(path) cannot be \(doing): it has the wrong file type.")
    case EFBIG: self.init(.tooLarge, "\(path) cannot be \(doing): it is larger than the file system or a limit allows.")
    case EIO:
      self.init(
        .diskFailed,
        "\(path) cannot be \(doing): the disk failed. See the kernel log (journalctl -k), and replace the disk.")
    default:
      let reason = strerror(number).map { String(cString: $0) } ?? "error \(number)"
      self.init(.failed, "\(path) cannot be \(doing): \(reason).")
    }
  }

  static func damaged(_ path: String, _ what: String) -> StoreError {
    StoreError(.damaged, "\(PrintableText.clean(path)) is damaged: \(what).")
  }
}
