import Bitchat
import Common

/// What a frame is to the statistics.
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

/// What went over the air, summed up. Sums of parts are sums of the whole, however the nodes are divided.
struct FieldTally: Sendable {
  struct Frames: Sendable, Hashable {
    var frames: UInt64 = 0
    var bytes: UInt64 = 0
    /// Nanoseconds.
    var airtime: UInt64 = 0
  }

  /// A message by its sender and its time.
  struct MessageKey: Hashable, Sendable {
    let sender: UInt64
    let timestamp: UInt64

    init(sender: UInt64, timestamp: UInt64) { (self.sender, self.timestamp) = (sender, timestamp) }

    /// Of a packet of version 1 or 2.
    init(_ bytes: [UInt8]) {
      func number(_ offset: Int) -> UInt64 { bytes[offset..<offset + 8].reduce(0) { $0 << 8 | UInt64($1) } }
      self.init(sender: number(bytes[0] == 2 ? 16 : 14), timestamp: number(3))
    }
  }

  /// Frames that carried a message: flooded, and in answer to requests.
  struct Carried: Sendable, Hashable {
    var flooded: UInt64 = 0
    var answered: UInt64 = 0
    /// Those that arrived.
    var floodedHere: UInt64 = 0
    var answeredHere: UInt64 = 0
  }

  /// By kind.
  var frames = FrameKind.allCases.map { _ in Frames() }
  var carried: [MessageKey: Carried] = [:]
  /// Which message a packet is.
  var numbers: [MessageKey: Int] = [:]
  var lost: UInt64 = 0
  var arrived: UInt64 = 0
  /// Frames that the queue of a link had no room for.
  var dropped: UInt64 = 0
  var cuts: UInt64 = 0
  /// Public messages that their sender could not say.
  var unsaid: [Int] = []
  /// How often each envelope was handed on, by what is sealed in it: from the sender on, to those who carry it and to its recipient.
  var handOvers: [[UInt8]: Int] = [:]
  /// When the sender of a private message had its receipt, in milliseconds.
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

  /// How long a frame occupies the air, in nanoseconds: LE 1M, data length extension, each packet acknowledged by an empty one.
  ///
  /// A packet has 10 bytes around at most 251, of 8 µs each; the empty one has 10; between any two are 150 µs. ATT and L2CAP add 7 bytes.
  static func airtime(_ bytes: Int) -> Int {
    let payload = bytes + 7
    let packets = (payload + 250) / 251
    return 1000 * (8 * (payload + 20 * packets) + 300 * packets)
  }
}
