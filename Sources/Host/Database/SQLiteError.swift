import CSQLite
import Common
import Glibc

/// The reason why a database could not be opened, read or written, with what an administrator can do.
public struct SQLiteError: CodedError, Hashable, CustomStringConvertible {
  public enum Reason: String, CaseIterable, Sendable {
    /// The disk, the quota, or the maximum number of pages is reached.
    case full = "Full"
    /// The file's content is inconsistent.
    case damaged = "Damaged"
    /// The disk reports an error.
    case diskFailed = "DiskFailed"
    /// The file is open in another process, or in another part of this one.
    case locked = "Locked"
    case notADatabase = "NotADatabase"
    case readOnly = "ReadOnly"
    case notPermitted = "NotPermitted"
    case missing = "Missing"
    /// A value is longer than the limit, or a row violates a constraint.
    case refused = "Refused"
    case failed = "Failed"
  }

  public let reason: Reason
  public let sentence: String
  /// SQLite's extended result code.
  public let number: Int32

  public var code: String { reason.rawValue }
  public var description: String { "\(code): \(sentence)" }

  /// Describes a result code for the administrator.
  ///
  /// - Parameters:
  ///   - number: SQLite's extended result code.
  ///   - systemError: `errno` of the failed system call, 0 if none failed.
  ///   - doing: completes "cannot be …": `written`.
  ///   - path: the path of the database.
  init(_ number: Int32, systemError: Int32 = 0, _ doing: String, _ path: String) {
    self.number = number
    let reason = Self.reason(number, systemError)
    self.reason = reason
    let start = "\(PrintableText.clean(path)) cannot be \(doing)"
    sentence =
      switch reason {
      case .full: "\(start): the disk or the quota is full. Free space there."
      case .damaged: "\(start): it is damaged. See the kernel log (journalctl -k), and check the disk."
      case .diskFailed: "\(start): the disk failed. See the kernel log (journalctl -k), and replace the disk."
      case .locked: "\(start): another process uses it. Stop that process."
      case .notADatabase: "\(start): it is damaged, or not a database."
      case .readOnly: "\(start): it, or its file system, is read-only. Remount it writable, or choose another."
      case .notPermitted: "\(start): the service's user has no permission. Make it the owner."
      case .missing: "\(start): there is no such file or directory."
      case .refused, .failed: "\(start): \(Self.words(number)) (SQLite \(number))."
      }
  }

  /// Describes an error of the library or its settings, without a failed call.
  init(_ reason: Reason, _ sentence: String) {
    self.reason = reason
    self.sentence = sentence
    number = SQLITE_ERROR
  }

  private static func reason(_ number: Int32, _ systemError: Int32) -> Reason {
    // The lowest byte is the primary result code.
    switch number & 0xFF {
    case SQLITE_FULL: .full
    case SQLITE_CORRUPT: .damaged
    case SQLITE_NOTADB: .notADatabase
    case SQLITE_BUSY, SQLITE_LOCKED: .locked
    case SQLITE_READONLY: .readOnly
    case SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH: .refused
    case SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH: reason(ofDisk: number, systemError)
    default: .failed
    }
  }

  private static func reason(ofDisk number: Int32, _ systemError: Int32) -> Reason {
    let noMemory = SQLITE_IOERR | 12 << 8
    if number == noMemory { return .failed }
    return switch systemError {
    // SQLite itself handles only ENOSPC.
    case ENOSPC, EDQUOT, EFBIG: .full
    case EROFS: .readOnly
    case EACCES, EPERM: .notPermitted
    case ENOENT: .missing
    default: number & 0xFF == SQLITE_IOERR ? .diskFailed : .notPermitted
    }
  }

  private static func words(_ number: Int32) -> String {
    sqlite3_errstr(number).map { String(cString: $0) } ?? "unknown error"
  }
}
