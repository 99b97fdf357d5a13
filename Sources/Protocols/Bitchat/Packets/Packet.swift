import Bytes
import Crypto

/// A packet that was decoded, or one to be sent. `PacketHeader` has the table of the layout. Facts: bitchat.md section 2.
///
/// A packet of somebody else is relayed as the bytes that came, `PacketView.relayed`, and never as this value is written:
/// compressed bytes would change, and the signature would not hold.
public struct Packet: Hashable, Sendable {
  public var version: PacketVersion
  public var type: MessageType
  public var timeToLive: UInt8
  /// Milliseconds since 1970, by the sender's clock.
  public var timestamp: UInt64
  public var sender: PeerID
  /// The recipient field; nil if there is none. `PeerID.everybody` says in words what nil says.
  public var recipient: PeerID?
  /// The hops between sender and recipient, in the order of the way. Only version 2 has a route.
  public var route: [PeerID]
  /// The payload, inflated.
  public var payload: [UInt8]
  /// The 64 bytes of the signature; nil if there is none.
  public var signature: [UInt8]?
  /// Whether the packet answers a request for sync.
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

  /// Decodes a packet that was received. Throws the errors of a compressed payload: `compressedEmpty`, `originalEmpty`,
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

  /// Decodes a packet from the bytes that came; throws what `PacketView` and the other initializer throw.
  public init(decoding bytes: [UInt8]) throws(PacketError) {
    try self.init(PacketView(bytes))
  }
}
