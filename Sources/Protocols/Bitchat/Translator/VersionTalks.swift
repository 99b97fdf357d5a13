import BitchatWire
import Common

/// Version negotiation of dialect S with neighbours, per link. Facts: bitchat.md section 16.1.
struct VersionTalks: Sendable {
  /// State of the version negotiation on one link.
  struct Talk: Sendable {
    let peer: PeerID
    /// When this node sent its hello; nil if it has not.
    var greetedAt: Instant?
    /// Whether the peer has sent a hello, which shows that it speaks dialect S.
    var hasGreeted = false
    /// When this node last answered a hello of the peer.
    var answeredAt: Instant?
    /// Agreed version, or version 1 after a timeout; nil while an answer is awaited.
    var agreed: PacketVersion?
  }

  /// Timeout of the answer to a hello; the peer then counts as speaking version 1.
  static let answerTime = Duration.seconds(10)
  /// Minimum time between answers on a link.
  static let answerPause = Duration.seconds(1)
  private(set) var talks: [LinkID: Talk] = [:]
  subscript(link: LinkID) -> Talk? { talks[link] }

  /// Whether a neighbour has sent a hello.
  func hasGreeted(_ peer: PeerID) -> Bool { talks.values.contains { $0.peer == peer && $0.hasGreeted } }

  /// Next time at which `expire` has work; nil if no answer is awaited.
  var deadline: Instant? {
    guard !talks.isEmpty else { return nil }
    return talks.values.filter { $0.agreed == nil }.compactMap { $0.greetedAt?.advanced(by: Self.answerTime) }.min()
  }

  /// Records a hello of this node.
  mutating func greet(_ peer: PeerID, on link: LinkID, at now: Instant) {
    change(link, peer) { $0.greetedAt = now }
  }

  /// Records a neighbour's hello.
  ///
  /// - Returns: whether it must be answered.
  mutating func handleHello(of peer: PeerID, on link: LinkID, at now: Instant) -> Bool {
    change(link, peer) { talk in
      talk.hasGreeted = true
      if let answeredAt = talk.answeredAt, answeredAt.duration(to: now) < Self.answerPause { return false }
      talk.answeredAt = now
      return true
    }
  }

  mutating func agree(on version: PacketVersion, with peer: PeerID, on link: LinkID) {
    change(link, peer) { $0.agreed = version }
  }

  /// Assumes version 1 for peers that did not answer in time.
  mutating func expire(at now: Instant) {
    for (link, talk) in talks where talk.agreed == nil {
      if let greetedAt = talk.greetedAt, greetedAt.duration(to: now) >= Self.answerTime { talks[link]?.agreed = .v1 }
    }
  }

  mutating func end(_ link: LinkID) { talks[link] = nil }

  /// Ends the negotiation with a peer that no longer announces dialect S.
  mutating func end(with peer: PeerID) { talks = talks.filter { $0.value.peer != peer } }

  mutating func endAll() { talks = [:] }

  private mutating func change<Result>(_ link: LinkID, _ peer: PeerID, _ body: (inout Talk) -> Result) -> Result {
    // If the link now belongs to another peer, the earlier negotiation ends.
    var talk = talks[link].flatMap { $0.peer == peer ? $0 : nil } ?? Talk(peer: peer)
    defer { talks[link] = talk }
    return body(&talk)
  }
}
