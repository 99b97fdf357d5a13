import Bytes
import Crypto

/// Reason why a stream of segments ended. The stream cannot be read after its first error.
public enum SegmentError: Error, Hashable, Sendable {
  /// The length of a segment is outside 17 to 4,096.
  case badLength(Int)
  /// A segment was not sealed by the peer under the expected key and counter.
  case notAuthentic
  /// The peer used the last counter value of the key, or the next segment would use it.
  case exhausted
  /// A PDU is longer than the receiver's limit, in octets.
  case tooLong(limit: Int)
  /// The peer's key is a low-order point.
  case weakKey
}

/// Reassembles the segments of a byte stream from portions of any size. Facts: asn.md section 3
///
///     moreLength    2, most significant octet first: bit 15 is More, the others are the octets that follow
///     sealed        17 to 4,096
public struct SegmentStream: Sendable {
  public struct Segment: Hashable, Sendable {
    /// Whether the PDU continues in the next segment.
    public let isContinued: Bool
    /// The segment's authentication tag and ciphertext.
    public let sealed: ArraySlice<UInt8>
  }

  private var buffer: [UInt8] = []
  private var start = 0

  public init() {}

  /// Number of octets that were received and not returned yet.
  public var pending: Int { buffer.count - start }

  /// Adds received octets. The caller then calls `next` until it returns nil.
  public mutating func receive(_ bytes: some Collection<UInt8>) {
    if start == buffer.count {
      // A session with little input uses little memory.
      buffer.removeAll(keepingCapacity: buffer.capacity <= 1024)
      start = 0
    } else if start > 16_384 {
      buffer.removeFirst(start)
      start = 0
    }
    buffer.append(contentsOf: bytes)
  }

  /// Returns and removes the first `count` octets unchanged; nil if there are fewer.
  public mutating func take(_ count: Int) -> [UInt8]? {
    guard pending >= count else { return nil }
    defer { start += count }
    return Array(buffer[start..<start + count])
  }

  /// Returns and removes the next complete segment; nil if it is not complete. Throws `badLength` as soon as the length
  /// is known.
  public mutating func next() throws(SegmentError) -> Segment? {
    guard pending >= 2 else { return nil }
    let length = Int(buffer[start] & 0x7F) << 8 | Int(buffer[start + 1])
    guard Limits.segment.contains(length) else { throw .badLength(length) }
    guard pending >= 2 + length else { return nil }
    let isContinued = buffer[start] & 0x80 != 0
    let sealed = buffer[(start + 2)..<(start + 2 + length)]
    start += 2 + length
    return Segment(isContinued: isContinued, sealed: sealed)
  }
}

/// One key of a connection, with the counter values of both directions. Facts: asn.md section 3
///
/// A nonce consists of the first 22 octets of the initial nonce and a 16-bit counter. The side with the smaller public
/// key counts 1, 3, 5…, the other side 2, 4, 6…. Every segment uses one counter value, so no nonce is used twice. A
/// counter above 65,535 is an error.
public struct BoxChannel: Sendable {
  public static let nonceSize = NaClBox.nonceSize

  private let key: NaClBox.Key
  private var nonce: [UInt8]
  private var sending: UInt32
  private var receiving: UInt32
  private var partial: [UInt8] = []

  /// - Parameters:
  ///   - nonce: 24 octets, of which the last two are replaced.
  /// - Throws: `weakKey`; `badLength` for a nonce other than 24 octets.
  public init(own: X25519.PrivateKey, peer: X25519.PublicKey, nonce: some Collection<UInt8>) throws(SegmentError) {
    guard nonce.count == Self.nonceSize else { throw .badLength(nonce.count) }
    do throws(CryptoError) {
      key = try NaClBox.Key(own: own, peer: peer)
    } catch {
      throw .weakKey
    }
    self.nonce = Array(nonce)
    let isSmaller = own.publicKey.bytes.lexicographicallyPrecedes(peer.bytes)
    (sending, receiving) = isSmaller ? (1, 2) : (2, 1)
  }

  /// Makes the peer's channel from this side's secret, so that it opens the segments that this side seals. It is used
  /// to replay captures.
  init(
    mirroring own: X25519.PrivateKey, peer: X25519.PublicKey, nonce: some Collection<UInt8>
  ) throws(SegmentError) {
    try self.init(own: own, peer: peer, nonce: nonce)
    (sending, receiving) = (receiving, sending)
  }

  /// Number of octets of a PDU whose last segment has not arrived.
  public var partialCount: Int { partial.count }

  /// Skips segments of the peer that are missing from a capture.
  mutating func skipReceived(_ count: Int) { receiving += 2 * UInt32(count) }

  /// Number of segments that can be sealed before the counter exceeds 65,535.
  public var segmentsLeft: Int { sending > Limits.lastCounter ? 0 : Int(Limits.lastCounter - sending) / 2 + 1 }

  /// Number of segments that the peer can still send under this key.
  public var peerSegmentsLeft: Int { receiving > Limits.lastCounter ? 0 : Int(Limits.lastCounter - receiving) / 2 + 1 }

  /// Number of segments that a PDU of `count` octets needs.
  public static func segments(_ count: Int) -> Int {
    max(1, (count + Limits.segmentPlaintext - 1) / Limits.segmentPlaintext)
  }

  /// Seals a PDU, which must not be empty, and returns its segments, each with its length.
  ///
  /// Throws `exhausted` without using a counter value if the counter would exceed 65,535.
  public mutating func seal(_ pdu: [UInt8]) throws(SegmentError) -> [[UInt8]] {
    guard Self.segments(pdu.count) <= segmentsLeft else { throw .exhausted }
    guard !pdu.isEmpty else { return [] }
    var segments: [[UInt8]] = []
    var start = 0
    while start < pdu.count {
      let end = min(start + Limits.segmentPlaintext, pdu.count)
      segments.append(try seal(pdu[start..<end], isContinued: end < pdu.count))
      start = end
    }
    return segments
  }

  /// Seals one segment, and returns it with its length.
  ///
  /// Throws `exhausted` without using a counter value if the counter would exceed 65,535.
  ///
  /// - Parameter plaintext: 1 to 4,080 octets.
  mutating func seal(_ plaintext: ArraySlice<UInt8>, isContinued: Bool) throws(SegmentError) -> [UInt8] {
    guard segmentsLeft > 0 else { throw .exhausted }
    setCounter(sending)
    sending += 2
    do throws(CryptoError) {
      var segment = try key.seal(plaintext, nonce: nonce, behind: 2)
      let length = segment.count - 2
      segment[0] = UInt8(length >> 8) | (isContinued ? 0x80 : 0)
      segment[1] = UInt8(truncatingIfNeeded: length)
      return segment
    } catch {
      throw .notAuthentic
    }
  }

  /// Opens a segment of the peer; returns the PDU that it completes, or nil if More is set.
  ///
  /// - Parameter limit: maximum length of a PDU, in octets.
  public mutating func open(_ segment: SegmentStream.Segment, limit: Int) throws(SegmentError) -> [UInt8]? {
    guard receiving <= Limits.lastCounter else { throw .exhausted }
    setCounter(receiving)
    let plaintext: [UInt8]
    do throws(CryptoError) {
      plaintext = try key.open(segment.sealed, nonce: nonce)
    } catch {
      throw .notAuthentic
    }
    receiving += 2
    guard partial.count + plaintext.count <= limit else { throw .tooLong(limit: limit) }
    if partial.isEmpty, !segment.isContinued { return plaintext }
    partial += plaintext
    guard !segment.isContinued else { return nil }
    defer { partial = [] }
    return partial
  }

  private mutating func setCounter(_ counter: UInt32) {
    nonce[22] = UInt8(truncatingIfNeeded: counter >> 8)
    nonce[23] = UInt8(truncatingIfNeeded: counter)
  }
}
