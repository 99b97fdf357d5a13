import Bytes
import Crypto
import Testing

@Suite("X25519")
struct X25519Tests {
  @Test(
    "X25519 gives the results of the test vectors of RFC 7748 section 5.2",
    arguments: [
      (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
      ),
      (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"
      ),
    ])
  func vectors(scalar: String, point: String, result: String) throws {
    #expect(try Self.multiply(Hex.decode(scalar), Hex.decode(point)) == Hex.decode(result))
  }

  @Test("The iterated X25519 of RFC 7748 section 5.2 is correct after 1 and 1,000 steps")
  func iterated() throws {
    var scalar = [9] + [UInt8](repeating: 0, count: 31)
    var point = scalar
    for step in 1...1000 {
      (scalar, point) = (try Self.multiply(scalar, point), scalar)
      if step == 1 {
        #expect(Hex.encode(scalar) == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079")
      }
    }
    #expect(Hex.encode(scalar) == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51")
  }

  @Test("X25519 public keys and shared secret equal those of RFC 7748 section 6.1")
  func agreement() throws {
    let alice = try X25519.PrivateKey(
      copying: Hex.decode("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    let bob = try X25519.PrivateKey(
      copying: Hex.decode("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    #expect(
      Hex.encode(alice.publicKey.bytes) == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    #expect(Hex.encode(bob.publicKey.bytes) == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    let secret = try alice.sharedSecret(with: bob.publicKey)
    #expect(secret.equals(try bob.sharedSecret(with: alice.publicKey)))
    #expect(hex(secret) == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
  }

  @Test("Two new X25519 keys give the same shared secret, and a seeded generator gives the same keys")
  func newKeys() throws {
    var random = SeededRandom(seed: 7)
    let one = X25519.PrivateKey(randomFrom: &random)
    let other = X25519.PrivateKey(randomFrom: &random)
    #expect(one.publicKey != other.publicKey)
    #expect(try one.sharedSecret(with: other.publicKey).equals(other.sharedSecret(with: one.publicKey)))
    var again = SeededRandom(seed: 7)
    #expect(X25519.PrivateKey(randomFrom: &again).publicKey == one.publicKey)
    var system = SystemRandom()
    #expect(X25519.PrivateKey(randomFrom: &system).publicKey != one.publicKey)
  }

  @Test("An X25519 private key restored from its bytes has the same public key")
  func stored() throws {
    var random = SystemRandom()
    let key = X25519.PrivateKey(randomFrom: &random)
    #expect(try X25519.PrivateKey(key.secret).publicKey == key.publicKey)
  }

  @Test(
    "X25519 refuses each public key of low order",
    arguments: [
      "0000000000000000000000000000000000000000000000000000000000000000",
      "0100000000000000000000000000000000000000000000000000000000000000",
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "0000000000000000000000000000000000000000000000000000000000000080",
      "0100000000000000000000000000000000000000000000000000000000000080",
    ])
  func lowOrder(_ point: String) throws {
    var random = SeededRandom(seed: 1)
    let key = X25519.PrivateKey(randomFrom: &random)
    let peer = try X25519.PublicKey(Hex.decode(point))
    #expect(throws: CryptoError.weakKey) { try key.sharedSecret(with: peer) }
  }

  @Test("An X25519 key that is not 32 bytes long is refused", arguments: [0, 1, 31, 33, 64])
  func lengths(_ count: Int) {
    let bytes = [UInt8](repeating: 9, count: count)
    #expect(throws: CryptoError.badLength("X25519 public key", expected: 32, got: count)) {
      try X25519.PublicKey(bytes)
    }
    #expect(throws: CryptoError.badLength("X25519 private key", expected: 32, got: count)) {
      try X25519.PrivateKey(copying: bytes)
    }
  }

  private static func multiply(_ scalar: [UInt8], _ point: [UInt8]) throws -> [UInt8] {
    try X25519.PrivateKey(copying: scalar).sharedSecret(with: X25519.PublicKey(point)).withUnsafeBytes { Array($0) }
  }
}
