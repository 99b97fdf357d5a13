import Bytes
import Crypto
import Testing

@Suite("Random sources")
struct RandomTests {
  @Test("The random generator with a seed of zeros returns the ChaCha20 key stream of the zero key")
  func knownStream() throws {
    var random = try SeededRandom(seed: [UInt8](repeating: 0, count: 32))
    #expect(
      Hex.encode(random.bytes(64))
        == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        + "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586")
    var number = SeededRandom(seed: 0)
    #expect(number.next() == 0x903D_F1A0_ADE0_B876)
  }

  @Test(
    "The bytes of a seeded generator do not depend on the sizes in which they are requested",
    arguments: [1, 7, 8, 64, 511, 512, 513])
  func portions(_ size: Int) {
    var whole = SeededRandom(seed: 42)
    var parts = SeededRandom(seed: 42)
    var drawn: [UInt8] = []
    while drawn.count < 2000 { drawn += parts.bytes(size) }
    #expect(drawn == whole.bytes(drawn.count))
  }

  @Test("50 different seeds give 50 different random streams")
  func seeds() throws {
    var streams = Set<[UInt8]>()
    for seed in UInt64(0)..<50 {
      var random = SeededRandom(seed: seed)
      streams.insert(random.bytes(16))
    }
    #expect(streams.count == 50)
    var one = SeededRandom(seed: 0x0102)
    var same = try SeededRandom(seed: [2, 1] + [UInt8](repeating: 0, count: 30))
    #expect(one.bytes(32) == same.bytes(32))
  }

  @Test("A random generator seed that is not 32 bytes long is refused", arguments: [0, 31, 33])
  func seedLength(_ count: Int) {
    #expect(throws: CryptoError.badLength("seed", expected: 32, got: count)) {
      try SeededRandom(seed: [UInt8](repeating: 0, count: count))
    }
  }

  @Test("A copy of a random generator continues independently of the original")
  func copies() {
    var one = SeededRandom(seed: 1)
    _ = one.bytes(3)
    var copy = one
    #expect(one.bytes(600) == copy.bytes(600))
  }

  @Test("The system's random generator fills a whole array, with different bytes each time")
  func system() {
    var random = SystemRandom()
    let draws = (0..<64).map { _ in random.bytes(32) }
    #expect(Set(draws).count == draws.count)
    // A given byte is zero in all 64 draws with a probability of 2 to the power of -512.
    for index in 0..<32 { #expect(draws.contains { $0[index] != 0 }) }
    #expect(random.bytes(0).isEmpty)
  }

  @Test("A word of a random source is its next eight bytes, big endian")
  func words() {
    var random = SeededRandom(seed: 5)
    var bytes = random
    let word = random.word()
    let octets: [UInt8] = withUnsafeBytes(of: word.bigEndian, Array.init)
    #expect(octets == bytes.bytes(8))
    #expect(random.bytes(4) == bytes.bytes(4))
  }

  @Test("A random number of a range is in the range, and each number of a small range is drawn")
  func numbers() {
    var random = SeededRandom(seed: 8)
    var drawn: Set<Int64> = []
    for _ in 0..<1000 { drawn.insert(random.number(in: -3...3)) }
    #expect(drawn == Set<Int64>(-3...3))
    for range in [Int64.min...Int64.max, 0...Int64.max, Int64.min...0, 7...7] {
      let number = random.number(in: range)
      #expect(range.contains(number))
    }
  }

  @Test("A random factor of a range is in the range, and both halves of the range are drawn")
  func factors() {
    var random = SeededRandom(seed: 9)
    let drawn = (0..<200).map { _ in random.factor(in: 0.5...1.5) }
    #expect(drawn.allSatisfy { (0.5...1.5).contains($0) })
    #expect(drawn.contains { $0 < 1 } && drawn.contains { $0 > 1 })
  }
}
