import Bytes
import Crypto
import Testing

@Suite("SecretBytes")
struct SecretBytesTests {
  @Test(
    "A secret made by copying, or by a fill function, has the given bytes", arguments: [0, 1, 31, 32, 4096, 10_000])
  func contents(_ count: Int) {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let copied = SecretBytes(copying: bytes)
    let filled = SecretBytes(count: count) { $0.copyBytes(from: bytes) }
    #expect(copied.count == count)
    #expect(copied.withUnsafeBytes { $0.elementsEqual(bytes) })
    #expect(copied.equals(filled))
  }

  @Test("If the fill function of a secret throws, its error is rethrown")
  func failingFill() {
    #expect(throws: CryptoError.weakKey) {
      try SecretBytes(count: 8) { (_: UnsafeMutableRawBufferPointer) throws(CryptoError) in throw .weakKey }
    }
  }

  @Test("A short-lived copy of a secret has the bytes of the given range; more than 64 bytes are refused")
  func shortLivedCopies() throws {
    let secret = SecretBytes(copying: 0..<100)
    for range in [0..<0, 0..<16, 16..<32, 36..<100, 100..<100] {
      let copy = try secret.shortLivedCopy(of: range)
      #expect(copy.count == range.count)
      #expect(copy.withUnsafeBytes { $0.elementsEqual(range.map { UInt8($0) }) })
    }
    for range in [-1..<5, 90..<101, 0..<65] {
      #expect(throws: CryptoError.self) { try secret.shortLivedCopy(of: range) }
    }
  }

  @Test("Two secrets are equal only if their lengths and all bytes are equal")
  func equality() {
    let bytes = [UInt8](repeating: 3, count: 33)
    let secret = SecretBytes(copying: bytes)
    for index in bytes.indices {
      var other = bytes
      other[index] ^= 0x80
      #expect(!secret.equals(SecretBytes(copying: other)))
      #expect(!ConstantTime.equal(bytes, other))
    }
    #expect(!secret.equals(SecretBytes(copying: bytes.dropLast())))
    #expect(secret.equals(SecretBytes(copying: bytes)))
    #expect(ConstantTime.equal(bytes, bytes[...]))
    #expect(!ConstantTime.equal(bytes, bytes.dropLast()))
    #expect(ConstantTime.equal([UInt8](), EmptyCollection()))
  }

  @Test("Two random secrets differ, and a seeded generator gives the same secret again")
  func random() {
    #expect(!SecretBytes(random: 32).equals(SecretBytes(random: 32)))
    var one = SeededRandom(seed: 9)
    var other = SeededRandom(seed: 9)
    #expect(SecretBytes(count: 32, randomFrom: &one).equals(SecretBytes(count: 32, randomFrom: &other)))
  }

  @Test("Printing, dumping and reflecting a secret shows none of its bytes")
  func printing() throws {
    // 0xA7 is 167 in decimal. Neither form is a part of the permitted text.
    let bytes = [UInt8](repeating: 0xA7, count: 32)
    let secret = SecretBytes(copying: bytes)
    let agreement = try X25519.PrivateKey(secret)
    let signing = try Ed25519.PrivateKey(seed: secret)
    struct Holder {
      let secret: SecretBytes
      let optional: SecretBytes?
      let keys: [Any]
    }
    let holder = Holder(secret: secret, optional: secret, keys: [agreement, signing])
    for value in [secret, agreement, signing, holder, [secret], ["key": secret]] as [Any] {
      var dumped = ""
      dump(value, to: &dumped)
      for text in ["\(value)", String(describing: value), String(reflecting: value), dumped] {
        // The public keys of the two private keys may be shown; neither contains the repeated byte.
        #expect(text.contains("secret"))
        #expect(!text.lowercased().contains("a7a7") && !text.contains("167, 167") && !text.contains("- 167\n"))
      }
    }
    #expect("\(secret)" == "<secret>")
    #expect(String(reflecting: secret) == "<secret>")
    #expect(Mirror(reflecting: secret).children.isEmpty)
    #expect("\(agreement)" == "<secret>")
    #expect("\(signing)" == "<secret>")
  }

  @Test("Each crypto error has a description that is a sentence and contains no secret")
  func errors() {
    #expect("\(CryptoError.badLength("key", expected: 32, got: 5))" == "key has 5 bytes, expected 32")
    #expect("\(CryptoError.weakKey)" == "the public key is a low-order point")
    #expect("\(CryptoError.authenticationFailed)" == "authentication failed")
    #expect("\(CryptoError.unavailable("X"))" == "X is not available from the crypto library")
  }
}
