import Bytes
import Crypto

/// Golomb-coded set: packet IDs in few bytes, with false positives. Facts: bitchat.md section 9.
///
/// The value of an ID is the first eight bytes of its SHA-256 without the topmost bit, modulo M, and 1 instead of 0. M
/// is the number of IDs times 2^P.
///
/// The values are sorted without duplicates. Each is encoded as its distance from the previous one, minus one: the
/// quotient by 2^P in ones, a zero, and P bits, most significant first. The last byte is filled with zeros.
public struct SyncFilter: Hashable, Sendable {
  /// 1 to 32: the false positive rate is 2^-P.
  public let p: Int
  /// At least 1; an empty set has 1.
  public let m: UInt32
  /// Up to 1,024 bytes.
  public let bits: [UInt8]

  /// Received filter. Throws `badValue("P")` outside of 1 to 32, `badValue("M")` for 0, and `tooLong` for more than
  /// 1,024 bytes.
  public init(p: Int, m: UInt32, bits: [UInt8]) throws(WireError) {
    guard (1...32).contains(p) else { throw .badValue("P") }
    guard m > 0 else { throw .badValue("M") }
    guard bits.count <= Limits.acceptedFilterBytes else {
      throw .tooLong(field: "filter", limit: Limits.acceptedFilterBytes)
    }
    self.p = p
    self.m = m
    self.bits = bits
  }

  /// Builds a filter of the first IDs, as many as fit; pass the newest packets first.
  ///
  /// - Parameters:
  ///   - bytes: maximum length of the filter, up to 1,024.
  ///   - falsePositives: false positive rate, 0.000001 to 0.25.
  public init(_ ids: some Collection<PacketID>, bytes: Int = Limits.filterBytes, falsePositives: Double = 0.01) {
    let most = Self.most(min(max(0, bytes), Limits.acceptedFilterBytes), Self.p(falsePositives))
    self.init(hashes: ids.prefix(most).map(Self.hash), bytes: bytes, falsePositives: falsePositives)
  }

  /// Upper bound on the IDs that fit in `room` bytes, at least 1.
  private static func most(_ room: Int, _ p: Int) -> Int { max(1, 8 * room / (p + 2)) }

  /// Maximum IDs in a filter of usual size.
  static let mostUsual = most(Limits.filterBytes, p(0.01))

  /// Builds a filter of IDs given by their hashes.
  init(hashes: [UInt64], bytes: Int = Limits.filterBytes, falsePositives: Double = 0.01) {
    p = Self.p(falsePositives)
    let room = min(max(0, bytes), Limits.acceptedFilterBytes)
    var count = min(hashes.count, Self.most(room, p))
    while true {
      let m = UInt32(clamping: count << p)
      let bits = count == 0 ? [] : Self.encode(Self.values(hashes.prefix(count), m), p: p)
      guard bits.count > room, count > 0 else {
        self.m = max(1, m)
        self.bits = bits
        return
      }
      count = count * 9 / 10
    }
  }

  /// Decodes the values, in ascending order. Stops at the end of the bits, or at a value that is not below M.
  public func values() -> [UInt32] {
    guard m > 1 else { return [] }
    var reader = BitReader(bits)
    var values: [UInt32] = []
    values.reserveCapacity(8 * bits.count / (p + 1))
    var value: UInt64 = 0
    while let quotient = reader.ones(), let rest = reader.bits(p) {
      value += UInt64(quotient) << UInt64(p) + rest + 1
      guard value < UInt64(m) else { break }
      values.append(UInt32(truncatingIfNeeded: value))
    }
    return values
  }

  /// Value of an ID in this set.
  public func value(of id: PacketID) -> UInt32 { value(of: Self.hash(id)) }

  /// Value of the ID with this hash.
  func value(of hash: UInt64) -> UInt32 { Self.value(hash, m) }

  private static func values(_ hashes: some Collection<UInt64>, _ m: UInt32) -> [UInt32] {
    hashes.map { value($0, m) }.sorted()
  }

  private static func value(_ hash: UInt64, _ m: UInt32) -> UInt32 {
    max(1, UInt32(truncatingIfNeeded: hash % UInt64(m)))
  }

  /// First eight bytes of the ID's SHA-256, without the topmost bit.
  static func hash(_ id: PacketID) -> UInt64 {
    withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { SHA256.words($0) }.first & (.max >> 1)
  }

  /// Smallest P for which 2^-P does not exceed the rate.
  static func p(_ falsePositives: Double) -> Int {
    let rate = falsePositives.isNaN ? 0.01 : max(0.000001, min(0.25, falsePositives))
    return (1...32).first { 1 / Double(1 << $0) <= rate } ?? 32
  }

  /// Encodes sorted values without duplicates.
  private static func encode(_ values: [UInt32], p: Int) -> [UInt8] {
    var writer = BitWriter(capacity: values.count * (p + 2) / 8 + 1)
    var last: UInt32 = 0
    for value in values where value != last {
      let distance = value - last - 1
      last = value
      writer.ones(Int(distance >> UInt32(p)))
      writer.bits(UInt64(distance) & (1 << UInt64(p) - 1), p)
    }
    return writer.finish()
  }
}
