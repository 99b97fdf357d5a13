import Bytes
import Compression

/// The payload as it lies in a packet: as it is, or its original size and a deflate stream. Facts: bitchat.md section 2.
struct PayloadSection: Hashable {
  let bytes: [UInt8]
  let isCompressed: Bool

  init(bytes: [UInt8], isCompressed: Bool) {
    self.bytes = bytes
    self.isCompressed = isCompressed
  }

  /// The payload as it is.
  init(plain payload: [UInt8]) {
    self.init(bytes: payload, isCompressed: false)
  }

  /// The payload, deflated; nil where an encoder leaves it as it is: under 100 bytes, nearly all bytes different, or the
  /// stream not smaller than the payload.
  init?(deflating payload: [UInt8], version: PacketVersion, level: Int) {
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

  /// The section as we send it: at level 5, which agrees best with what both apps' verifiers make of the payload. Facts:
  /// bitchat.md section 2.1. What deflate cannot make smaller is not tried.
  init(sending packet: Packet) {
    let deflated =
      packet.isDense ? nil : PayloadSection(deflating: packet.payload, version: packet.version, level: 5)
    self = deflated ?? PayloadSection(plain: packet.payload)
  }

  /// The payload in a compressed section. Every limit is checked before memory is taken.
  static func inflate(_ section: ArraySlice<UInt8>, version: PacketVersion) throws(PacketError) -> [UInt8] {
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
      // Some encoders send the zlib format, and the Android app takes it.
      if let payload = try? ZlibDeflate.decompress(stream, exactly: original) { return payload }
      throw .notInflated(error)
    }
  }

  /// Whether under nine tenths of the bytes are different: of the first 256, or of all where there are fewer.
  private static func isWorthCompressing(_ payload: [UInt8]) -> Bool {
    let most = min(payload.count, 256) * 9
    var seen = (UInt64.zero, UInt64.zero, UInt64.zero, UInt64.zero)
    var rest = payload[...]
    while !rest.isEmpty {
      // A long file of all kinds of bytes shows that soon.
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
  /// Whether deflate would hardly make the payload smaller: ciphertext, a piece of a packet that was compressed as a whole where
  /// that was worth it, or a request that has a filter and names no fragments.
  fileprivate var isDense: Bool {
    switch type {
    case .fragment: true
    case .requestSync: (try? SyncRequest(reading: payload))?.fragments.isEmpty ?? false
    default: type.isPadded
    }
  }
}
