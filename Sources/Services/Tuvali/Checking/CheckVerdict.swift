import Common

/// A checker's verdict on a credential, or why there is none.
///
/// Its texts come from another process, which has read a hostile credential: their lengths are bounded, and what a terminal would
/// obey is replaced. The document holds claims about a person and is never printed.
public struct CheckVerdict: Sendable, Equatable {
  /// What is known about a credential.
  public enum Word: String, Sendable, CaseIterable {
    case valid, invalid, untrusted, revoked, expired, notYetValid, undecided
  }

  /// A finding: a stable code, and a sentence for people.
  public struct Reason: Sendable, Hashable {
    public let code: String
    public let sentence: String

    init(code: String, sentence: String) {
      (self.code, self.sentence) = (code, sentence)
    }
  }

  /// Why the checker gave no verdict; the verdict is then `undecided` for this reason.
  public enum Failure: Error, Sendable, Hashable {
    /// Nothing listens at the checker's socket, or this process may not connect.
    case missing(String)
    /// The checker ended without a complete verdict.
    case failed
    /// The checker gave no complete verdict within the time limit of a check.
    case timedOut(after: Duration)
    /// The checker sent something other than one verdict.
    case badReply(String)

    /// The stable code. `docs/check.md` lists these codes beside those of the checker.
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
      case .badReply(let what): "The checker did not send one verdict: \(what)."
      }
    }
  }

  public let word: Word
  public let reasons: [Reason]
  /// The issuer's name in the trust folder; empty if no trust entry was used.
  public let issuer: String
  /// The signed type of the credential; empty if it is unknown.
  public let type: String
  /// The whole verdict as JSON (UTF-8), with the claims; empty if the checker gave none, or after `forgetClaims`.
  public private(set) var document: [UInt8]
  /// Why the checker gave no verdict; nil if it gave one.
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

  /// The claims that the signature covers and the trust folder allows, as JSON; nil if there are none.
  public var claims: String? { CheckReply.claims(in: document) }

  /// Drops the document: the credential is erased.
  public mutating func forgetClaims() { document = [] }
}

extension CheckVerdict: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// `valid`, `revoked (revoked)`, `undecided (statusUnknown, tooComplex)`.
  public var description: String {
    reasons.isEmpty ? word.rawValue : "\(word.rawValue) (\(reasons.map(\.code).joined(separator: ", ")))"
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
