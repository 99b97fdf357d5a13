import BitchatWire
import Common
import Crypto

/// Limits on handshake messages per origin of links: in one conversation, and for one recipient. They apply to messages
/// for this node and to relayed ones. First messages are not authenticated, so anybody could otherwise use up the
/// recipient's limits under any name.
///
/// The cost of a message halves with each hop. Messages that an attacker may send through one node thus use at most
/// half of the limit at the next node, whatever their TTL. The other half is left for the peer itself, even over the
/// same links.
struct HandshakeFlow: Sendable {
  /// Time over which handshake messages are counted for the limits below.
  static let span = Duration.seconds(60)
  /// Maximum first messages of one conversation per span, if they arrive directly; a relayed one costs less. A peer
  /// begins a handshake at most every 10 s.
  static let firsts: Float = 6
  /// Maximum other handshake messages of one conversation.
  static let others: Float = 12
  /// Maximum number of first handshake messages from one device for one recipient.
  static let ofRecipient: Float = 30

  private enum Kind: Hashable, Sendable {
    case first, other, recipient
  }

  /// Identifies a counter. A secret hash maps conversations, which an attacker can invent, to 4,096 counters per kind
  /// and origin.
  private struct Place: Hashable, Sendable {
    let kind: Kind
    let number: UInt16
  }

  private struct Share: Sendable {
    var beganAt: Instant
    var used: [Place: Float] = [:]
  }

  private var shares: [DeviceOrigin: Share] = [:]
  /// Maximum number of devices whose handshake messages are counted separately.
  private static let originLimit = 256

  /// Whether a handshake message is accepted. Counts the message.
  ///
  /// - Parameters:
  ///   - isFirst: whether the message begins a handshake.
  ///   - hash: maps conversations to counters.
  mutating func take(_ view: PacketView, isFirst: Bool, from origin: DeviceOrigin, _ hash: KeyedHash, at now: Instant)
    -> Bool
  {
    if shares[origin] == nil { makeRoom(at: now) }
    var share = shares[origin] ?? Share(beganAt: now)
    if share.beganAt.duration(to: now) >= Self.span { share = Share(beganAt: now) }
    defer { shares[origin] = share }
    let cost = 1 / Float(1 << (Limits.timeToLive - min(view.timeToLive, Limits.timeToLive)))
    let recipient = view.recipient?.rawValue ?? 0
    let conversation = Place(
      kind: isFirst ? .first : .other, number: Self.number([view.sender.rawValue, recipient], hash))
    let all = Place(kind: .recipient, number: Self.number([recipient], hash))
    guard share.used[conversation, default: 0] + cost <= (isFirst ? Self.firsts : Self.others) else { return false }
    guard !isFirst || share.used[all, default: 0] + cost <= Self.ofRecipient else { return false }
    share.used[conversation, default: 0] += cost
    if isFirst { share.used[all, default: 0] += cost }
    return true
  }

  private static func number(_ values: [UInt64], _ hash: KeyedHash) -> UInt16 {
    UInt16(truncatingIfNeeded: values.withUnsafeBytes { hash.hash($0) }.low & 0xFFF)
  }

  /// Drops counters at the limit of origins: expired ones, else the oldest. An origin with a new link within the period
  /// retains its counters.
  private mutating func makeRoom(at now: Instant) {
    guard shares.count >= Self.originLimit / 4 else { return }
    shares = shares.filter { $0.value.beganAt.duration(to: now) < Self.span }
    guard shares.count >= Self.originLimit else { return }
    let oldest = shares.min { ($0.value.beganAt, $0.key) < ($1.value.beganAt, $1.key) }?.key
    if let oldest { shares[oldest] = nil }
  }
}

extension PacketView {
  /// True for the first message of a handshake, or the first fragment of any handshake message; false for another
  /// handshake message; nil for other packets. Inflates a compressed fragment.
  var isFirstOfHandshake: Bool? {
    switch type {
    case .noiseHandshake:
      return (flags.contains(.compressed) ? inflatedCount : section.count) <= Limits.firstHandshakeBytes
    case _ where type.mayBeFirstFragment && recipient != nil:
      let payload =
        flags.contains(.compressed) && inflatedCount <= Limits.frameBytes
        ? (try? Packet(self))?.payload[...] ?? [] : section
      guard let fragment = try? Fragment(reading: Array(payload.prefix(Fragment.headerBytes))) else { return nil }
      // The first fragment does not show which handshake message it begins.
      return fragment.type == .noiseHandshake && fragment.index == 0 ? true : nil
    default: return nil
    }
  }
}
