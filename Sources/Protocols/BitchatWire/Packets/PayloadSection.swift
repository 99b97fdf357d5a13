import Bytes
import Compression

/// Payload as encoded in a packet: plain, or its original size and a deflate stream. Facts: bitchat.md section 2.
package struct PayloadSection: Hashable {
  package let bytes: [UInt8]
  let isCompressed: Bool

  package init(bytes: [UInt8], isCompressed: Bool) {
    self.bytes = bytes
    self.isCompressed = isCompressed
  }

  /// Makes a section with a payload that is not compressed.
  package init(plain payload: [UInt8]) {
    self.init(bytes: payload, isCompressed: false)
  }

  /// Deflates the payload. Nil if an encoder leaves it plain: under 100 bytes, nearly all bytes different, or the
  /// stream is not smaller.
  package init?(deflating payload: [UInt8], version: PacketVersion, level: Int) {
    guard payload.count >= Limits.smallestCompressedPayload, payload.count <= version.sectionLimit,
      Self.isWorthCompressing(payload),
      let stream = try? RawDeflate.compress(payload, effort: DeflateEffort(level: level)), stream.count < payload.count
    else { return nil }
    var writer = ByteWriter(capacity: version.lengthBytes + stream.count)
    switch version {
    case .v1: writer.u16be(UInt16(truncatingIfNeeded: payload.count))
    case .v2: writer.u32be(UInt32(truncatingIfNeeded: payload.count))
    }
    writer.append(stream)
    bytes = writer.bytes
    isCompressed = true
  }

  /// Makes the section that this node sends, deflated at level 5, which agrees best with the verifiers of both apps.
  /// Facts: bitchat.md section 2.1. Dense payloads are not deflated.
  package init(sending packet: Packet) {
    let deflated =
      packet.isDense ? nil : PayloadSection(deflating: packet.payload, version: packet.version, level: 5)
    self = deflated ?? PayloadSection(plain: packet.payload)
  }

  /// Inflates a compressed section. All limits are checked before memory is allocated.
  package static func inflate(_ section: ArraySlice<UInt8>, version: PacketVersion) throws(PacketError) -> [UInt8] {
    guard section.count > version.lengthBytes else { throw .compressedEmpty }
    let original = section.prefix(version.lengthBytes).reduce(0) { $0 << 8 | Int($1) }
    let stream = section.dropFirst(version.lengthBytes)
    guard original > 0 else { throw .originalEmpty }
    guard original <= Limits.payloadBytes else { throw .originalTooLong(original) }
    guard original <= stream.count * Limits.inflationRatio else {
      throw .ratioTooHigh(original: original, compressed: stream.count)
    }
    do throws(CompressionError) {
      return try RawDeflate.decompress(stream, exactly: original)
    } catch {
      // Some encoders use the zlib format, which the Android app accepts.
      if let payload = try? ZlibDeflate.decompress(stream, exactly: original) { return payload }
      throw .notInflated(error)
    }
  }

  /// Whether the payload has few different byte values: less than nine tenths of 256, or of its length if that is
  /// smaller.
  private static func isWorthCompressing(_ payload: [UInt8]) -> Bool {
    let most = min(payload.count, 256) * 9
    var seen = (UInt64.zero, UInt64.zero, UInt64.zero, UInt64.zero)
    var rest = payload[...]
    while !rest.isEmpty {
      // Checking in parts ends early for a long file with all byte values.
      for byte in rest.prefix(4096) {
        let bit: UInt64 = 1 << UInt64(byte & 63)
        switch byte >> 6 {
        case 0: seen.0 |= bit
        case 1: seen.1 |= bit
        case 2: seen.2 |= bit
        default: seen.3 |= bit
        }
      }
      let different =
        seen.0.nonzeroBitCount + seen.1.nonzeroBitCount + seen.2.nonzeroBitCount + seen.3.nonzeroBitCount
      guard different * 10 < most else { return false }
      rest = rest.dropFirst(4096)
    }
    return true
  }
}

extension Packet {
  /// Whether deflate would hardly shrink the payload: ciphertext, a fragment of an already compressed packet, or a sync
  /// request with a filter and without fragment IDs.
  fileprivate var isDense: Bool {
    switch type {
    case .fragment: true
    case .requestSync: isFilterAlone
    default: type.isPadded
    }
  }

  /// Whether the payload consists of the records of a sync request, and none has fragment IDs (type 06).
  ///
  /// A record begins with a type byte and a length of two bytes, big endian. In dialect S, the type of sync requests
  /// means JSON.
  private var isFilterAlone: Bool {
    var rest = payload[...]
    while !rest.isEmpty {
      guard rest.count >= 3 else { return false }
      let (type, length) = (rest[rest.startIndex], Int(rest[rest.startIndex + 1]) << 8 | Int(rest[rest.startIndex + 2]))
      guard rest.count >= 3 + length, type != 0x06 || length == 0 else { return false }
      rest = rest.dropFirst(3 + length)
    }
    return true
  }
}
