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
  /// Timestamp in milliseconds since 1970, by the sender's clock.
  public var timestamp: UInt64
  public var sender: PeerID
  /// Recipient field; nil if absent. `PeerID.everybody` means the same as nil.
  public var recipient: PeerID?
  /// Hops between sender and recipient, in order. Only version 2 has a route.
  public var route: [PeerID]
  /// Payload, decompressed if it was compressed on the wire.
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

/// The flags of a packet. Unknown bits have no meaning. Facts: bitchat.md section 2.
public struct PacketFlags: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// Flag of a packet whose header has a recipient after the sender.
  public static let recipient = PacketFlags(rawValue: 0x01)
  /// Flag of a packet with a signature after the payload section.
  public static let signature = PacketFlags(rawValue: 0x02)
  /// The payload section is the original size and a deflate stream.
  public static let compressed = PacketFlags(rawValue: 0x04)
  /// A route follows the IDs. It has no meaning in version 1.
  public static let route = PacketFlags(rawValue: 0x08)
  /// The packet answers a sync request. The sender of the answer sets it; the signature does not cover it.
  public static let syncAnswer = PacketFlags(rawValue: 0x10)
}

/// Version of the packet header. Version 2 has a payload length of four bytes and may have a route. Facts: bitchat.md
/// section 2.
public enum PacketVersion: UInt8, CaseIterable, Hashable, Sendable {
  case v1 = 1
  case v2 = 2

  /// Length of the header before the sender, in bytes.
  public var headerBytes: Int { self == .v1 ? 14 : 16 }
  /// Length of the payload length, and of the original size in a compressed payload section, in bytes.
  var lengthBytes: Int { self == .v1 ? 2 : 4 }
  /// Maximum bytes of the payload section.
  var sectionLimit: Int { self == .v1 ? Int(UInt16.max) : Limits.payloadBytes }
}

extension Packet {
  /// Encodes the packet for sending. The payload is compressed if that makes it smaller.
  ///
  /// Throws `payloadTooLong`; `needsVersion2` for a route or a payload section over 65,535 bytes in version 1;
  /// `routeTooLong`; `badSignature` for a signature that is not 64 bytes long.
  ///
  /// - Parameter padded: whether padding is added; nil decides by the type.
  public func encoded(padded: Bool? = nil) throws(PacketError) -> [UInt8] {
    var bytes = try encoded(PayloadSection(sending: self))
    if padded ?? type.isPadded { Padding.pad(&bytes) }
    return bytes
  }

  /// Bytes that the signature covers: TTL 0, no signature, flags 02 and 10 clear, and padded even if the packet is sent
  /// without padding. Throws the errors of `encoded`.
  public func signingPreimage() throws(PacketError) -> [UInt8] {
    try signingPreimage(PayloadSection(sending: self))
  }

  /// Returns the bytes that the signature covers if the payload is encoded as this section.
  package func signingPreimage(_ section: PayloadSection) throws(PacketError) -> [UInt8] {
    var unsigned = self
    unsigned.timeToLive = 0
    unsigned.signature = nil
    unsigned.isSyncAnswer = false
    var bytes = try unsigned.encoded(section)
    Padding.pad(&bytes)
    return bytes
  }

  /// Encodes the packet without padding, with the payload encoded as this section.
  package func encoded(_ section: PayloadSection) throws(PacketError) -> [UInt8] {
    guard payload.count <= Limits.payloadBytes else { throw .payloadTooLong(payload.count) }
    guard section.bytes.count <= version.sectionLimit, version == .v2 || route.isEmpty else { throw .needsVersion2 }
    guard route.count <= Limits.routeHops else { throw .routeTooLong(route.count) }
    if let signature, signature.count != PacketHeader.signatureBytes { throw .badSignature(signature.count) }
    var flags: PacketFlags = []
    if recipient != nil { flags.insert(.recipient) }
    if signature != nil { flags.insert(.signature) }
    if section.isCompressed { flags.insert(.compressed) }
    if !route.isEmpty { flags.insert(.route) }
    if isSyncAnswer { flags.insert(.syncAnswer) }

    // Maximum bytes around the payload: header, both IDs, a route's count, a signature and padding.
    var writer = ByteWriter(capacity: section.bytes.count + 8 * route.count + 16 + 16 + 1 + 64 + 255)
    writer.u8(version.rawValue)
    writer.u8(type.rawValue)
    writer.u8(timeToLive)
    writer.u64be(timestamp)
    writer.u8(flags.rawValue)
    switch version {
    case .v1: writer.u16be(UInt16(truncatingIfNeeded: section.bytes.count))
    case .v2: writer.u32be(UInt32(truncatingIfNeeded: section.bytes.count))
    }
    sender.write(to: &writer)
    recipient?.write(to: &writer)
    if !route.isEmpty {
      writer.u8(UInt8(truncatingIfNeeded: route.count))
      for hop in route { hop.write(to: &writer) }
    }
    writer.append(section.bytes)
    if let signature { writer.append(signature) }
    return writer.bytes
  }
}

/// Padding after a packet, which hides its length. Facts: bitchat.md section 2.
///
/// The padded length is the first of 256, 512, 1024 and 2048 that is at least 16 bytes longer than the packet. Each
/// padding byte has the number of padding bytes as value. If that exceeds 255, no padding is added.
public enum Padding {
  static let blocks = [256, 512, 1024, 2048]
  package static let reserve = 16

  /// Returns the block size for a packet of `count` bytes; `count` if no block is large enough.
  public static func block(for count: Int) -> Int {
    blocks.first { count + reserve <= $0 } ?? count
  }

  /// Returns the length of a packet of `count` bytes after padding.
  public static func paddedCount(of count: Int) -> Int {
    let block = block(for: count)
    return block - count > Int(UInt8.max) ? count : block
  }

  /// Appends padding to the encoded packet, up to the next block size.
  public static func pad(_ bytes: inout [UInt8]) {
    let count = paddedCount(of: bytes.count) - bytes.count
    bytes += [UInt8](repeating: UInt8(truncatingIfNeeded: count), count: count)
  }

  /// Length without padding: if the last byte is k > 0 and the last k bytes all equal k, these are padding.
  public static func unpaddedCount(of bytes: [UInt8]) -> Int {
    guard let last = bytes.last, last > 0, Int(last) <= bytes.count else { return bytes.count }
    let count = bytes.count - Int(last)
    return bytes[count...].allSatisfy { $0 == last } ? count : bytes.count
  }
}
