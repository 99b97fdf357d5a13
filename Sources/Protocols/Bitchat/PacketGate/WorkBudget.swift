import BitchatWire
import Common

/// Limits on work caused by strangers: checked signatures, inflation and new identities, per link and in all.
struct WorkBudget: Sendable {
  /// Signature checks per second for one link.
  static let signaturesOfLink = 300
  /// Signature checks per second for all links together.
  static let signatures = 1000
  /// Signatures per second reserved for each link beside the common limit; other links cannot use them up.
  static let signaturesKept = 30
  /// New identities per second over one link.
  static let identitiesOfLink = 10
  /// New identities per second over all links together.
  static let identities = 30
  /// Pinned keys of acquaintances that are persisted per minute.
  static let pins = 60
  /// Number of signed bytes that cost as much as one signature check.
  static let bytesPerSignature = 8192
  /// Bytes per second to which the packets of a link may be inflated. One packet of maximum length fits.
  static let inflationOfLink = 2 << 20
  /// Fraction of the signature limits reserved for announces of known peers.
  private static let reserved = 0.1

  private struct Share: Sendable {
    var signatures = TokenBucket(signaturesOfLink)
    var kept = TokenBucket(signaturesKept)
    var identities = TokenBucket(identitiesOfLink)
    var inflation = TokenBucket(inflationOfLink)
    var unverified: [MessageType?: TokenBucket] = [:]
    var fragments = TokenBucket(fastFragments)
  }

  private var shares: [LinkID: Share] = [:]
  private var allSignatures = TokenBucket(signatures)
  private var allIdentities = TokenBucket(identities)
  private var keptPins = TokenBucket(pins, each: .seconds(60))

  /// Number of links with an entry.
  var count: Int { shares.count }

  /// Whether a signature of a packet from this link may be checked; counts it if so. Announces of known peers are
  /// rejected last. If the common limit is used up, each link still has a small reserve, because the link of a packet
  /// cannot be forged.
  mutating func takeSignature(on link: LinkID, isKnownAnnounce: Bool, at now: Instant) -> Bool {
    let (ofLink, ofAll) =
      isKnownAnnounce
      ? (0, 0) : (Self.reserved * Double(Self.signaturesOfLink), Self.reserved * Double(Self.signatures))
    guard shares[link, default: Share()].signatures.take(at: now, reserve: ofLink) else { return false }
    if allSignatures.take(at: now, reserve: ofAll) || shares[link]?.kept.take(at: now) == true { return true }
    shares[link]?.signatures.giveBack()
    return false
  }

  /// Whether another pinned key may be persisted.
  mutating func takePin(at now: Instant) -> Bool { keptPins.take(at: now) }

  /// Subtracts signature checks that were already computed from the budget of the link and of all links.
  mutating func spend(_ signatures: Int, on link: LinkID) {
    guard signatures > 0 else { return }
    shares[link]?.signatures.spend(Double(signatures))
    allSignatures.spend(Double(signatures))
  }

  /// Whether a packet of this link may be inflated to this size; counts it if so.
  mutating func takeInflation(of bytes: Int, on link: LinkID, at now: Instant) -> Bool {
    guard bytes > 0 else { return true }
    return shares[link, default: Share()].inflation.take(Double(bytes), at: now)
  }

  /// Whether an unverifiable packet of this link is accepted; counts it if so. Each known type has a limit of its own;
  /// all unknown types share one.
  ///
  /// - Parameter isFast: whether the other end is an Earshot peer, which sends fragments at the speed of the link, and
  ///   confirms them.
  mutating func takeUnverified(_ type: MessageType, on link: LinkID, isFast: Bool = false, at now: Instant) -> Bool {
    if isFast, type == .fragment || type == .ping || type == .pong {
      return shares[link, default: Share()].fragments.take(at: now)
    }
    let limit = Self.unverified[type] ?? Self.unverified[type.inLive]
    return shares[link, default: Share()].unverified[
      limit == nil ? nil : type, default: TokenBucket(limit ?? Self.unknownOfLink)
    ].take(at: now)
  }

  /// Packets per second and link. A phone sends a fragment every 20 ms, and may relay those of others.
  static let unverified: [MessageType: Int] = [
    .fragment: 400, .noiseEncrypted: 200, .noiseHandshake: 50, .requestSync: 20, .courier: 50, .ping: 20, .pong: 20,
    .fileTransfer: 20,
  ]
  /// Fragments per second on a link to an Earshot peer: more than any radio delivers.
  static let fastFragments = 4000
  static let unknownOfLink = 100

  /// Whether a new identity is accepted from this link; counts it if so.
  mutating func takeIdentity(on link: LinkID, at now: Instant) -> Bool {
    guard shares[link, default: Share()].identities.take(at: now) else { return false }
    guard allIdentities.take(at: now) else {
      shares[link]?.identities.giveBack()
      return false
    }
    return true
  }

  /// Removes a link and its limits. The common limits stay used.
  mutating func forget(_ link: LinkID) { shares[link] = nil }
}
