import Common

/// Packet types of two older forms of the protocol that differ from the live form. Facts: bitchat.md sections 0 and
/// 16.1.
public struct SeedNumbers: Hashable, Sendable {
  public let message: MessageType
  public let deliveryAck: MessageType
  public let readReceipt: MessageType
  public let leave: MessageType
  public let fragmentStart: MessageType
  public let fragmentContinue: MessageType
  public let fragmentEnd: MessageType
  public let handshakeInit: MessageType
  public let handshakeResponse: MessageType
  public let encrypted: MessageType
  public let versionHello: MessageType
  public let versionAck: MessageType

  /// Packet types of dialect S, from the seed's document.
  public static let seed = SeedNumbers(
    message: 0x04, deliveryAck: 0x05, readReceipt: 0x06, leave: 0x07, fragments: (0x0A, 0x0B, 0x0C))
  /// Packet types of the apps of July 2025.
  public static let mid2025 = SeedNumbers(
    message: 0x04, deliveryAck: 0x0A, readReceipt: 0x0C, leave: 0x03, fragments: (0x05, 0x06, 0x07))

  private init(
    message: UInt8, deliveryAck: UInt8, readReceipt: UInt8, leave: UInt8, fragments: (UInt8, UInt8, UInt8)
  ) {
    self.message = MessageType(rawValue: message)
    self.deliveryAck = MessageType(rawValue: deliveryAck)
    self.readReceipt = MessageType(rawValue: readReceipt)
    self.leave = MessageType(rawValue: leave)
    fragmentStart = MessageType(rawValue: fragments.0)
    fragmentContinue = MessageType(rawValue: fragments.1)
    fragmentEnd = MessageType(rawValue: fragments.2)
    handshakeInit = MessageType(rawValue: 0x10)
    handshakeResponse = MessageType(rawValue: 0x11)
    encrypted = MessageType(rawValue: 0x12)
    versionHello = MessageType(rawValue: 0x20)
    versionAck = MessageType(rawValue: 0x21)
  }

  /// Type of a fragment: first, last, or in between.
  public func fragmentType(index: Int, total: Int) -> MessageType {
    if index == 0 { return fragmentStart }
    return index == total - 1 ? fragmentEnd : fragmentContinue
  }
}

/// Packets fragmented as in dialect S and in the apps of mid-2025: the header of `Fragment`, and a type that marks the
/// first and the last fragment. Facts: bitchat.md section 7.
public enum SeedFragments {
  /// Returns the fragments of a packet; nil if the link is too narrow for fragments, or more than 1,024 would be
  /// needed.
  public static func packets(
    of packet: PacketView, numbers: SeedNumbers, id: FragmentID, frameLimit: Int
  ) -> [Packet]? {
    FragmentPlan(packet, id: id, frameLimit: frameLimit).flatMap { packets(of: $0, numbers: numbers) }
  }

  /// Maximum fragments of a packet; receivers reject a larger total.
  package static let limit = 1024
  /// Time between two fragments of a packet in dialect S.
  package static let pause = Duration.milliseconds(200)

  package static func packets(of plan: FragmentPlan, numbers: SeedNumbers) -> [Packet]? {
    let total = plan.fragments.count
    guard total <= limit else { return nil }
    return plan.fragments.enumerated().map { index, fragment in
      var fragment = fragment
      fragment.type = numbers.fragmentType(index: index, total: total)
      return fragment
    }
  }
}
