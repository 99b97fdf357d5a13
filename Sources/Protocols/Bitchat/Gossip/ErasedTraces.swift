import BitchatWire
import Bytes
import Crypto

/// Keyed hashes of erased public packets and of this node's former peer IDs. Neighbours resend such packets for hours
/// after a wipe; the hashes recognise them without revealing content. Layout, numbers big endian:
///
///     key     16  of the hash
///     time     8  of the last wipe, in milliseconds since 1970
///     peers    1  followed by 8 bytes for each peer ID
///     packets  2  followed by 8 bytes for each packet
public struct ErasedTraces: Hashable, Sendable, WireValue {
  /// Lifetime of the traces after the last wipe, in milliseconds. Neighbours store messages for 6 h.
  public static let lifetime: UInt64 = 24 * 3600 * 1000
  /// Maximum number of hashes of packets; the oldest are dropped first.
  public static let packetLimit = 8000
  /// Maximum number of hashes of former peer IDs.
  static let peerLimit = 16
  /// Maximum clock difference of two nodes that communicate, in milliseconds.
  private static let clockDifference: UInt64 = Limits.clockMilliseconds

  /// When the last wipe began, in milliseconds since 1970.
  public private(set) var wipedAt: UInt64
  private let key: [UInt8]
  private var peers: [UInt64] = []
  private var packets: [UInt64] = []
  private var known: Set<UInt64> = []

  public init(randomFrom random: inout some RandomSource) {
    key = random.bytes(KeyedHash.keySize)
    wipedAt = 0
  }

  /// Adds erased packets.
  ///
  /// - Parameters:
  ///   - own: peer ID of this node; nil if unknown.
  ///   - time: milliseconds since 1970.
  public mutating func add(_ erased: [PacketID], own: PeerID?, at time: UInt64) {
    wipedAt = max(wipedAt, time)
    if let own { peers = (peers + [hash(own)]).suffix(Self.peerLimit) }
    let new = erased.map { hash($0) }.filter { known.insert($0).inserted }
    packets += new
    guard packets.count > Self.packetLimit else { return }
    packets.removeFirst(packets.count - Self.packetLimit)
    known = Set(packets)
  }

  /// Whether the traces have expired at `time`, in milliseconds since 1970.
  public func isOver(at time: UInt64) -> Bool { time > wipedAt && time - wipedAt > Self.lifetime }

  /// Whether a wipe of the last day has erased this packet.
  public func contains(_ packet: PacketID) -> Bool { known.contains(hash(packet)) }

  /// Whether this node had a peer ID before a wipe.
  public func isFormerSelf(_ peer: PeerID) -> Bool { peers.contains(hash(peer)) }

  /// Whether a packet with this timestamp is not newer than the last wipe.
  public func predatesWipe(_ timestamp: UInt64) -> Bool { timestamp <= wipedAt }

  /// Whether a packet predates the last wipe by more than the allowed clock difference.
  public func surelyPredatesWipe(_ timestamp: UInt64) -> Bool {
    timestamp < wipedAt && wipedAt - timestamp > Self.clockDifference
  }

  private func hash(_ value: some WireValue) -> UInt64 {
    // Both initializers guarantee a key of the length that the hash requires.
    guard let hash = try? KeyedHash(key: key) else { return 0 }
    return value.bytes.withUnsafeBytes { hash.hash($0).low }
  }

  // MARK: Bytes

  public init(reading reader: inout ByteReader) throws(WireError) {
    key = Array(try reader.bytes(KeyedHash.keySize))
    wipedAt = try reader.u64be()
    for _ in 0..<(try reader.u8()) { peers.append(try reader.u64be()) }
    for _ in 0..<(try reader.u16be()) { packets.append(try reader.u64be()) }
    guard peers.count <= Self.peerLimit else { throw .badValue("peers") }
    guard packets.count <= Self.packetLimit else { throw .badValue("packets") }
    known = Set(packets)
  }

  public func write(to writer: inout ByteWriter) {
    writer.append(key)
    writer.u64be(wipedAt)
    writer.u8(UInt8(clamping: peers.count))
    for peer in peers { writer.u64be(peer) }
    writer.u16be(UInt16(clamping: packets.count))
    for packet in packets { writer.u64be(packet) }
  }
}
