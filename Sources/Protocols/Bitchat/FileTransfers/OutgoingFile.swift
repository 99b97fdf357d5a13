import BitchatWire
import Common

/// File of this node that is under way.
struct OutgoingFile: Sendable {
  enum Phase: Hashable, Sendable {
    /// The file waits for a peer or a link, which is checked again at this time.
    case waiting(Instant)
    case sending
    /// All packets were sent; the peer may acknowledge until this time.
    case unanswered(until: Instant)
  }

  /// Encoded packet with the file, and its fragmentation.
  struct Cut: Sendable {
    let bytes: [UInt8]
    /// Fragmentation of the packet; nil for a packet without fragments.
    let cutter: FragmentCutter?
    /// When the packet was made, which its timestamp states.
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
  /// Index of the next fragment that is sent over each link.
  var legs: [LinkID: Int] = [:]
  /// Timestamp of repeated or late fragments; nil if it equals the packet's.
  var repeatedTime: UInt64?
  /// When the packet's timestamp becomes too old for receivers, so that later fragments need a new one.
  var staleAt = Instant.zero
  var tries = 0
  /// Number of times that the fragments of the current packet were sent again.
  var repetitions = 0
  /// Percentage that was last reported to the service.
  var percent = 0
  /// Whether fragments are paced for phones on all links.
  var isSlow = false
  /// Whether a new session began after the packet was sealed, so that the peer may not have the old keys.
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

  /// Percentage of the file that was sent over the slowest link.
  var sentPercent: Int {
    guard let count = cut?.count, count > 0, let least = legs.values.min() else { return 100 }
    return least * 100 / count
  }
}
