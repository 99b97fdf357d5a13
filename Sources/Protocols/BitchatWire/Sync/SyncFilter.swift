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
  /// Maximum filter in a request that consists of a filter alone, in bytes. Facts: bitchat.md section 16.1.
  package static let bareBytes = 256

  /// Parameter P, 1 to 32: the false positive rate is 2^-P.
  public let p: Int
  /// Parameter M, at least 1; an empty set has 1.
  public let m: UInt32
  /// Encoded values, up to 1,024 bytes.
  public let bits: [UInt8]

  /// Makes a received filter. Throws `badValue("P")` outside of 1 to 32, `badValue("M")` for 0, and `tooLong` for more
  /// than 1,024 bytes.
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

  /// Returns an upper bound on the number of IDs that fit in `room` bytes, at least 1.
  private static func most(_ room: Int, _ p: Int) -> Int { max(1, 8 * room / (p + 2)) }

  /// Maximum number of IDs in a filter of the usual size, `Limits.filterBytes`.
  package static let mostUsual = most(Limits.filterBytes, p(0.01))

  /// Builds a filter of IDs given by their hashes.
  package init(hashes: [UInt64], bytes: Int = Limits.filterBytes, falsePositives: Double = 0.01) {
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

  /// Returns the value by which a packet's ID is represented in this filter.
  public func value(of id: PacketID) -> UInt32 { value(of: Self.hash(id)) }

  /// Value of the ID with this hash.
  package func value(of hash: UInt64) -> UInt32 { Self.value(hash, m) }

  private static func values(_ hashes: some Collection<UInt64>, _ m: UInt32) -> [UInt32] {
    hashes.map { value($0, m) }.sorted()
  }

  private static func value(_ hash: UInt64, _ m: UInt32) -> UInt32 {
    max(1, UInt32(truncatingIfNeeded: hash % UInt64(m)))
  }

  /// First eight bytes of the ID's SHA-256, without the topmost bit.
  package static func hash(_ id: PacketID) -> UInt64 {
    withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { SHA256.words($0) }.first & (.max >> 1)
  }

  /// Smallest P for which 2^-P does not exceed the rate.
  package static func p(_ falsePositives: Double) -> Int {
    let rate = falsePositives.isNaN ? 0.01 : max(0.000001, min(0.25, falsePositives))
    return (1...32).first { 1 / Double(1 << $0) <= rate } ?? 32
  }

  /// Encodes ascending values as Golomb-coded differences, and skips repeated ones.
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

/// Reads bits from bytes, most significant bit first.
struct BitReader {
  private let bytes: [UInt8]
  private var next = 0
  /// Prefetched bits, left-aligned; `held` is their number.
  private var window: UInt64 = 0
  private var held = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Reads ones up to a zero, and returns their number; nil if the bits end before a zero.
  package mutating func ones() -> Int? {
    var count = 0
    while true {
      fill()
      guard held > 0 else { return nil }
      let run = min(held, (~window).leadingZeroBitCount)
      count += run
      guard run < held else {
        take(held)
        continue
      }
      take(run + 1)
      return count
    }
  }

  /// Reads the next `count` bits, 1 to 32, as a number; nil if there are fewer.
  package mutating func bits(_ count: Int) -> UInt64? {
    fill()
    guard count <= held else { return nil }
    let value = window >> UInt64(64 - count)
    take(count)
    return value
  }

  private mutating func take(_ count: Int) {
    window = count < 64 ? window << UInt64(count) : 0
    held -= count
  }

  private mutating func fill() {
    while held <= 56, next < bytes.count {
      window |= UInt64(bytes[next]) << UInt64(56 - held)
      next += 1
      held += 8
    }
  }
}

/// Writes bits into bytes, most significant bit first.
struct BitWriter {
  private var bytes: [UInt8] = []
  /// Bits of the incomplete last byte, right-aligned; `count` is their number.
  private var pending: UInt64 = 0
  private var count = 0

  init(capacity: Int) {
    bytes.reserveCapacity(capacity)
  }

  /// Writes a number in unary: as many ones, and a zero.
  package mutating func ones(_ number: Int) {
    var left = number
    while left >= 32 {
      bits(0xFFFF_FFFF, 32)
      left -= 32
    }
    bits((1 << UInt64(left) - 1) << 1, left + 1)
  }

  /// Writes the lowest `width` bits of the value, up to 33.
  package mutating func bits(_ value: UInt64, _ width: Int) {
    pending = pending << UInt64(width) | value
    count += width
    while count >= 8 {
      count -= 8
      bytes.append(UInt8(truncatingIfNeeded: pending >> UInt64(count)))
    }
  }

  /// Returns the bytes; the last one is filled with zeros.
  package mutating func finish() -> [UInt8] {
    if count > 0 { bits(0, 8 - count) }
    return bytes
  }
}

/// Decoded values of a filter, for fast look-ups: answering a sync request compares all stored packets.
///
/// The values are sorted, and uniformly distributed unless an attacker chose them. An index of 512 parts leaves one or
/// two values per part. Binary search within a part bounds the time for any distribution.
package struct FilterValues: Sendable {
  private static let parts = 512

  private let filter: SyncFilter
  /// The decoded values of the filter, in ascending order.
  private let values: [UInt32]
  /// Start index of each part, and end index of the last one.
  private let begins: [UInt16]
  /// Number of low bits that are dropped from a value to get its part.
  private let shift: UInt32

  package init(_ filter: SyncFilter) {
    self.filter = filter
    values = filter.values()
    shift = UInt32(max(0, UInt32.bitWidth - filter.m.leadingZeroBitCount - Self.parts.trailingZeroBitCount))
    var begins = [UInt16](repeating: 0, count: Self.parts + 1)
    for value in values { begins[Int(value >> shift) + 1] += 1 }
    for part in 0..<Self.parts { begins[part + 1] += begins[part] }
    self.begins = begins
  }

  /// Whether the filter contains the ID with this hash, or a false positive.
  package func mayHave(_ hash: UInt64) -> Bool {
    let value = filter.value(of: hash)
    let part = Int(value >> shift)
    var (low, high) = (Int(begins[part]), Int(begins[part + 1]))
    let end = high
    while low < high {
      let middle = (low + high) / 2
      if values[middle] < value { low = middle + 1 } else { high = middle }
    }
    return low < end && values[low] == value
  }
}
