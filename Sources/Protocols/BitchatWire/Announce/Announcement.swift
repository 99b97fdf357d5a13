import Bytes
import Crypto

/// Payload of an announce: identifies the sender. Records have one byte of type and one of length, in any order;
/// unknown types are skipped. Facts: bitchat.md section 4. Layout:
///
///     01  nickname, UTF-8, required
///     02  Noise static public key, 32 bytes, required
///     03  Ed25519 public key, 32 bytes, required
///     04  direct neighbours, up to 10 peer IDs
///     05  `Capabilities`
///     06  geohash of a bridge, up to 12 bytes
///     B5  mark of the dialect that the sender offers besides L (`MeshDialect`). Section 16.1
///     B6  "E1": the sender is an Earshot peer. It accepts fragments at the speed of the link, requests missing ones,
///         and acknowledges private files of any name. If its radio loses long writes, two more bytes, big endian,
///         give the longest value that it receives
///     B7  1 byte, from Earshot peers: envelopes that the sender carries per depositor that is not a favourite.
///         Absent if that is two, as in the apps
///
/// Decoding does not authenticate: the caller compares the packet's sender with `peerID` and checks the signature.
public struct Announcement: WireValue, Hashable, Sendable {
  /// Nickname in UTF-8, up to 255 bytes, not sanitised.
  public let nickname: String
  public let noiseKey: X25519.PublicKey
  public let signingKey: Ed25519.PublicKey
  /// Peers with which the sender has links. Nil if the record is absent.
  public let neighbours: [PeerID]?
  /// Capabilities of the sender; nil if the record is absent.
  public let capabilities: Capabilities?
  /// Geohash of up to 12 bytes; nil if the sender is not a bridge.
  public let geohash: String?
  /// Dialect that the sender offers; L if the record is absent, as every peer speaks it.
  public let dialect: MeshDialect
  /// Whether the sender is an Earshot peer.
  public let isEarshot: Bool
  /// Longest value, in bytes, that arrives when it is written to the sender, an Earshot peer. Nil if not announced.
  public let longestWrite: UInt16?
  /// Envelopes that the sender carries for each depositor that is not its favourite. Nil if not announced; the apps
  /// carry two.
  public let courierPlaces: UInt8?

  /// Throws `tooLong` for a nickname over 255 bytes, more than ten neighbours, or a geohash over 12 bytes.
  public init(
    nickname: String, noiseKey: X25519.PublicKey, signingKey: Ed25519.PublicKey, neighbours: [PeerID]? = nil,
    capabilities: Capabilities? = nil, geohash: String? = nil, dialect: MeshDialect = .live,
    isEarshot: Bool = false, longestWrite: UInt16? = nil, courierPlaces: UInt8? = nil
  ) throws(WireError) {
    try Text.check(nickname, field: "nickname")
    guard neighbours?.count ?? 0 <= Limits.neighbours else {
      throw .tooLong(field: "neighbours", limit: Limits.neighbours)
    }
    guard geohash?.utf8.count ?? 0 <= Limits.geohashBytes else {
      throw .tooLong(field: "geohash", limit: Limits.geohashBytes)
    }
    self.nickname = nickname
    self.noiseKey = noiseKey
    self.signingKey = signingKey
    self.neighbours = neighbours
    self.capabilities = capabilities
    self.geohash = geohash
    self.dialect = dialect
    self.isEarshot = isEarshot
    self.longestWrite = isEarshot ? longestWrite : nil
    self.courierPlaces = isEarshot ? courierPlaces : nil
  }

  /// Peer ID derived from the Noise key. It must equal the sender of the packet.
  public var peerID: PeerID { PeerID(noiseKey: noiseKey) }

  /// Reads the records to the end. The last record of a repeated type counts, as in the apps.
  ///
  /// Throws `badValue` with the name of a required record that is missing, or of a record with an invalid value.
  public init(reading reader: inout ByteReader) throws(WireError) {
    var nickname: String?
    var noiseKey: X25519.PublicKey?
    var signingKey: Ed25519.PublicKey?
    var neighbours: [PeerID]?
    var capabilities: Capabilities?
    var geohash: String?
    var dialect = MeshDialect.live
    var isEarshot = false
    var longestWrite: UInt16?
    var courierPlaces: UInt8?
    for record in try ShortTLV.all(in: reader.rest()) {
      switch record.type {
      case 0x01: nickname = try Text.read(record.value, field: "nickname")
      case 0x02: noiseKey = try Self.noiseKey(record.value)
      case 0x03: signingKey = try Self.signingKey(record.value)
      case 0x04: neighbours = try Self.neighbours(record.value)
      case 0x05: capabilities = try Capabilities(record.value)
      case 0x06: geohash = try Text.read(record.value, field: "geohash")
      case Self.dialectMark: dialect = MeshDialect(mark: record.value)
      case Self.earshotMark:
        isEarshot = record.value.starts(with: Self.earshotValue)
        var rest = ByteReader(record.value.dropFirst(Self.earshotValue.count))
        longestWrite = try? rest.u16be()
      case Self.courierMark: courierPlaces = record.value.first
      default: continue
      }
    }
    guard let nickname else { throw .badValue("nickname") }
    guard let noiseKey else { throw .badValue("noiseKey") }
    guard let signingKey else { throw .badValue("signingKey") }
    try self.init(
      nickname: nickname, noiseKey: noiseKey, signingKey: signingKey, neighbours: neighbours,
      capabilities: capabilities, geohash: geohash, dialect: dialect, isEarshot: isEarshot,
      longestWrite: longestWrite, courierPlaces: courierPlaces)
  }

  public func write(to writer: inout ByteWriter) {
    var records: [(UInt8, [UInt8])] = [
      (0x01, Array(nickname.utf8)), (0x02, noiseKey.bytes), (0x03, signingKey.bytes),
    ]
    if let neighbours { records.append((0x04, neighbours.flatMap(\.bytes))) }
    if let capabilities { records.append((0x05, capabilities.bytes)) }
    if let geohash { records.append((0x06, Array(geohash.utf8))) }
    if let mark = dialect.mark { records.append((Self.dialectMark, mark)) }
    if isEarshot {
      let most = longestWrite.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []
      records.append((Self.earshotMark, Self.earshotValue + most))
    }
    if let courierPlaces { records.append((Self.courierMark, [courierPlaces])) }
    ShortTLV.write(records, to: &writer)
  }

  private static let dialectMark: UInt8 = 0xB5
  private static let earshotMark: UInt8 = 0xB6
  private static let earshotValue = Array("E1".utf8)
  private static let courierMark: UInt8 = 0xB7

  package static func noiseKey(_ bytes: ArraySlice<UInt8>) throws(WireError) -> X25519.PublicKey {
    do throws(CryptoError) { return try X25519.PublicKey(bytes) } catch { throw .badValue("noiseKey") }
  }

  package static func signingKey(_ bytes: ArraySlice<UInt8>) throws(WireError) -> Ed25519.PublicKey {
    do throws(CryptoError) { return try Ed25519.PublicKey(bytes) } catch { throw .badValue("signingKey") }
  }

  private static func neighbours(_ bytes: ArraySlice<UInt8>) throws(WireError) -> [PeerID] {
    guard bytes.count.isMultiple(of: PeerID.size) else { throw .badValue("neighbours") }
    var reader = ByteReader(bytes)
    var peers: [PeerID] = []
    while !reader.isAtEnd { peers.append(try PeerID(reading: &reader)) }
    return peers
  }
}
