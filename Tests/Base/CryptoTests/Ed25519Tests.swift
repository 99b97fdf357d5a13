import Bytes
import Crypto
import Testing

@Suite("Ed25519")
struct Ed25519Tests {
  struct Vector: Sendable, CustomTestStringConvertible {
    let name: String
    let seed: String
    let publicKey: String
    let message: String
    let signature: String

    var testDescription: String { name }
  }

  /// RFC 8032 section 7.1, without the message of 1023 bytes.
  static let vectors = [
    Vector(
      name: "TEST 1", seed: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
      publicKey: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", message: "",
      signature: "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        + "d25bf5f0595bbe24655141438e7a100b"),
    Vector(
      name: "TEST 2", seed: "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
      publicKey: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", message: "72",
      signature: "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        + "387b2eaeb4302aeeb00d291612bb0c00"),
    Vector(
      name: "TEST 3", seed: "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
      publicKey: "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", message: "af82",
      signature: "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        + "4a7c15e9716ed28dc027beceea1ec40a"),
    Vector(
      name: "TEST SHA(abc)", seed: "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
      publicKey: "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
      message: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
        + "454d4423643ce80e2a9ac94fa54ca49f",
      signature: "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        + "3dca179c138ac17ad9bef1177331a704"),
  ]

  @Test("Ed25519 signs and verifies the test vectors of RFC 8032", arguments: vectors)
  func rfc8032(_ vector: Vector) throws {
    let key = try Ed25519.PrivateKey(copyingSeed: Hex.decode(vector.seed))
    let message = try Hex.decode(vector.message)
    #expect(Hex.encode(key.publicKey.bytes) == vector.publicKey)
    #expect(Hex.encode(key.sign(message)) == vector.signature)
    #expect(try Ed25519.PublicKey(Hex.decode(vector.publicKey)).verify(Hex.decode(vector.signature), of: message))
  }

  @Test("An Ed25519 signature with any one bit changed is invalid")
  func altered() throws {
    var random = SeededRandom(seed: 2)
    let key = Ed25519.PrivateKey(randomFrom: &random)
    let signature = key.sign([1, 2, 3])
    #expect(key.publicKey.verify(signature, of: [1, 2, 3]))
    for bit in 0..<signature.count * 8 {
      var altered = signature
      altered[bit / 8] ^= 1 << (bit % 8)
      #expect(!key.publicKey.verify(altered, of: [1, 2, 3]))
    }
  }

  @Test("An Ed25519 signature is invalid for a different message or key, or if its length is wrong")
  func others() {
    var random = SeededRandom(seed: 3)
    let key = Ed25519.PrivateKey(randomFrom: &random)
    let signature = key.sign([1, 2, 3])
    #expect(!key.publicKey.verify(signature, of: [1, 2]))
    #expect(!key.publicKey.verify(signature, of: [UInt8]()))
    #expect(!Ed25519.PrivateKey(randomFrom: &random).publicKey.verify(signature, of: [1, 2, 3]))
    #expect(!key.publicKey.verify(signature.dropLast(), of: [1, 2, 3]))
    #expect(!key.publicKey.verify(signature + [0], of: [1, 2, 3]))
    #expect(!key.publicKey.verify([UInt8](), of: [1, 2, 3]))
  }

  @Test("An Ed25519 public key of low order verifies no signature, even one that fits every message")
  func lowOrderKey() throws {
    // With the neutral element as key and commitment, and 0 as scalar, the equation holds whatever was signed.
    let neutral = [1] + [UInt8](repeating: 0, count: 31)
    let signature = neutral + [UInt8](repeating: 0, count: 32)
    #expect(try !Ed25519.PublicKey(neutral).verify(signature, of: [1, 2, 3]))
  }

  @Test("An Ed25519 private key restored from its seed has the same public key")
  func stored() throws {
    var random = SystemRandom()
    let key = Ed25519.PrivateKey(randomFrom: &random)
    #expect(try Ed25519.PrivateKey(seed: key.seed).publicKey == key.publicKey)
  }

  @Test("An Ed25519 key or seed that is not 32 bytes long is refused", arguments: [0, 31, 33, 64])
  func lengths(_ count: Int) {
    let bytes = [UInt8](repeating: 9, count: count)
    #expect(throws: CryptoError.badLength("Ed25519 public key", expected: 32, got: count)) {
      try Ed25519.PublicKey(bytes)
    }
    #expect(throws: CryptoError.badLength("Ed25519 seed", expected: 32, got: count)) {
      try Ed25519.PrivateKey(copyingSeed: bytes)
    }
  }
}
