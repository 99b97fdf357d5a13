import Checking
import Common
import Loop
import Transfers

/// One ended transfer in the history: no credential, no claims, and nothing that identifies the phone.
public struct HistoryEntry: Hashable, Sendable {
  /// Number of the transfer, as in its object path and in the journal.
  public let transfer: Int
  /// Time of the result, in milliseconds since 1970-01-01 UTC.
  public let time: Int64
  /// Time from the begin of the transfer to its result, in milliseconds; 0 if it began in an earlier run.
  public let duration: Int64
  /// Result of the transfer: `accepted`, `rejected`, `undecided` or `failed`.
  public let result: String
  /// Code of the error, or the codes of the checker's reasons, separated by blanks; empty if there are none.
  public let reason: String
  /// Name of the issuer in the trust folder; empty if it is unknown.
  public let issuer: String

  /// Maximum length of `reason` and of `issuer`, in bytes.
  static let textLimit = 200

  init(transfer: Int, time: Int64, duration: Int64, result: String, reason: String, issuer: String) {
    (self.transfer, self.time, self.duration) = (transfer, time, duration)
    (self.result, self.reason, self.issuer) = (result, Self.cut(reason), Self.cut(issuer))
  }

  /// The entry for a transfer that has a result; nil for any other.
  ///
  /// - Parameter now: milliseconds since 1970-01-01 UTC.
  @LoopActor
  init?(_ transfer: Transfer, at now: Int64) {
    guard transfer.state.isEnd else { return nil }
    var (reason, issuer) = ("", "")
    if case .done(let verdict) = transfer.check {
      (reason, issuer) = (verdict.reasons.map(\.code).joined(separator: " "), verdict.issuer)
    }
    self.init(
      transfer: transfer.number, time: now, duration: transfer.age?.wholeMilliseconds ?? 0,
      result: transfer.state.rawValue, reason: transfer.error?.code ?? reason, issuer: issuer)
  }

  /// The text, cut before the first character beyond the limit.
  private static func cut(_ text: String) -> String {
    guard text.utf8.count > textLimit else { return text }
    var (cut, count) = ("", 0)
    for character in text {
      count += character.utf8.count
      guard count <= textLimit else { break }
      cut.append(character)
    }
    return cut
  }
}
