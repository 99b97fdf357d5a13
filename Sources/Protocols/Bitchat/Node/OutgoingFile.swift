import Common

/// State of a file of this node.
public enum FileState: Hashable, Sendable {
  /// The file waits for other files, a neighbour, the peer, or a session with it.
  case waiting
  /// The file is being sent, or awaits the peer's acknowledgement.
  case sending
  /// All packets were queued on the links (of a public file, on at least one), and no acknowledgement is expected: it
  /// is public, or the phone sends none. The last packets may still wait for the radio.
  case sent
  /// The peer has acknowledged the file.
  case delivered
  case failed(FileFailure)
  case cancelled

  /// Whether the state is final.
  public var isEnd: Bool {
    switch self {
    case .waiting, .sending: false
    case .sent, .delivered, .failed, .cancelled: true
    }
  }
}

/// Reason why a file was not sent.
public enum FileFailure: String, Error, CaseIterable, Hashable, Sendable {
  /// The peer has not stated inside Noise that it accepts private files.
  case noPrivateFiles
  /// The peer has acknowledged none of the tries.
  case unanswered
  /// The peer, or any neighbour, was out of range for a day.
  case away
  /// No packet can carry the file, or the links failed repeatedly.
  case unsendable
}

/// Packets in which a file is sent.
public enum FilePackets: Hashable, Sendable {
  /// Fragments with this ID.
  case fragments(FragmentID)
  /// A single packet with these bytes.
  case whole([UInt8])

  /// Whether the packet is one of them, as first sent or as a sync answer.
  public func contains(_ bytes: [UInt8]) -> Bool {
    switch self {
    case .fragments(let id): FragmentID(ofPacket: bytes) == id
    case .whole(let packet):
      // A sync answer differs in TTL and flags.
      bytes.count == packet.count && bytes.indices.allSatisfy { $0 == 2 || $0 == 11 || bytes[$0] == packet[$0] }
    }
  }
}

/// File of this node that is under way.
struct OutgoingFile: Sendable {
  enum Phase: Hashable, Sendable {
    /// Waiting; checked at this time.
    case waiting(Instant)
    case sending
    /// All packets were sent; the peer may acknowledge until this time.
    case unanswered(until: Instant)
  }

  /// Encoded packet with the file, and its fragmentation.
  struct Cut: Sendable {
    let bytes: [UInt8]
    /// Nil for a packet without fragments.
    let cutter: FragmentCutter?
    /// Time and timestamp of the packet.
    let madeAt: Instant
    var count: Int { cutter?.count ?? 1 }
    var packets: FilePackets { cutter.map { .fragments($0.id) } ?? .whole(bytes) }
  }

  let number: UInt32
  let file: SharedFile
  /// Recipient; nil for a public file.
  let peer: PeerID?
  let begunAt: Instant
  var phase: Phase
  /// Message ID of the peer's receipt; nil if none is expected.
  var receipt: MessageID?
  /// When the peer last had a session in which to state its capabilities.
  var askedAt: Instant?
  /// Whether this node has begun a new session so that the peer states its capabilities again.
  var hasAskedAnew = false
  var cut: Cut?
  /// Index of the next packet per link.
  var legs: [LinkID: Int] = [:]
  /// Timestamp of repeated or late fragments; nil if it equals the packet's.
  var repeatedTime: UInt64?
  /// When the timestamp becomes too old.
  var staleAt = Instant.zero
  var tries = 0
  /// Repetitions of the current packet.
  var repetitions = 0
  /// Percentage that was last reported to the service.
  var percent = 0
  /// Whether fragments are paced for phones on all links.
  var isSlow = false
  /// Whether there is a new session since the packet was sealed: the peer may not have the old keys.
  var isOfEarlierSession = false
  /// Whether sending paused for another service since the packet was made.
  var wasHeld = false

  init(number: UInt32, file: SharedFile, peer: PeerID?, at now: Instant) {
    (self.number, self.file, self.peer, begunAt) = (number, file, peer, now)
    phase = .waiting(now)
  }

  /// Whether some link has received all packets. Distinguishes a finished file from one whose links have ended.
  var isWhole = false

  /// Number of packets left to send, over all links.
  var left: Int { legs.values.reduce(0) { $0 + (cut?.count ?? 0) - $1 } }

  /// Percentage sent on the slowest link.
  var sentPercent: Int {
    guard let count = cut?.count, count > 0, let least = legs.values.min() else { return 100 }
    return least * 100 / count
  }
}
