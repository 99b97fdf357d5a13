import Common

/// How far a file of this node has come.
public enum FileState: Hashable, Sendable {
  /// It waits for its turn, for a neighbour, for the peer, or for a session with it.
  case waiting
  /// It goes out, or the peer has not acknowledged it yet.
  case sending
  /// All of it was given to the links, or for everybody to one of them at least, and nothing more will be known: it is for
  /// everybody, or for a phone that acknowledges none. Its last packets may still wait for the radio.
  case sent
  /// The peer has it.
  case delivered
  case failed(FileFailure)
  case cancelled

  /// Whether nothing more happens to it.
  public var isEnd: Bool {
    switch self {
    case .waiting, .sending: false
    case .sent, .delivered, .failed, .cancelled: true
    }
  }
}

/// Why a file was not sent.
public enum FileFailure: String, Error, CaseIterable, Hashable, Sendable {
  /// The peer has not shown, inside Noise, that it takes private files.
  case noPrivateFiles
  /// The peer has not acknowledged it, in however many tries.
  case unanswered
  /// The peer was not near for a day, or nobody was.
  case away
  /// No packet can carry it, or the links went again and again.
  case unsendable
}

/// The packets that a file goes out in.
public enum FilePackets: Hashable, Sendable {
  /// All fragments with this ID.
  case fragments(FragmentID)
  /// The one with these bytes.
  case whole([UInt8])

  /// Whether this is one of them, as it goes out first, or as the answer to a request for sync.
  public func contains(_ bytes: [UInt8]) -> Bool {
    switch self {
    case .fragments(let id): FragmentID(ofPacket: bytes) == id
    case .whole(let packet):
      // An answer has another time to live, and its mark among the flags.
      bytes.count == packet.count && bytes.indices.allSatisfy { $0 == 2 || $0 == 11 || bytes[$0] == packet[$0] }
    }
  }
}

/// A file of this node on its way.
struct OutgoingFile: Sendable {
  enum Phase: Hashable, Sendable {
    /// It is looked after at that moment.
    case waiting(Instant)
    case sending
    /// All of it went out, and the peer has until then to acknowledge it.
    case unanswered(until: Instant)
  }

  /// The packet that carries it, cut for the links that it goes to.
  struct Cut: Sendable {
    let bytes: [UInt8]
    /// Nil for a packet that needs no fragments.
    let cutter: FragmentCutter?
    /// When the packet was made, which is the time that it says.
    let madeAt: Instant
    var count: Int { cutter?.count ?? 1 }
    var packets: FilePackets { cutter.map { .fragments($0.id) } ?? .whole(bytes) }
  }

  let number: UInt32
  let file: SharedFile
  /// Nil for a file for everybody.
  let peer: PeerID?
  let begunAt: Instant
  var phase: Phase
  /// What it is called in the peer's receipt; nil if none will come.
  var receipt: MessageID?
  /// When the peer was last given a session in which to say what it takes.
  var askedAt: Instant?
  /// Whether this node has begun a new session, so that the peer says again what it takes.
  var hasAskedAnew = false
  var cut: Cut?
  /// The packets that are still to go over each link, by the index of the next one.
  var legs: [LinkID: Int] = [:]
  /// The time that the fragments say when it is another one than the packet's: they go out once more, or late.
  var repeatedTime: UInt64?
  /// When the time that they say has become too old.
  var staleAt = Instant.zero
  var tries = 0
  /// How often its present packet went out once more.
  var repetitions = 0
  /// In hundredths, as the service was told last.
  var percent = 0
  /// Whether it leaves no faster than a phone can follow, over whatever link.
  var isSlow = false
  /// Whether there is a new session with the peer since its packet was sealed: the peer may never have had the keys.
  var isOfEarlierSession = false
  /// Whether it waited, since its packet was made, for somebody else who needed the radio.
  var wasHeld = false

  init(number: UInt32, file: SharedFile, peer: PeerID?, at now: Instant) {
    (self.number, self.file, self.peer, begunAt) = (number, file, peer, now)
    phase = .waiting(now)
  }

  /// Whether some link got all of it: nothing is left to send, and not because all links went.
  var isWhole = false

  /// Packets that are still to go, over all links.
  var left: Int { legs.values.reduce(0) { $0 + (cut?.count ?? 0) - $1 } }

  /// How much went out on the link that is behind the others, in hundredths.
  var sentPercent: Int {
    guard let count = cut?.count, count > 0, let least = legs.values.min() else { return 100 }
    return least * 100 / count
  }
}
