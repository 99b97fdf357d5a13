import Common

/// Decides which links get a slot, and whether an incoming link replaces another.
///
/// Some slots are reserved for outgoing links, so that peers that connect cannot isolate the node from others.
struct LinkSlots: Sendable {
  /// Share of the slots that is reserved for outgoing links: one slot in `ownShare`, but at least `fewestOwn`.
  static let ownShare = 3
  /// Minimum of the reserved slots. With this number of slots or fewer in all, none is reserved.
  static let fewestOwn = 2
  /// Minimum time of a link in its slot while its peer is unknown. The apps announce themselves within a second, and
  /// again soon.
  static let unknownTime = Duration.seconds(5)
  /// Minimum time of a link with a known peer. A phone that loses its link reconnects at once; without a minimum,
  /// phones would replace each other endlessly.
  static let knownTime = Duration.seconds(300)

  /// A link, or an attempt to connect, that occupies a slot.
  struct Holder: Sendable {
    /// Relation of the peer to this node.
    enum Peer: Sendable {
      /// The peer has not announced itself, or has left.
      case unknown
      case known
      /// The peer is a favourite, or verified.
      case chosen
    }

    let link: LinkID
    /// Whether this node initiated the link.
    let isOurs: Bool
    /// Whether the link is still being established, and can be abandoned.
    var isAttempt = false
    /// Time since which the link has its slot.
    let since: Instant
    let peer: Peer
  }

  /// Decision whether an incoming link gets a slot.
  enum Outcome: Hashable, Sendable {
    /// A slot is free, and the incoming link gets it.
    case free
    /// This link must be evicted first.
    case insteadOf(LinkID)
    /// No slot is free and none may be freed, so the incoming link is refused.
    case full
  }

  /// Maximum number of links, including attempts to connect.
  let limit: Int
  let holders: [Holder]

  init(_ limit: Int, _ holders: [Holder]) {
    (self.limit, self.holders) = (limit, holders)
  }

  /// Number of slots reserved for outgoing links.
  var own: Int { limit > Self.fewestOwn ? max(Self.fewestOwn, limit / Self.ownShare) : 0 }

  /// Decides whether an incoming link gets a slot, and which link it replaces.
  func outcome(at now: Instant) -> Outcome {
    let theirs = holders.filter { !$0.isOurs }
    if hasPlace(holders.count, theirs.count) { return .free }
    // An incoming link replaces an attempt. Otherwise two nodes with one slot each, which try others, would reject each
    // other.
    if hasPlace(holders.count - 1, theirs.count), let attempt = holders.first(where: \.isAttempt) {
      return .insteadOf(attempt.link)
    }
    // After the limit was lowered, more than one link would have to be evicted.
    guard hasPlace(holders.count - 1, theirs.count - 1), let first = Self.first(of: theirs, at: now) else {
      return .full
    }
    return .insteadOf(first.link)
  }

  /// Whether a slot is free for one more incoming link, beside `all` links of which `theirs` are incoming.
  private func hasPlace(_ all: Int, _ theirs: Int) -> Bool { all < limit && theirs < limit - own }

  /// Link to evict: the oldest with an unknown peer, else the oldest with a known one. Links of favourites and verified
  /// peers are not evicted.
  private static func first(of theirs: [Holder], at now: Instant) -> Holder? {
    oldest(.unknown, of: theirs, from: unknownTime, at: now) ?? oldest(.known, of: theirs, from: knownTime, at: now)
  }

  private static func oldest(
    _ peer: Holder.Peer, of theirs: [Holder], from age: Duration, at now: Instant
  ) -> Holder? {
    theirs.filter { $0.peer == peer && $0.since.advanced(by: age) <= now }
      .min { ($0.since, $0.link.number) < ($1.since, $1.link.number) }
  }
}
