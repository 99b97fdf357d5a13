import Bytes
import Crypto

/// Decoded packet, or one to be sent. `PacketHeader` has the layout. Facts: bitchat.md section 2.
///
/// Packets of other nodes are relayed as received, with `PacketView.relayed`. Encoding them anew could change the
/// compressed bytes and invalidate the signature.
public struct Packet: Hashable, Sendable {
  public var version: PacketVersion
  public var type: MessageType
  public var timeToLive: UInt8
  /// Milliseconds since 1970, by the sender's clock.
  public var timestamp: UInt64
  public var sender: PeerID
  /// Recipient field; nil if absent. `PeerID.everybody` means the same as nil.
  public var recipient: PeerID?
  /// Hops between sender and recipient, in order. Only version 2 has a route.
  public var route: [PeerID]
  /// Inflated payload.
  public var payload: [UInt8]
  /// Signature, 64 bytes; nil if absent.
  public var signature: [UInt8]?
  /// Whether the packet answers a sync request.
  public var isSyncAnswer: Bool

  public init(
    version: PacketVersion = .v1, type: MessageType, timeToLive: UInt8 = Limits.timeToLive, timestamp: UInt64,
    sender: PeerID, recipient: PeerID? = nil, route: [PeerID] = [], payload: [UInt8], signature: [UInt8]? = nil,
    isSyncAnswer: Bool = false
  ) {
    self.version = version
    self.type = type
    self.timeToLive = timeToLive
    self.timestamp = timestamp
    self.sender = sender
    self.recipient = recipient
    self.route = route
    self.payload = payload
    self.signature = signature
    self.isSyncAnswer = isSyncAnswer
  }

  /// Decodes a received packet. Throws the errors of a compressed payload: `compressedEmpty`, `originalEmpty`,
  /// `originalTooLong`, `ratioTooHigh` and `notInflated`.
  public init(_ view: PacketView) throws(PacketError) {
    let section = view.section
    self.init(
      version: view.version, type: view.type, timeToLive: view.timeToLive, timestamp: view.timestamp,
      sender: view.sender, recipient: view.namedRecipient, route: view.route,
      payload: view.flags.contains(.compressed)
        ? try PayloadSection.inflate(section, version: view.version) : Array(section),
      signature: view.signature.map { Array($0) }, isSyncAnswer: view.flags.contains(.syncAnswer))
  }

  /// Decodes a packet. Throws the errors of `PacketView` and of the other initializer.
  public init(decoding bytes: [UInt8]) throws(PacketError) {
    try self.init(PacketView(bytes))
  }
}
