import Bytes
import Crypto

/// A set of packet IDs in few bytes, which may also seem to hold an ID that it does not: a Golomb-coded set. Facts: bitchat.md
/// section 9.
///
/// An ID is the first eight bytes of its SHA-256, without the topmost bit, modulo M, and 1 instead of 0. M is the number of IDs
/// times 2^P. The values are sorted, each once, and each is written as its distance from the one before, less one: the
/// distance over 2^P in ones, a zero, and P bits, most significant first. The last byte is filled with zeros.
public struct SyncFilter: Hashable, Sendable {
  /// 1 to 32: an ID that is not in the set seems to be in it once in 2^P times.
  public let p: Int
  /// At least 1; the filter of an empty set has 1.
  public let m: UInt32
  /// Up to 1,024 bytes.
  public let bits: [UInt8]

  /// A filter that was received. Throws `badValue("P")` outside of 1 to 32, `badValue("M")` for 0, and `tooLong` for more than
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

  /// The filter of as many IDs, from the first on, as find room: the newest packets come first.
  ///
  /// - Parameters:
  ///   - bytes: how long the filter may be, up to 1,024.
  ///   - falsePositives: how often an ID may seem to be in the set that is not: 0.000001 to 0.25.
  public init(_ ids: some Collection<PacketID>, bytes: Int = Limits.filterBytes, falsePositives: Double = 0.01) {
    let most = Self.most(min(max(0, bytes), Limits.acceptedFilterBytes), Self.p(falsePositives))
    self.init(hashes: ids.prefix(most).map(Self.hash), bytes: bytes, falsePositives: falsePositives)
  }

  /// No set of more IDs has room in so many bytes; but one ID is always tried.
  private static func most(_ room: Int, _ p: Int) -> Int { max(1, 8 * room / (p + 2)) }

  /// The most IDs that a filter of the usual size can hold.
  static let mostUsual = most(Limits.filterBytes, p(0.01))

  /// The same of IDs whose hashes are known.
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

  /// The values of the set, ascending. Reading ends where the bits do, and at a value that is not below M.
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

  /// The value that the ID has in this set.
  public func value(of id: PacketID) -> UInt32 { value(of: Self.hash(id)) }

  /// The value of the ID that has this hash.
  func value(of hash: UInt64) -> UInt32 { Self.value(hash, m) }

  private static func values(_ hashes: some Collection<UInt64>, _ m: UInt32) -> [UInt32] {
    hashes.map { value($0, m) }.sorted()
  }

  private static func value(_ hash: UInt64, _ m: UInt32) -> UInt32 {
    max(1, UInt32(truncatingIfNeeded: hash % UInt64(m)))
  }

  /// The first eight bytes of the ID's SHA-256, without the topmost bit.
  static func hash(_ id: PacketID) -> UInt64 {
    withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { SHA256.words($0) }.first & (.max >> 1)
  }

  /// The smallest P with 2^-P at most the rate.
  static func p(_ falsePositives: Double) -> Int {
    let rate = falsePositives.isNaN ? 0.01 : max(0.000001, min(0.25, falsePositives))
    return (1...32).first { 1 / Double(1 << $0) <= rate } ?? 32
  }

  /// Writes values that are sorted; one that comes twice is written once.
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
