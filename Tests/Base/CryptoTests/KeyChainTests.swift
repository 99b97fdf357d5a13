import Bytes
import Crypto
import Testing

@Suite("Key chains and numbered messages")
struct KeyChainTests {
  private static let chainingKey = SecretBytes(copying: [UInt8](repeating: 3, count: 64))

  @Test(
    "`nextKeys` equals HKDF of the secret with the first half of the chaining key as salt", arguments: [0, 32, 100])
  func pair(count: Int) throws {
    let secret = [UInt8](repeating: 9, count: count)
    let pair = try HKDF.nextKeys(secret: secret, chainingKey: Self.chainingKey)
    let expected = try HKDF.sha256(secret: secret, salt: [UInt8](repeating: 3, count: 32), info: [], count: 64)
    #expect(pair.count == 64)
    #expect(pair.equals(expected))
  }

  @Test(
    "`HKDF.shortLived` equals HKDF-SHA-256 with empty info, and refuses more than 64 bytes",
    arguments: [0, 1, 16, 32, 33, 64])
  func shortLived(count: Int) throws {
    for (secret, salt) in [([], []), ([7], [UInt8](repeating: 1, count: 8)), ([UInt8](repeating: 2, count: 100), [3])] {
      let output = try HKDF.shortLived(secret: secret, salt: salt, count: count)
      #expect(output.equals(try HKDF.sha256(secret: secret, salt: salt, info: [], count: count)))
    }
    for count in [-1, 65] {
      #expect(throws: CryptoError.badLength("HKDF output", expected: 64, got: count)) {
        try HKDF.shortLived(secret: [1], salt: [2], count: count)
      }
    }
  }

  @Test("Two X25519 key pairs derive the same pair of chain keys from their shared secret")
  func agreement() throws {
    var random = SeededRandom(seed: 2)
    let (one, other) = (X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random))
    let pair = try one.nextKeys(with: other.publicKey, chainingKey: Self.chainingKey)
    let shared = try one.sharedSecret(with: other.publicKey).withUnsafeBytes { Array($0) }
    #expect(pair.equals(try HKDF.nextKeys(secret: shared, chainingKey: Self.chainingKey)))
    #expect(pair.equals(try other.nextKeys(with: one.publicKey, chainingKey: Self.chainingKey)))
  }

  @Test("Key derivation refuses a public key of low order and a chaining key that is too short")
  func refused() throws {
    var random = SeededRandom(seed: 2)
    let key = X25519.PrivateKey(randomFrom: &random)
    for first: UInt8 in [0, 1] {
      let weak = try X25519.PublicKey([first] + [UInt8](repeating: 0, count: 31))
      #expect(throws: CryptoError.weakKey) { try key.nextKeys(with: weak, chainingKey: Self.chainingKey) }
    }
    let short = SecretBytes(copying: [UInt8](repeating: 0, count: 31))
    let error = CryptoError.badLength("chaining key", expected: 32, got: 31)
    #expect(throws: error) { try HKDF.nextKeys(secret: [], chainingKey: short) }
    #expect(throws: error) { try key.nextKeys(with: key.publicKey, chainingKey: short) }
  }

  @Test(
    "A numbered message is sealed with a nonce of four zero bytes and its number",
    arguments: [0, 1, 0x0102_0304_0506_0708])
  func numbers(number: UInt64) throws {
    let bytes = (0..<64).map { UInt8($0) }
    let key = try ChaChaPoly.Key(SecretBytes(copying: bytes), at: 32)
    let plain = SecretBytes(copying: bytes[32...])
    let nonce = [0, 0, 0, 0] + withUnsafeBytes(of: number.littleEndian, Array.init)
    for count in [0, 1, 512] {
      let text = [UInt8](repeating: 8, count: count)
      let sealed = try ChaChaPoly.seal(text, key: plain, nonce: nonce, aad: [1, 2])
      #expect(key.seal(text, number: number, aad: [1, 2]) == sealed)
      let behind = key.seal(text, number: number, aad: [1, 2], behind: 7)
      let expected: [UInt8] = [UInt8](repeating: 0, count: 7) + sealed
      #expect(behind == expected)
      #expect(try key.open(sealed[...], number: number, aad: [1, 2]) == text)
      #expect(throws: CryptoError.authenticationFailed) { try key.open(sealed[...], number: number + 1, aad: [1, 2]) }
      #expect(throws: CryptoError.authenticationFailed) { try key.open(sealed[...], number: number) }
      let short = sealed.dropLast()
      #expect(throws: CryptoError.authenticationFailed) { try key.open(short, number: number, aad: [1, 2]) }
    }
    #expect(throws: CryptoError.authenticationFailed) { try key.open([1, 2], number: number) }
  }

  @Test("A cipher key range outside its secret is refused", arguments: [-1, 33, 64, 1000])
  func offsets(offset: Int) {
    let secret = SecretBytes(copying: [UInt8](repeating: 1, count: 64))
    #expect(throws: CryptoError.self) { try ChaChaPoly.Key(secret, at: offset) }
  }
}
