import Common

/// Who has the places for links, and what becomes of one more link that a peer makes. A value.
///
/// Some places are for links that the node makes itself, so that peers who connect to it cannot shut it off from all others.
struct LinkPlaces: Sendable {
  /// Of so many places one is for a link that the node makes, and no fewer than `fewestOwn` are; where there are no more places
  /// than that, peers may have them all.
  static let ownShare = 3
  static let fewestOwn = 2
  /// So long a link has its place at least while its peer is unknown. The apps say who they are within a second, and again soon.
  static let unknownTime = Duration.seconds(5)
  /// The same for one whose peer is known: a phone that loses its link is back at once, and would else take the place of the next
  /// one, and so on without end.
  static let knownTime = Duration.seconds(300)

  /// A link that has a place.
  struct Holder: Sendable {
    /// What the peer at the other end is to this node.
    enum Peer: Sendable {
      /// It has not said who it is, or has left.
      case unknown
      case known
      /// It is a favourite, or verified.
      case chosen
    }

    let link: LinkID
    /// Whether this node has made it.
    let isOurs: Bool
    /// Whether this node is still making it, and may yet be turned away.
    var isAttempt = false
    /// Since when it has its place.
    let since: Instant
    let peer: Peer
  }

  /// What becomes of one more link.
  enum Outcome: Hashable, Sendable {
    /// There is a place for it.
    case free
    /// There is one once this link has given way.
    case insteadOf(LinkID)
    /// There is none.
    case full
  }

  /// How many there are.
  let limit: Int
  let holders: [Holder]

  init(_ limit: Int, _ holders: [Holder]) {
    (self.limit, self.holders) = (limit, holders)
  }

  /// The places for links that this node makes.
  var own: Int { limit > Self.fewestOwn ? max(Self.fewestOwn, limit / Self.ownShare) : 0 }

  /// What becomes of one more link that a peer has made.
  func outcome(at now: Instant) -> Outcome {
    let theirs = holders.filter { !$0.isOurs }
    if hasPlace(holders.count, theirs.count) { return .free }
    // What has come is more than what may come: two who have one place each and try others would else turn each other away.
    if hasPlace(holders.count - 1, theirs.count), let attempt = holders.first(where: \.isAttempt) {
      return .insteadOf(attempt.link)
    }
    // Where the limit has been lowered, it takes more than one link to make room.
    guard hasPlace(holders.count - 1, theirs.count - 1), let first = Self.first(of: theirs, at: now) else {
      return .full
    }
    return .insteadOf(first.link)
  }

  /// Whether there is a place beside so many links, of which so many were made by peers.
  private func hasPlace(_ all: Int, _ theirs: Int) -> Bool { all < limit && theirs < limit - own }

  /// The link that gives way: one whose peer is unknown, or else the one that has had its place longest, but for favourites and
  /// verified peers.
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
