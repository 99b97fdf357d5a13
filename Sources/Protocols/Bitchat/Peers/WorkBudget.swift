import Common

/// What strangers may have this node do: signatures to check and new identities, for each link and for all together.
struct WorkBudget: Sendable {
  /// Signatures a second for each link, and for all.
  static let signaturesOfLink = 300
  static let signatures = 1000
  /// New identities a second for each link, and for all.
  static let identitiesOfLink = 10
  static let identities = 30
  /// The part of a second's signatures that only announces of known peers may use.
  private static let reserved = 0.1

  private struct Share: Sendable {
    var signatures = TokenBucket(signaturesOfLink)
    var identities = TokenBucket(identitiesOfLink)
  }

  private var shares: [LinkID: Share] = [:]
  private var allSignatures = TokenBucket(signatures)
  private var allIdentities = TokenBucket(identities)

  /// Whether a signature of a packet from this link may be checked. Announces of known peers are the last to be refused.
  mutating func takeSignature(on link: LinkID, isKnownAnnounce: Bool, at now: Instant) -> Bool {
    let (ofLink, ofAll) =
      isKnownAnnounce
      ? (0, 0) : (Self.reserved * Double(Self.signaturesOfLink), Self.reserved * Double(Self.signatures))
    guard shares[link, default: Share()].signatures.take(at: now, reserve: ofLink) else { return false }
    guard allSignatures.take(at: now, reserve: ofAll) else {
      shares[link]?.signatures.giveBack()
      return false
    }
    return true
  }

  /// Whether an identity that nobody knew may come in by this link.
  mutating func takeIdentity(on link: LinkID, at now: Instant) -> Bool {
    guard shares[link, default: Share()].identities.take(at: now) else { return false }
    guard allIdentities.take(at: now) else {
      shares[link]?.identities.giveBack()
      return false
    }
    return true
  }

  /// A link is gone, and its share with it. What the link has used of all is used.
  mutating func forget(_ link: LinkID) { shares[link] = nil }
}
