/// Type of a packet, the byte after the version. Types without a constant here are relayed without being decoded.
/// Facts: bitchat.md section 3.
public struct MessageType: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  public static let announce = MessageType(rawValue: 0x01)
  public static let message = MessageType(rawValue: 0x02)
  public static let leave = MessageType(rawValue: 0x03)
  public static let courier = MessageType(rawValue: 0x04)
  public static let noiseHandshake = MessageType(rawValue: 0x10)
  public static let noiseEncrypted = MessageType(rawValue: 0x11)
  public static let fragment = MessageType(rawValue: 0x20)
  public static let requestSync = MessageType(rawValue: 0x21)
  public static let fileTransfer = MessageType(rawValue: 0x22)
  public static let boardPost = MessageType(rawValue: 0x23)
  public static let prekeyBundle = MessageType(rawValue: 0x24)
  public static let groupMessage = MessageType(rawValue: 0x25)
  public static let ping = MessageType(rawValue: 0x26)
  public static let pong = MessageType(rawValue: 0x27)
  public static let nostrCarrier = MessageType(rawValue: 0x28)
  public static let voiceFrame = MessageType(rawValue: 0x29)
  public static let announceV2 = MessageType(rawValue: 0x2C)

  /// Whether packets of this type are padded when sent. Their length would reveal the kind of their content.
  public var isPadded: Bool { self == .noiseHandshake || self == .noiseEncrypted }

  /// Whether packets of this type are interactive: people wait for them.
  public var isChat: Bool {
    self == .message || self == .groupMessage || self == .voiceFrame || self == .noiseHandshake
      || self == .noiseEncrypted
  }

  /// Name of the type in the live dialect, such as `noiseHandshake`; nil if it has none.
  public var name: String? { Self.names[self] }

  private static let names: [MessageType: String] = [
    .announce: "announce", .message: "message", .leave: "leave", .courier: "courier",
    .noiseHandshake: "noiseHandshake", .noiseEncrypted: "noiseEncrypted", .fragment: "fragment",
    .requestSync: "requestSync", .fileTransfer: "fileTransfer", .boardPost: "boardPost",
    .prekeyBundle: "prekeyBundle", .groupMessage: "groupMessage", .ping: "ping", .pong: "pong",
    .nostrCarrier: "nostrCarrier", .voiceFrame: "voiceFrame", .announceV2: "announceV2",
  ]
}
