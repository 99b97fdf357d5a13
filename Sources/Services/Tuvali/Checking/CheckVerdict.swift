import Common

/// Verdict of a checker on a credential, or the reason why there is none.
///
/// Its texts come from another process that has read a hostile credential: their lengths are bounded, and control
/// characters are replaced. The document holds personal claims and is never printed.
public struct CheckVerdict: Sendable, Equatable {
  /// The checker's verdict in one word.
  public enum Word: String, Sendable, CaseIterable {
    case valid, invalid, untrusted, revoked, expired, notYetValid, undecided
  }

  /// Finding of a check: a stable code, and a sentence for people.
  public struct Reason: Sendable, Hashable {
    public let code: String
    public let sentence: String

    init(code: String, sentence: String) {
      (self.code, self.sentence) = (code, sentence)
    }
  }

  /// Reason why the checker gave no verdict; the verdict is then `undecided`.
  public enum Failure: Error, Sendable, Hashable {
    /// Nothing listens at the checker's socket, or this process may not connect.
    case missing(String)
    /// The checker ended without a complete verdict.
    case failed
    /// The checker gave no complete verdict within the time limit of a check.
    case timedOut(after: Duration)
    /// The checker sent something other than one verdict.
    case badReply(String)

    /// Stable code. `docs/check.md` lists these codes beside those of the checker.
    public var code: String {
      switch self {
      case .missing: "checkerMissing"
      case .failed: "checkerFailed"
      case .timedOut: "checkerTimedOut"
      case .badReply: "checkerReply"
      }
    }

    public var sentence: String {
      switch self {
      case .missing(let why): why
      case .failed: "The checker ended without a verdict."
      case .timedOut(let limit): "The checker gave no verdict within \(limit.components.seconds) s."
      case .badReply(let what): "The checker did not send a valid verdict: \(what)."
      }
    }
  }

  public let word: Word
  public let reasons: [Reason]
  /// Name of the issuer in the trust folder; empty if no trust entry was used.
  public let issuer: String
  /// Signed type of the credential; empty if unknown.
  public let type: String
  /// Complete verdict as JSON (UTF-8), with the claims; empty if the checker gave none, or after `forgetClaims`.
  public private(set) var document: [UInt8]
  /// Reason why the checker gave no verdict; nil if it gave one.
  public let failure: Failure?

  init(word: Word, reasons: [Reason], issuer: String, type: String, document: [UInt8]) {
    (self.word, self.reasons, self.issuer, self.type) = (word, reasons, issuer, type)
    (self.document, failure) = (document, nil)
  }

  public init(_ failure: Failure) {
    (word, issuer, type, document) = (.undecided, "", "", [])
    reasons = [Reason(code: failure.code, sentence: failure.sentence)]
    self.failure = failure
  }

  /// Claims that the signature covers and the trust folder allows, as JSON; nil if there are none.
  public var claims: String? { CheckReply.claims(in: document) }

  /// Drops the document, because the credential is erased.
  public mutating func forgetClaims() { document = [] }
}

extension CheckVerdict: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// Word and codes: `valid`, `revoked (revoked)`, `undecided (statusUnknown, tooComplex)`.
  public var description: String {
    reasons.isEmpty ? word.rawValue : "\(word.rawValue) (\(reasons.map(\.code).joined(separator: ", ")))"
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
