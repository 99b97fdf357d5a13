import Bytes
import Crypto
import Testing

/// The vectors are those of the distribution of NaCl (`tests/box.c`, `tests/hash.c`) and of FIPS 180-4.
@Suite("NaCl box and SHA-512")
struct NaClBoxTests {
  private struct Pair {
    let alice: X25519.PrivateKey
    let bob: X25519.PrivateKey
  }

  private static func pair() throws -> Pair {
    Pair(
      alice: try X25519.PrivateKey(
        copying: Hex.decode("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")),
      bob: try X25519.PrivateKey(
        copying: Hex.decode("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")))
  }
  private static let nonce = "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37"
  private static let plaintext =
    "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f4"
    + "1db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52"
    + "f0a089bc76897040e082f937763848645e0705"
  private static let sealed =
    "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b"
    + "4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da"
    + "99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"

  @Test("NaCl's published message is sealed to the published ciphertext, and its recipient opens it")
  func published() throws {
    let pair = try Self.pair()
    let (nonce, plaintext) = (try Hex.decode(Self.nonce), try Hex.decode(Self.plaintext))
    let alice = try NaClBox.Key(own: pair.alice, peer: pair.bob.publicKey)
    let bob = try NaClBox.Key(own: pair.bob, peer: pair.alice.publicKey)
    let sealed = try alice.seal(plaintext, nonce: nonce)
    #expect(Hex.encode(sealed) == Self.sealed)
    #expect(try bob.open(sealed, nonce: nonce) == plaintext)
    #expect(
      alice.withUnsafeBytes { Hex.encode($0) } == "1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    #expect("\(alice)" == "<secret>")
    #expect(Mirror(reflecting: alice).children.isEmpty)
  }

  @Test("A NaCl box is refused if it is changed, truncated or opened with a different nonce")
  func altered() throws {
    let pair = try Self.pair()
    let key = try NaClBox.Key(own: pair.alice, peer: pair.bob.publicKey)
    var nonce = [UInt8](repeating: 7, count: NaClBox.nonceSize)
    let sealed = try key.seal([1, 2, 3], nonce: nonce)
    for bit in 0..<sealed.count * 8 {
      var changed = sealed
      changed[bit / 8] ^= 1 << (bit % 8)
      #expect(throws: CryptoError.authenticationFailed) { try key.open(changed, nonce: nonce) }
    }
    for count in 0..<sealed.count {
      #expect(throws: CryptoError.authenticationFailed) { try key.open(sealed.prefix(count), nonce: nonce) }
    }
    nonce[23] = 8
    #expect(throws: CryptoError.authenticationFailed) { try key.open(sealed, nonce: nonce) }
  }

  @Test("A NaCl box adds 16 bytes to the text, and has `behind` zero bytes in front if they are requested")
  func emptyAndRoom() throws {
    let pair = try Self.pair()
    let key = try NaClBox.Key(own: pair.alice, peer: pair.bob.publicKey)
    let nonce = [UInt8](repeating: 1, count: NaClBox.nonceSize)
    let empty = try key.seal([UInt8](), nonce: nonce)
    #expect(empty.count == NaClBox.tagSize)
    #expect(try key.open(empty, nonce: nonce) == [])
    let behind = try key.seal([5, 6], nonce: nonce, behind: 2)
    let sealed = try key.seal([5, 6], nonce: nonce)
    #expect(behind == [0, 0] + sealed)
  }

  @Test("A NaCl box refuses a nonce that is not 24 bytes long and a public key of low order", arguments: [0, 23, 25])
  func refused(count: Int) throws {
    let pair = try Self.pair()
    let key = try NaClBox.Key(own: pair.alice, peer: pair.bob.publicKey)
    let nonce = [UInt8](repeating: 0, count: count)
    let error = CryptoError.badLength("NaCl box nonce", expected: 24, got: count)
    #expect(throws: error) { try key.seal([1], nonce: nonce) }
    #expect(throws: error) { try key.open([UInt8](repeating: 0, count: 20), nonce: nonce) }
    let zero = try X25519.PublicKey([UInt8](repeating: 0, count: 32))
    #expect(throws: CryptoError.weakKey) { try NaClBox.Key(own: pair.alice, peer: zero) }
  }

  @Test(
    "SHA-512 gives the hashes of FIPS 180, for input as a whole and in portions",
    arguments: [
      (
        "",
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81"
          + "a538327af927da3e"
      ),
      (
        "abc",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e"
          + "2a9ac94fa54ca49f"
      ),
      (
        "testing\n",
        "24f950aac7b9ea9b3cb728228a0c82b67c39e96b4b344798870d5daee93e3ae5931baae8c7cacfea4b629452c38026a81d138bc7aad1af3e"
          + "f7bfd5ec646d6c28"
      ),
    ])
  func sha512(text: String, hash: String) {
    #expect(Hex.encode(SHA512.hash(text.utf8)) == hash)
    var portions = SHA512()
    for byte in text.utf8 { portions.update([byte]) }
    #expect(Hex.encode(portions.finish()) == hash)
    #expect(portions.finish() == portions.finish())
  }
}
