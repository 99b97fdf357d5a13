import Common

/// What dialect S needs to remember: the talks about versions with neighbours, and the lines that were heard in it. Facts:
/// bitchat.md section 16.1.
struct SeedTalks: Sendable {
  /// A talk over one link.
  struct Talk: Sendable {
    let peer: PeerID
    /// When this node has said hello; nil if it has not.
    var greetedAt: Instant?
    /// Whether the peer has: then it speaks dialect S.
    var hasGreeted = false
    /// When a hello of the peer's was answered last.
    var answeredAt: Instant?
    /// The version that both agree on, or that is assumed for want of an answer; nil as long as one is awaited.
    var agreed: PacketVersion?
  }

  /// So long the answer to a hello is awaited; a peer without one speaks version 1.
  static let answerTime = Duration.seconds(10)
  /// From one answer on a link to the next.
  static let answerPause = Duration.seconds(1)
  /// From one fragment to the next.
  static let fragmentPause = Duration.milliseconds(200)
  /// The longest filter in a request for sync.
  static let filterBytes = 256

  private(set) var talks: [LinkID: Talk] = [:]
  /// Lines that were told, or are known, by the IDs that they have in the live dialect: some come in both.
  private var lines = RecentPackets<PacketID>(
    limit: GossipArchive.messageLimit, lifetime: .milliseconds(GossipArchive.messageMilliseconds))

  subscript(link: LinkID) -> Talk? { talks[link] }

  /// Whether a neighbour has said hello.
  func hasGreeted(_ peer: PeerID) -> Bool { talks.values.contains { $0.peer == peer && $0.hasGreeted } }

  /// When `expire` has something to do; nil if no answer is awaited.
  var deadline: Instant? {
    guard !talks.isEmpty else { return nil }
    return talks.values.filter { $0.agreed == nil }.compactMap { $0.greetedAt?.advanced(by: Self.answerTime) }.min()
  }

  /// This node says hello.
  mutating func greet(_ peer: PeerID, on link: LinkID, at now: Instant) {
    change(link, peer) { $0.greetedAt = now }
  }

  /// A neighbour has said hello.
  ///
  /// - Returns: whether it gets an answer.
  mutating func hear(_ peer: PeerID, on link: LinkID, at now: Instant) -> Bool {
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

  /// Peers that did not answer speak version 1.
  mutating func expire(at now: Instant) {
    for (link, talk) in talks where talk.agreed == nil {
      if let greetedAt = talk.greetedAt, greetedAt.duration(to: now) >= Self.answerTime { talks[link]?.agreed = .v1 }
    }
  }

  mutating func end(_ link: LinkID) { talks[link] = nil }

  /// The peer says no longer that it speaks dialect S.
  mutating func end(with peer: PeerID) { talks = talks.filter { $0.value.peer != peer } }

  mutating func endAll() { talks = [:] }

  // MARK: Lines

  /// Whether a line was heard in dialect S.
  mutating func hasHeard(_ line: PacketID, at now: Instant) -> Bool { lines.see(line, at: now) }

  mutating func note(_ line: PacketID, at now: Instant) { lines.insert(line, at: now) }

  private mutating func change<Result>(_ link: LinkID, _ peer: PeerID, _ body: (inout Talk) -> Result) -> Result {
    // Another peer's talk ends where the link is another peer's.
    var talk = talks[link].flatMap { $0.peer == peer ? $0 : nil } ?? Talk(peer: peer)
    defer { talks[link] = talk }
    return body(&talk)
  }
}
