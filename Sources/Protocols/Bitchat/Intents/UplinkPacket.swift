import BitchatWire
import Common

/// A packet for a peer that has no path in the mesh. A program outside of the mesh carries it, as the apps do with
/// Nostr. Facts: bitchat.md section 11.
public struct UplinkPacket: Hashable, Sendable {
  /// The content of a packet. Two packets with the same ID have the same content.
  public struct ID: Hashable, Sendable {
    public enum Kind: String, Hashable, Sendable {
      case message, delivered, read
    }

    public let kind: Kind
    /// ID of the message, or of the message that the receipt acknowledges.
    public let message: MessageID
    public let peer: PeerID

    public init(_ kind: Kind, _ message: MessageID, of peer: PeerID) {
      (self.kind, self.message, self.peer) = (kind, message, peer)
    }

    /// Unique text form of the ID, at most 281 bytes.
    public var text: String { "\(kind.rawValue) \(peer) \(message.text)" }
  }

  public let id: ID
  /// The peer's key for the uplink, as text.
  public let key: String
  /// The packet as a Nostr text, in ASCII: a mark and base64url.
  public let text: String
  /// When the message was made, in milliseconds since 1970; for a receipt, when the receipt was made.
  public let createdAt: UInt64
}

extension UplinkPacket: CustomStringConvertible, CustomReflectable {
  /// A description without the peer and the content.
  public var description: String { "a packet for the uplink" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Reason why a text of the uplink is dropped.
public enum UplinkRefusal: String, Error, CaseIterable, Hashable, Sendable {
  /// The text is not an embedded packet. Other Nostr clients may send such texts.
  case otherText
  /// The packet cannot be decoded, or its payload is not a `NoisePayload`.
  case malformed
  /// The packet has another type or another recipient, or carries something else than messages and receipts.
  case unexpected
  /// The payload is sealed for another Noise key, by a key that is not the sender's, or was changed.
  case unopened
  /// The sender of the packet is not a favourite with this key.
  case stranger
  /// The sender of the packet is blocked.
  case blocked
  /// Its timestamp is more than 25 h old, or more than 15 min in the future; or it is a favourite notice older than
  /// another one of its sender.
  case date
  /// The node is a relay, or its clock is not trusted.
  case notReady

  /// The reason for an embedded packet that is not valid.
  init(_ error: EmbeddedPacketError) {
    self =
      switch error {
      case .otherText: .otherText
      case .tooLong, .notBase64, .badPacket: .malformed
      case .badPayload(.unknownType), .otherPacket, .unsupportedPayload: .unexpected
      case .badPayload: .malformed
      case .notSealed, .notOpened, .otherSender: .unopened
      }
  }

  /// The name on D-Bus of the counter of this refusal.
  var counterName: String { "UplinkDropped" + rawValue.prefix(1).uppercased() + rawValue.dropFirst() }
}

/// Counters of private messages that go over Nostr relays.
public struct UplinkCounters: Hashable, Sendable {
  /// Packets that were passed to the uplink program.
  public var offered: UInt64 = 0
  /// Packets that the uplink program accepted.
  public var taken: UInt64 = 0
  /// Messages and receipts that arrived over the uplink and were accepted.
  public var received: UInt64 = 0
  /// Packets of the uplink that were dropped, by reason.
  public var dropped: [UplinkRefusal: UInt64] = [:]

  public init() {}

  /// The counters of the uplink with their names on D-Bus.
  public var tallies: [Tally] {
    [
      Tally("UplinkOffered", offered), Tally("UplinkTaken", taken), Tally("UplinkReceived", received),
    ] + UplinkRefusal.allCases.map { Tally($0.counterName, dropped[$0, default: 0]) }
  }
}
