import Bytes
import Crypto
import Testing

@Suite("SHA-256, HMAC and HKDF")
struct HashTests {
  @Test(
    "SHA-256 gives the hashes of FIPS 180",
    arguments: [
      ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      (
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
      ),
      (
        String(repeating: "a", count: 1_000_000),
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
      ),
    ])
  func sha256(text: String, hash: String) {
    #expect(Hex.encode(SHA256.hash(text.utf8)) == hash)
  }

  @Test("SHA-256 of input in portions equals that of the whole input, and intermediate hashes can be read")
  func portions() {
    let bytes = (0..<200).map { UInt8($0) }
    for size in [1, 3, 63, 64, 65, 199, 200] {
      var hash = SHA256()
      for start in stride(from: 0, to: bytes.count, by: size) {
        hash.update(bytes[start..<min(start + size, bytes.count)])
        #expect(hash.finish() == SHA256.hash(bytes.prefix(start + size)))
      }
      hash.update([UInt8]())
      #expect(hash.finish() == SHA256.hash(bytes))
    }
    #expect(SHA256().finish() == SHA256.hash([UInt8]()))
  }

  /// RFC 4231, cases 1 to 7; the RFC gives only 16 bytes of the fifth code.
  static let codes: [(key: [UInt8], message: [UInt8], code: String)] = [
    (
      [UInt8](repeating: 0x0B, count: 20), Array("Hi There".utf8),
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    ),
    (
      Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    ),
    (
      [UInt8](repeating: 0xAA, count: 20), [UInt8](repeating: 0xDD, count: 50),
      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
    ),
    (
      Array(1...25), [UInt8](repeating: 0xCD, count: 50),
      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
    ),
    ([UInt8](repeating: 0x0C, count: 20), Array("Test With Truncation".utf8), "a3b6167473100ee06e0c796c2955552b"),
    (
      [UInt8](repeating: 0xAA, count: 131), Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    ),
    (
      [UInt8](repeating: 0xAA, count: 131),
      Array(
        ("This is a test using a larger than block-size key and a larger than block-size data. "
          + "The key needs to be hashed before being used by the HMAC algorithm.").utf8),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
    ),
  ]

  @Test(
    "HMAC-SHA-256 gives the codes of RFC 4231, with a key in secret or in ordinary memory", arguments: codes.indices)
  func hmac(_ index: Int) {
    let (key, message, expected) = Self.codes[index]
    let code = HMACSHA256.authenticationCode(for: message, key: SecretBytes(copying: key))
    #expect(Hex.encode(code.prefix(expected.count / 2)) == expected)
    #expect(HMACSHA256.authenticationCode(for: message, key: key) == code)
  }

  @Test("An HMAC code is valid only if it is complete and unchanged")
  func verify() {
    let key = SecretBytes(copying: [1, 2, 3])
    let code = HMACSHA256.authenticationCode(for: [4, 5], key: key)
    #expect(HMACSHA256.verify(code, for: [4, 5], key: key))
    #expect(!HMACSHA256.verify(code, for: [4], key: key))
    #expect(!HMACSHA256.verify(code, for: [4, 5], key: SecretBytes(copying: [1, 2])))
    #expect(!HMACSHA256.verify(code.dropLast(), for: [4, 5], key: key))
    #expect(!HMACSHA256.verify([UInt8](), for: [4, 5], key: key))
    for bit in 0..<256 {
      var altered = code
      altered[bit / 8] ^= 1 << (bit % 8)
      #expect(!HMACSHA256.verify(altered, for: [4, 5], key: key))
    }
  }

  /// RFC 5869, appendix A, the cases with SHA-256.
  static let derivations: [(secret: [UInt8], salt: [UInt8], info: [UInt8], output: String)] = [
    (
      [UInt8](repeating: 0x0B, count: 22), Array(0x00...0x0C), Array(0xF0...0xF9),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    ),
    (
      Array(0x00...0x4F), Array(0x60...0xAF), Array(0xB0...0xFF),
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8"
        + "367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"
    ),
    (
      [UInt8](repeating: 0x0B, count: 22), [], [],
      "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    ),
  ]

  @Test("HKDF-SHA-256 gives the outputs of RFC 5869", arguments: derivations.indices)
  func hkdf(_ index: Int) throws {
    let (input, salt, info, output) = Self.derivations[index]
    let count = output.count / 2
    let key = try HKDF.sha256(secret: SecretBytes(copying: input), salt: salt, info: info, count: count)
    #expect(hex(key) == output)
    #expect(key.equals(try HKDF.sha256(secret: input, salt: salt, info: info, count: count)))
  }

  @Test("A shorter HKDF output is a prefix of a longer one")
  func prefixes() throws {
    let whole = hex(try HKDF.sha256(secret: [1, 2, 3], salt: [4], info: [5], count: 100))
    for count in 0...100 {
      #expect(hex(try HKDF.sha256(secret: [1, 2, 3], salt: [4], info: [5], count: count)) == whole.prefix(2 * count))
    }
  }

  @Test("HKDF gives outputs of up to 8,160 bytes, and refuses 8,161 bytes and negative counts")
  func limit() throws {
    #expect(try HKDF.sha256(secret: [1], salt: [], info: [], count: 8160).count == 8160)
    for count in [8161, .max, -1, .min] {
      #expect(throws: CryptoError.badLength("HKDF output", expected: 8160, got: count)) {
        try HKDF.sha256(secret: [1], salt: [], info: [], count: count)
      }
    }
  }
}
