import Bytes

/// Meaning of a packet whose type is used differently by the live dialect and older ones. Facts: bitchat.md section
/// 16.1.
///
/// The raw value is a name for reports.
public enum PacketMeaning: String, CaseIterable, Hashable, Sendable {
  /// The type has the same meaning in all dialects.
  case live
  case courier
  case seedMessage = "seed_message"
  case seedDeliveryAck = "seed_delivery_ack"
  case seedReadReceipt = "seed_read_receipt"
  case seedLeave = "seed_leave"
  case seedFragment = "seed_fragment"
  case seedHandshakeResponse = "seed_handshake_response"
  case seedCiphertext = "seed_ciphertext"
  case deliveryAck2025 = "delivery_ack_2025"
  case readReceipt2025 = "read_receipt_2025"
  case fragment2025 = "fragment_2025"
  case ciphertext
  case fragment
  case versionHello = "version_hello"
  case requestSync = "request_sync"
  case versionAck = "version_ack"
  /// The payload matches no meaning of the type. The packet is not processed; whether it is relayed is decided
  /// elsewhere.
  case drop

  /// State of dialect S with the sender.
  public struct SeedState: Hashable, Sendable {
    /// Whether this node began a handshake of dialect S with the sender, and awaits the answer.
    public var awaitsHandshakeResponse = false
    /// Whether there is a session of dialect S with the sender.
    public var hasSession = false

    public init(awaitsHandshakeResponse: Bool = false, hasSession: Bool = false) {
      self.awaitsHandshakeResponse = awaitsHandshakeResponse
      self.hasSession = hasSession
    }
  }

  /// Determines the meaning of a packet by its type and payload. Does not check the signature, which `seedMessage` and
  /// `seedLeave` require.
  public init(type: MessageType, payload: [UInt8], state: SeedState = .init()) {
    switch type.rawValue {
    case 0x04: self = Self.isCourier(payload) ? .courier : Self.isRead(payload, SeedMessage.self) ? .seedMessage : .drop
    case 0x05 where Self.isFragment(payload, totals: 2...1024): self = .fragment2025
    case 0x06 where Self.isFragment(payload, totals: 2...1024): self = .fragment2025
    case 0x07 where Self.isFragment(payload, totals: 2...1024): self = .fragment2025
    case 0x05: self = Self.isRead(payload, SeedDeliveryAck.self) ? .seedDeliveryAck : .drop
    case 0x06: self = Self.isRead(payload, SeedReadReceipt.self) ? .seedReadReceipt : .drop
    case 0x07: self = Self.isNickname(payload) ? .seedLeave : .drop
    case 0x0A...0x0C where Self.isFragment(payload, totals: 1...1024): self = .seedFragment
    case 0x0A: self = Self.isRead(payload, SeedDeliveryAck.self) ? .deliveryAck2025 : .drop
    case 0x0C: self = Self.isRead(payload, SeedReadReceipt.self) ? .readReceipt2025 : .drop
    case 0x0B: self = .drop
    case 0x11: self = state.awaitsHandshakeResponse && payload.count == 96 ? .seedHandshakeResponse : .ciphertext
    case 0x12: self = state.hasSession ? .seedCiphertext : .drop
    case 0x20 where Self.isFragment(payload, totals: 1...Limits.fragments): self = .fragment
    case 0x20: self = Self.isJSON(payload) || Self.isRead(payload, VersionHello.self) ? .versionHello : .drop
    case 0x21 where payload.starts(with: [0x01, 0x00, 0x01]): self = .requestSync
    case 0x21: self = Self.isJSON(payload) || Self.isRead(payload, VersionAck.self) ? .versionAck : .drop
    default: self = .live
    }
  }

  /// Whether the payload begins like a courier envelope: recipient's tag of 16 bytes, expiry of 8, ciphertext.
  private static func isCourier(_ payload: [UInt8]) -> Bool {
    var reader = ByteReader(payload)
    for (type, count) in [(0x01, 16), (0x02, 8)] as [(UInt8, Int)] {
      guard let record = try? TLV(reading: &reader, length: .u16be, limit: count), record.type == type,
        record.value.count == count
      else { return false }
    }
    return (try? TLV(reading: &reader, length: .u16be, limit: payload.count))?.type == 0x03
  }

  private static func isFragment(_ payload: [UInt8], totals: ClosedRange<Int>) -> Bool {
    guard let fragment = try? Fragment(reading: payload) else { return false }
    return totals.contains(Int(fragment.total))
  }

  private static func isRead(_ payload: [UInt8], _ type: (some WireValue).Type) -> Bool {
    (try? type.init(reading: payload)) != nil
  }

  private static func isNickname(_ payload: [UInt8]) -> Bool {
    payload.count <= Limits.shortValueBytes && UTF8Text.isValid(payload)
  }

  /// Whether the payload is JSON, in which some peers of mid-2025 negotiated versions.
  private static func isJSON(_ payload: [UInt8]) -> Bool { payload.first == UInt8(ascii: "{") }
}
