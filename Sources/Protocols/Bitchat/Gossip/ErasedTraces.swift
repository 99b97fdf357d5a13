import Bytes
import Crypto

/// Keyed hashes of what wipes have erased: public packets, and the peer IDs that this node had. Neighbours still give these packets for
/// some hours; by their hashes the node knows them again, and the hashes show nothing of their content. Layout, numbers big endian:
///
///     key     16  of the hash
///     time     8  of the last wipe, in milliseconds since 1970
///     peers    1  followed by 8 bytes for each peer ID
///     packets  2  followed by 8 bytes for each packet
public struct ErasedTraces: Hashable, Sendable, WireValue {
  /// How long the traces are kept after the last wipe, in milliseconds. Neighbours keep messages for 6 h.
  public static let lifetime: UInt64 = 24 * 3600 * 1000
  /// Maximum number of packets. Those that were added first go first.
  public static let packetLimit = 8000
  static let peerLimit = 16
  /// Maximum difference between the clocks of two nodes that talk with each other, in milliseconds.
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

  /// Adds what a wipe erases.
  ///
  /// - Parameters:
  ///   - own: the peer ID of the node; nil where it is not known.
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

  /// Whether the traces say nothing any more at this time, in milliseconds since 1970.
  public func isOver(at time: UInt64) -> Bool { time > wipedAt && time - wipedAt > Self.lifetime }

  /// Whether a packet was erased.
  public func contains(_ packet: PacketID) -> Bool { known.contains(hash(packet)) }

  /// Whether this node had a peer ID before a wipe.
  public func isFormerSelf(_ peer: PeerID) -> Bool { peers.contains(hash(peer)) }

  /// Whether a packet that a neighbour keeps was made before the last wipe.
  public func predatesWipe(_ timestamp: UInt64) -> Bool { timestamp <= wipedAt }

  /// Whether a packet was made before the last wipe, by any clock that is right enough for the mesh.
  public func surelyPredatesWipe(_ timestamp: UInt64) -> Bool {
    timestamp < wipedAt && wipedAt - timestamp > Self.clockDifference
  }

  private func hash(_ value: some WireValue) -> UInt64 {
    // The key has the length that the hash takes: `init` and `init(reading:)` see to that.
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
