import CSodium

/// The source of an engine's randomness: the system's generator in a service, a seeded generator in tests.
public protocol RandomSource {
  /// Overwrites every byte of the array.
  mutating func fill(_ bytes: inout [UInt8])
}

extension RandomSource {
  /// Returns `count` random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    fill(&bytes)
    return bytes
  }

  /// Eight random bytes as a number, big endian.
  public mutating func word() -> UInt64 {
    bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// A number of the range. All are equally likely, up to a bias of less than n / 2^64 for a range of n numbers.
  public mutating func number(in range: ClosedRange<Int64>) -> Int64 {
    let count = UInt64(bitPattern: range.upperBound &- range.lowerBound) &+ 1
    // The count of all numbers is 2^64.
    return range.lowerBound &+ Int64(bitPattern: count == 0 ? word() : word() % count)
  }

  /// A uniformly distributed factor of the range.
  public mutating func factor(in range: ClosedRange<Double>) -> Double {
    range.lowerBound + (range.upperBound - range.lowerBound) * Double(word() >> 11) / Double(1 << 53)
  }
}

/// The random generator of the operating system.
public struct SystemRandom: RandomSource, Sendable {
  public init() {
    Sodium.start()
  }

  public mutating func fill(_ bytes: inout [UInt8]) {
    randombytes_buf(&bytes, bytes.count)
  }
}

/// A generator that gives equal bytes for equal seeds. It is for tests and simulations, never for keys that protect
/// anything.
///
/// The bytes are the ChaCha20 key stream (64-bit counter from 0, nonce 0) with the seed as key. They do not depend on
/// the sizes of the portions in which they are drawn.
public struct SeededRandom: RandomSource, RandomNumberGenerator, Sendable {
  private let seed: [UInt8]
  private var nextBlock: UInt64 = 0
  private var drawn: ArraySlice<UInt8> = []

  /// A generator for a seed of 32 bytes; throws `badLength` for any other seed.
  public init(seed: [UInt8]) throws(CryptoError) {
    try checkLength(seed.count, is: Int(crypto_stream_chacha20_KEYBYTES), of: "seed")
    self.seed = seed
  }

  /// A generator for a numeric seed: its eight bytes, least significant first, followed by zeros.
  public init(seed: UInt64) {
    self.seed = withUnsafeBytes(of: seed.littleEndian, Array.init) + [UInt8](repeating: 0, count: 24)
  }

  public mutating func fill(_ bytes: inout [UInt8]) {
    var done = 0
    while done < bytes.count {
      if drawn.isEmpty { refill() }
      let portion = drawn.prefix(bytes.count - done)
      bytes.replaceSubrange(done..<done + portion.count, with: portion)
      drawn = drawn.dropFirst(portion.count)
      done += portion.count
    }
  }

  /// The next eight bytes, least significant first.
  public mutating func next() -> UInt64 {
    bytes(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private mutating func refill() {
    let zeros = [UInt8](repeating: 0, count: Self.blocksAtOnce * 64)
    let nonce = [UInt8](repeating: 0, count: Int(crypto_stream_chacha20_NONCEBYTES))
    drawn =
      [UInt8](count: zeros.count) {
        _ = crypto_stream_chacha20_xor_ic($0, zeros, UInt64(zeros.count), nonce, nextBlock, seed)
      }[...]
    nextBlock += UInt64(Self.blocksAtOnce)
  }

  private static let blocksAtOnce = 8
}
