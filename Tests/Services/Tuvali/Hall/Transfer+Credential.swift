import Checking
import Transfers

extension Transfer {
  /// The bytes of the credential; nil where there is none.
  public var credential: [UInt8]? { text.flatMap { try? $0.bytes() } }

  /// The checker's verdict; nil before it.
  public var verdict: CheckVerdict? { if case .done(let verdict) = check { verdict } else { nil } }

  /// The claims as JSON; nil if there are none.
  public var claims: String? { verdictDocument.flatMap { try? $0.bytes() }.flatMap { CheckReply.claims(in: $0) } }
}
