import BitchatWire
import Common

/// Kind of a frame in the statistics.
enum FrameKind: Int, CaseIterable, Sendable {
  case announce, message, answer, request, handshake, encrypted, fragment, courier, leave, other

  init(_ bytes: [UInt8]) {
    guard bytes.count >= Limits.smallestPacket else {
      self = .other
      return
    }
    let type = MessageType(rawValue: bytes[1])
    if type == .requestSync {
      self = .request
    } else if bytes[2] == 0, PacketFlags(rawValue: bytes[11]).contains(.syncAnswer) {
      self = .answer
    } else {
      self =
        switch type {
        case .announce: .announce
        case .message: .message
        case .noiseHandshake: .handshake
        case .noiseEncrypted: .encrypted
        case .fragment: .fragment
        case .courier: .courier
        case .leave: .leave
        default: .other
        }
    }
  }
}

/// Totals of the simulated radio. They are additive over parts.
struct FieldTally: Sendable {
  struct Frames: Sendable, Hashable {
    var frames: UInt64 = 0
    var bytes: UInt64 = 0
    /// Total airtime, in nanoseconds.
    var airtime: UInt64 = 0
  }

  /// Identifies a message by sender and timestamp.
  struct MessageKey: Hashable, Sendable {
    let sender: UInt64
    let timestamp: UInt64

    init(sender: UInt64, timestamp: UInt64) { (self.sender, self.timestamp) = (sender, timestamp) }

    /// Reads sender and timestamp of a packet of version 1 or 2.
    init(_ bytes: [UInt8]) {
      func number(_ offset: Int) -> UInt64 { bytes[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) } }
      self.init(sender: number(bytes[0] == 2 ? 16 : 14), timestamp: number(3))
    }
  }

  /// Frames with a message, by flooding and by sync.
  struct Carried: Sendable, Hashable {
    var flooded: UInt64 = 0
    var answered: UInt64 = 0
    /// Frames of a message, sent by flooding, that arrived.
    var floodedHere: UInt64 = 0
    var answeredHere: UInt64 = 0
  }

  /// Number and airtime of the sent frames, by kind.
  var frames = FrameKind.allCases.map { _ in Frames() }
  var carried: [MessageKey: Carried] = [:]
  /// The numbers of the simulated messages, by sender and timestamp of their packets.
  var numbers: [MessageKey: Int] = [:]
  var lost: UInt64 = 0
  var arrived: UInt64 = 0
  /// Frames dropped by the queues of links.
  var dropped: UInt64 = 0
  var cuts: UInt64 = 0
  /// Wake-ups of nodes: events at least 1 ms after the last one. `timed` are those for a timer.
  var wakeUps: UInt64 = 0
  var timedWakeUps: UInt64 = 0
  /// Public messages that their sender could not send.
  var unsaid: [Int] = []
  /// Number of hand-overs of each envelope, by ciphertext: from the sender on, to couriers and to the recipient.
  var handOvers: [[UInt8]: Int] = [:]
  /// When the sender of a private message got its receipt, in milliseconds.
  var receipts: [Int: UInt32] = [:]

  mutating func add(_ other: FieldTally) {
    for (kind, frames) in other.frames.enumerated() {
      self.frames[kind].frames += frames.frames
      self.frames[kind].bytes += frames.bytes
      self.frames[kind].airtime += frames.airtime
    }
    for (key, carried) in other.carried {
      self.carried[key, default: Carried()].flooded += carried.flooded
      self.carried[key, default: Carried()].answered += carried.answered
      self.carried[key, default: Carried()].floodedHere += carried.floodedHere
      self.carried[key, default: Carried()].answeredHere += carried.answeredHere
    }
    numbers.merge(other.numbers) { old, _ in old }
    receipts.merge(other.receipts) { min($0, $1) }
    handOvers.merge(other.handOvers, uniquingKeysWith: +)
    lost += other.lost
    arrived += other.arrived
    dropped += other.dropped
    cuts += other.cuts
    wakeUps += other.wakeUps
    timedWakeUps += other.timedWakeUps
    unsaid += other.unsaid
  }

  mutating func countSent(_ bytes: [UInt8]) {
    let kind = FrameKind(bytes)
    frames[kind.rawValue].frames += 1
    frames[kind.rawValue].bytes += UInt64(bytes.count)
    frames[kind.rawValue].airtime += UInt64(Self.airtime(bytes.count))
    if kind == .message {
      carried[MessageKey(bytes), default: Carried()].flooded += 1
    } else if kind == .answer, bytes[1] == MessageType.message.rawValue {
      carried[MessageKey(bytes), default: Carried()].answered += 1
    } else if kind == .courier, bytes[2] == Limits.timeToLive, let packet = try? Packet(decoding: bytes),
      let envelope = try? CourierEnvelope(reading: packet.payload)
    {
      handOvers[Array(envelope.ciphertext.prefix(32)), default: 0] += 1
    }
  }

  mutating func countArrived(_ bytes: [UInt8]) {
    arrived += 1
    let kind = FrameKind(bytes)
    if kind == .message {
      carried[MessageKey(bytes), default: Carried()].floodedHere += 1
    } else if kind == .answer, bytes[1] == MessageType.message.rawValue {
      carried[MessageKey(bytes), default: Carried()].answeredHere += 1
    }
  }

  /// Airtime of a frame, in nanoseconds: LE 1M, data length extension, each packet acknowledged by an empty one.
  ///
  /// A packet has 10 bytes around up to 251 bytes, at 8 µs each. An empty one has 10 bytes; packets are 150 µs apart.
  /// ATT and L2CAP add 7 bytes.
  static func airtime(_ bytes: Int) -> Int {
    let payload = bytes + 7
    let packets = (payload + 250) / 251
    return 1000 * (8 * (payload + 20 * packets) + 300 * packets)
  }
}
