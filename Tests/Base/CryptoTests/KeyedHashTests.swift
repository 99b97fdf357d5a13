import Bytes
import Crypto
import Testing

@Suite("KeyedHash")
struct KeyedHashTests {
  /// The first vectors of SipHash's authors, 128 bits: key and input are bytes that count up from 0.
  @Test(
    "KeyedHash equals SipHash-2-4 with 128 bits of output",
    arguments: [
      (0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45"),
      (2, "8177228da4a45dc7fca38bdef60affe4"),
    ])
  func vectors(count: Int, expected: String) throws {
    let hash = try KeyedHash(key: (0..<16).map { UInt8($0) })
    let value = (0..<count).map { UInt8($0) }.withUnsafeBytes { hash.hash($0) }
    let bytes = [value.low, value.high].flatMap { number in withUnsafeBytes(of: number.littleEndian) { Array($0) } }
    #expect(Hex.encode(bytes) == expected)
  }

  @Test("A KeyedHash key that is not 16 bytes long is refused")
  func keys() {
    for count in [0, 15, 17] {
      #expect(throws: CryptoError.badLength("hash key", expected: 16, got: count)) {
        try KeyedHash(key: [UInt8](repeating: 1, count: count))
      }
    }
  }

  @Test("The SHA-256 hash as integer words has the same value as the hash as bytes")
  func words() {
    var random = SeededRandom(seed: 1)
    for count in [0, 1, 16, 55, 56, 64, 1000] {
      let bytes = random.bytes(count)
      let words = bytes.withUnsafeBytes { SHA256.words($0) }
      let all = [words.first, words.second, words.third, words.fourth].flatMap { number in
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
      }
      #expect(all == SHA256.hash(bytes))
    }
  }
}
