import Common
import Glibc

/// Why something could not be stored, read or erased, and what an administrator can do about it.
public struct StoreError: CodedError, Hashable, CustomStringConvertible {
  public enum Reason: String, CaseIterable, Sendable {
    case diskFull = "DiskFull"
    case readOnly = "ReadOnly"
    case notPermitted = "NotPermitted"
    case missing = "Missing"
    case exists = "Exists"
    /// Another process uses it.
    case inUse = "InUse"
    /// Users other than the service's may read or write it.
    case wrongMode = "WrongMode"
    case wrongOwner = "WrongOwner"
    /// It is a link, a pipe or a directory where a file belongs, or the other way round.
    case wrongKind = "WrongKind"
    case tooLarge = "TooLarge"
    /// What was read is not what was written.
    case damaged = "Damaged"
    /// It was written by a later release.
    case tooNew = "TooNew"
    /// Another release wrote it, an earlier or a later one, and this one cannot read it.
    case otherRelease = "OtherRelease"
    /// It was sealed with a key that is not at hand.
    case keyMissing = "KeyMissing"
    /// A record does not fit into the spool beside those that it holds.
    case spoolFull = "SpoolFull"
    /// The disk itself reports an error.
    case diskFailed = "DiskFailed"
    /// The disk does not answer.
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
  /// Says what a system call's error number means for the administrator.
  ///
  /// - Parameters:
  ///   - doing: completes "cannot be …": `written`.
  ///   - path: what it was done to.
  public init(errno number: Int32, _ doing: String, _ path: String) {
    let path = PrintableText.clean(path)
    switch number {
    case ENOSPC, EDQUOT:
      self.init(.diskFull, "\(path) cannot be \(doing): the disk or the quota is full. Make room there.")
    case EROFS:
      self.init(
        .readOnly, "\(path) cannot be \(doing): its file system is read-only. Remount it writable, or choose another.")
    case EACCES, EPERM:
      self.init(
        .notPermitted,
        "\(path) cannot be \(doing): this service's user may not. Make it the owner, and let systemd set up the "
          + "directory with StateDirectory=.")
    case ENOENT: self.init(.missing, "\(path) cannot be \(doing): there is no such file or directory.")
    case EEXIST, ENOTEMPTY: self.init(.exists, "\(path) cannot be \(doing): it exists already.")
    case EWOULDBLOCK:
      self.init(.inUse, "\(path) is used by another earshotd. Stop that one, or give it another directory.")
    case ELOOP, ENOTDIR, EISDIR: self.init(.wrongKind, "\(path) cannot be \(doing): it is of the wrong kind.")
    case EFBIG: self.init(.tooLarge, "\(path) cannot be \(doing): it is larger than the file system or a limit allows.")
    case EIO:
      self.init(.diskFailed, "\(path) cannot be \(doing): the disk failed. Look into the kernel's log and replace it.")
    default:
      let reason = strerror(number).map { String(cString: $0) } ?? "error \(number)"
      self.init(.failed, "\(path) cannot be \(doing): \(reason).")
    }
  }

  static func damaged(_ path: String, _ what: String) -> StoreError {
    StoreError(.damaged, "\(PrintableText.clean(path)) is damaged: \(what).")
  }
}
