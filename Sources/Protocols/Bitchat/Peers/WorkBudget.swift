import Common

/// What strangers may have this node do: signatures to check and new identities, for each link and for all together.
struct WorkBudget: Sendable {
  /// Signatures a second for each link, and for all.
  static let signaturesOfLink = 300
  static let signatures = 1000
  /// Signatures a second that a link has beside those for all: other links cannot use them up.
  static let signaturesKept = 30
  /// New identities a second for each link, and for all.
  static let identitiesOfLink = 10
  static let identities = 30
  /// Keys of acquaintances a minute that are kept for the next run.
  static let pins = 60
  /// Bytes under a signature that cost as much as the signature itself.
  static let bytesPerSignature = 8192
  /// Bytes a second that the packets of a link may be inflated to. One packet of the longest has room.
  static let inflationOfLink = 2 << 20
  /// The part of a second's signatures that only announces of known peers may use.
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

  /// The links that something is kept of.
  var count: Int { shares.count }

  /// Whether a signature of a packet from this link may be checked. Announces of known peers are the last to be refused. Where
  /// the links together have used up what there is for all, each still has a little: which link a packet came over is the one
  /// thing about it that its sender cannot forge.
  mutating func takeSignature(on link: LinkID, isKnownAnnounce: Bool, at now: Instant) -> Bool {
    let (ofLink, ofAll) =
      isKnownAnnounce
      ? (0, 0) : (Self.reserved * Double(Self.signaturesOfLink), Self.reserved * Double(Self.signatures))
    guard shares[link, default: Share()].signatures.take(at: now, reserve: ofLink) else { return false }
    if allSignatures.take(at: now, reserve: ofAll) || shares[link]?.kept.take(at: now) == true { return true }
    shares[link]?.signatures.giveBack()
    return false
  }

  /// Whether the disk is given another key of a peer.
  mutating func takePin(at now: Instant) -> Bool { keptPins.take(at: now) }

  /// Pays for work that was done already.
  mutating func spend(_ signatures: Int, on link: LinkID) {
    guard signatures > 0 else { return }
    shares[link]?.signatures.spend(Double(signatures))
    allSignatures.spend(Double(signatures))
  }

  /// Whether a packet of this link may be inflated to so many bytes.
  mutating func takeInflation(of bytes: Int, on link: LinkID, at now: Instant) -> Bool {
    guard bytes > 0 else { return true }
    return shares[link, default: Share()].inflation.take(Double(bytes), at: now)
  }

  /// Whether a packet that anybody may have made comes in by this link, and goes on. Each type has its own share, and those
  /// that this node does not know have one together.
  ///
  /// - Parameter isFast: whether the other end is a node of this kind, which sends fragments as fast as the link takes them, and
  ///   confirms them.
  mutating func takeUnverified(_ type: MessageType, on link: LinkID, isFast: Bool = false, at now: Instant) -> Bool {
    if isFast, type == .fragment || type == .ping || type == .pong {
      return shares[link, default: Share()].fragments.take(at: now)
    }
    let limit = Self.unverified[type]
    return shares[link, default: Share()].unverified[
      limit == nil ? nil : type, default: TokenBucket(limit ?? Self.unknownOfLink)
    ].take(at: now)
  }

  /// Packets a second for each link. A phone sends a fragment every 20 ms, and may pass on those of others.
  static let unverified: [MessageType: Int] = [
    .fragment: 400, .noiseEncrypted: 200, .noiseHandshake: 50, .requestSync: 20, .courier: 50, .ping: 20, .pong: 20,
    .fileTransfer: 20,
    SeedNumbers.seed.fragmentStart: 400, SeedNumbers.seed.fragmentContinue: 400, SeedNumbers.seed.fragmentEnd: 400,
    SeedNumbers.seed.encrypted: 200,
  ]
  /// Fragments a second of a link to a node of this kind: more than any radio brings.
  static let fastFragments = 4000
  static let unknownOfLink = 100

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
