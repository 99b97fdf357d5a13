import BitchatWire
import Bytes
import Crypto
import Noise

/// A private packet in the text of a Nostr message, with which the apps reach favourites that are out of range. Facts:
/// bitchat.md section 11. Layout:
///
///     text     "bitchat1:" and base64url, without padding, of:
///     packet   version 1, type 11, TTL 7, padded, not signed; the recipient is absent in geohash channels
///     payload  a `NoisePayload` as it is (the apps), or 00 and a message of the Noise pattern X (`sealed`)
///
/// A Nostr envelope encrypts the text and names its sender. Only the types 01, 02 and 03 are valid inside.
public struct EmbeddedPacket: Hashable, Sendable {
  /// Maximum length of the text, in bytes.
  public static let textLimit = 24 << 10
  /// Prefix by which a Nostr text is recognised as an embedded packet.
  public static let mark = "bitchat1:"

  /// The two forms of a payload.
  public enum Content: Hashable, Sendable {
    /// The payload as both apps send it, encrypted only by the Nostr envelope.
    case plain(NoisePayload)
    /// The seed's form, between Earshot nodes with `nostr_inner_noise`: a message of the Noise pattern X.
    case sealed([UInt8])
  }

  public let sender: PeerID
  /// Recipient of the packet; nil in geohash channels.
  public let recipient: PeerID?
  /// Timestamp of the packet, in milliseconds since 1970.
  public let timestamp: UInt64
  public let content: Content

  /// - Throws: `unsupportedPayload` for a payload other than a private message or a receipt.
  public init(
    _ payload: NoisePayload, from sender: PeerID, to recipient: PeerID?, timestamp: UInt64
  ) throws(EmbeddedPacketError) {
    try Self.check(payload)
    (self.sender, self.recipient, self.timestamp, content) = (sender, recipient, timestamp, .plain(payload))
  }

  /// Seals a payload for the owner of a Noise key. A session of the pattern XX would need both nodes at one time, and
  /// would not outlast a restart; a message of the pattern X needs neither.
  ///
  /// - Throws: `unsupportedPayload`; `notSealed` for an invalid recipient key.
  public init(
    sealing payload: NoisePayload, from key: X25519.PrivateKey, to recipient: X25519.PublicKey, timestamp: UInt64,
    randomFrom random: inout some RandomSource
  ) throws(EmbeddedPacketError) {
    try Self.check(payload)
    do throws(NoiseError) {
      content = .sealed(
        try OneWayMessage.seal(
          payload.bytes, to: recipient, from: key, prologue: Self.prologue, randomFrom: &random))
    } catch {
      throw .notSealed
    }
    sender = PeerID(noiseKey: key.publicKey)
    self.recipient = PeerID(noiseKey: recipient)
    self.timestamp = timestamp
  }

  /// Parses the text of a Nostr message.
  ///
  /// - Throws: `otherText` if it does not begin with the mark; `tooLong`, `notBase64`, `badPacket`, `badPayload`;
  ///   `otherPacket` for another version or type, or a signature; `unsupportedPayload`.
  public init(text: String) throws(EmbeddedPacketError) {
    guard text.utf8.starts(with: Self.mark.utf8) else { throw .otherText }
    guard text.utf8.count <= Self.textLimit else { throw .tooLong }
    guard let bytes = try? Base64URL.decode(text.dropFirst(Self.mark.count)) else { throw .notBase64 }
    let packet: Packet
    do throws(PacketError) {
      packet = try Packet(decoding: bytes)
    } catch {
      throw .badPacket(error)
    }
    guard packet.version == .v1, packet.type == .noiseEncrypted, packet.signature == nil else { throw .otherPacket }
    (sender, recipient, timestamp) = (packet.sender, packet.recipient, packet.timestamp)
    guard packet.payload.first != Self.sealedMark else {
      content = .sealed(Array(packet.payload.dropFirst()))
      return
    }
    let payload: NoisePayload
    do throws(NoisePayloadError) {
      payload = try NoisePayload(reading: packet.payload)
    } catch {
      throw .badPayload(error)
    }
    try Self.check(payload)
    content = .plain(payload)
  }

  /// The text for a Nostr message.
  ///
  /// - Throws: `tooLong`.
  public func text() throws(EmbeddedPacketError) -> String {
    let payload: [UInt8]
    switch content {
    case .plain(let plain): payload = plain.bytes
    case .sealed(let sealed): payload = [Self.sealedMark] + sealed
    }
    let packet = Packet(
      type: .noiseEncrypted, timestamp: timestamp, sender: sender, recipient: recipient, payload: payload)
    guard let bytes = try? packet.encoded(padded: true) else { throw .tooLong }
    let text = Self.mark + Base64URL.encode(bytes)
    guard text.utf8.count <= Self.textLimit else { throw .tooLong }
    return text
  }

  /// Opens the payload.
  ///
  /// - Parameter key: this node's Noise key.
  /// - Returns: the payload, and the sender's Noise key if the payload was sealed. That key belongs to `sender`.
  /// - Throws: `notOpened` if the payload is sealed for another key, or was changed; `otherSender` if the sealing key
  ///   does not belong to the packet's sender; `badPayload`, `unsupportedPayload`.
  public func opened(
    with key: X25519.PrivateKey
  ) throws(EmbeddedPacketError) -> (payload: NoisePayload, sender: X25519.PublicKey?) {
    let message: [UInt8]
    switch content {
    case .plain(let payload): return (payload, nil)
    case .sealed(let sealed): message = sealed
    }
    let opened: (text: [UInt8], sender: X25519.PublicKey)
    do throws(NoiseError) {
      opened = try OneWayMessage.open(message, with: key, prologue: Self.prologue)
    } catch {
      throw .notOpened
    }
    guard PeerID(noiseKey: opened.sender) == sender else { throw .otherSender }
    let payload: NoisePayload
    do throws(NoisePayloadError) {
      payload = try NoisePayload(reading: opened.text)
    } catch {
      throw .badPayload(error)
    }
    try Self.check(payload)
    return (payload, opened.sender)
  }

  private static let prologue = Array("earshot-nostr-v1".utf8)
  /// First byte of a sealed payload. No `NoisePayload` has this type.
  private static let sealedMark: UInt8 = 0x00

  private static func check(_ payload: NoisePayload) throws(EmbeddedPacketError) {
    switch payload {
    case .privateMessage, .read, .delivered: return
    case .verificationChallenge, .verificationResponse, .file, .peerState: throw .unsupportedPayload
    }
  }
}

extension EmbeddedPacket: CustomStringConvertible, CustomReflectable {
  public var description: String { "<embedded packet>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Reason why a text is not an embedded packet, or why one cannot be made.
public enum EmbeddedPacketError: Error, Hashable, Sendable {
  /// The text does not begin with the mark.
  case otherText
  /// The text, or a packet to be sent, exceeds `EmbeddedPacket.textLimit`.
  case tooLong
  case notBase64
  case badPacket(PacketError)
  /// The packet has another version or type, or a signature.
  case otherPacket
  case badPayload(NoisePayloadError)
  /// The payload is valid over the mesh, and not in a Nostr message.
  case unsupportedPayload
  /// The recipient's Noise key is invalid.
  case notSealed
  /// The sealed payload is for another key, or was changed.
  case notOpened
  /// The key that sealed the payload does not belong to the sender of the packet.
  case otherSender

  /// Stable name, for counters and programs.
  public var name: String {
    switch self {
    case .otherText: "OtherTexts"
    case .tooLong: "PacketsTooLong"
    case .notBase64: "NotBase64"
    case .badPacket: "BadPackets"
    case .otherPacket: "OtherPackets"
    case .badPayload: "BadPayloads"
    case .unsupportedPayload: "UnsupportedPayloads"
    case .notSealed: "NotSealed"
    case .notOpened: "NotOpened"
    case .otherSender: "OtherSenders"
    }
  }
}
