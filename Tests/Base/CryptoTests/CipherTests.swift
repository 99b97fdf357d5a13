import Bytes
import Crypto
import Testing

@Suite("ChaCha20-Poly1305, XChaCha20-Poly1305 and AES-256-GCM")
struct CipherTests {
  /// All ciphers have one interface, so one set of tests covers them.
  enum Cipher: String, Sendable, CaseIterable {
    case chaChaPoly = "ChaCha20-Poly1305"
    case xChaChaPoly = "XChaCha20-Poly1305"
    case aesGCM = "AES-256-GCM"

    var nonceSize: Int { self == .xChaChaPoly ? 24 : 12 }
    var nonce: [UInt8] { [UInt8](repeating: 5, count: nonceSize) }

    func seal(_ plaintext: some Collection<UInt8>, _ key: SecretBytes, _ nonce: [UInt8], _ aad: [UInt8]) throws
      -> [UInt8]
    {
      switch self {
      case .chaChaPoly: try ChaChaPoly.seal(plaintext, key: key, nonce: nonce, aad: aad)
      case .xChaChaPoly: try XChaChaPoly.seal(plaintext, key: key, nonce: nonce, aad: aad)
      case .aesGCM: try AESGCM.seal(plaintext, key: key, nonce: nonce, aad: aad)
      }
    }

    func open(_ sealed: some Collection<UInt8>, _ key: SecretBytes, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]
    {
      switch self {
      case .chaChaPoly: try ChaChaPoly.open(sealed, key: key, nonce: nonce, aad: aad)
      case .xChaChaPoly: try XChaChaPoly.open(sealed, key: key, nonce: nonce, aad: aad)
      case .aesGCM: try AESGCM.open(sealed, key: key, nonce: nonce, aad: aad)
      }
    }
  }

  struct Vector: Sendable, CustomTestStringConvertible {
    let name: String
    let cipher: Cipher
    let key: String
    let nonce: String
    let aad: String
    let plaintext: [UInt8]
    let sealed: String

    var testDescription: String { name }
  }

  static let sunscreen =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    + "sunscreen would be it."
  static let draft =
    "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, "
    + "or obsoleted by other documents at any time. It is inappropriate to use Internet-Drafts as reference material "
    + "or to cite them other than as /\u{201C}work in progress./\u{201D}"
  static let gcmKey = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"
  static let gcmPlaintext: [UInt8] = [
    0xD9, 0x31, 0x32, 0x25, 0xF8, 0x84, 0x06, 0xE5, 0xA5, 0x59, 0x09, 0xC5, 0xAF, 0xF5, 0x26, 0x9A,
    0x86, 0xA7, 0xA9, 0x53, 0x15, 0x34, 0xF7, 0xDA, 0x2E, 0x4C, 0x30, 0x3D, 0x8A, 0x31, 0x8A, 0x72,
    0x1C, 0x3C, 0x0C, 0x95, 0x95, 0x68, 0x09, 0x53, 0x2F, 0xCF, 0x0E, 0x24, 0x49, 0xA6, 0xB5, 0x25,
    0xB1, 0x6A, 0xED, 0xF5, 0xAA, 0x0D, 0xE6, 0x57, 0xBA, 0x63, 0x7B, 0x39, 0x1A, 0xAF, 0xD2, 0x55,
  ]

  static let vectors = [
    Vector(
      name: "RFC 8439 section 2.8.2", cipher: .chaChaPoly,
      key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", nonce: "070000004041424344454647",
      aad: "50515253c0c1c2c3c4c5c6c7", plaintext: Array(sunscreen.utf8),
      sealed: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
        + "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        + "3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"),
    Vector(
      name: "RFC 8439 appendix A.5", cipher: .chaChaPoly,
      key: "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0", nonce: "000000000102030405060708",
      aad: "f33388860000000000004e91", plaintext: Array(draft.utf8),
      sealed: "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0"
        + "bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855"
        + "9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e9"
        + "9040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a"
        + "0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130"
        + "305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709beead9d67890cbb22392336fea1851f38"),
    Vector(
      name: "draft-irtf-cfrg-xchacha-03 appendix A.3.1", cipher: .xChaChaPoly,
      key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
      nonce: "404142434445464748494a4b4c4d4e4f5051525354555657",
      aad: "50515253c0c1c2c3c4c5c6c7", plaintext: Array(sunscreen.utf8),
      sealed: "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
        + "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
        + "21f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49"),
    Vector(
      name: "GCM test case 13", cipher: .aesGCM, key: String(repeating: "00", count: 32),
      nonce: String(repeating: "00", count: 12), aad: "", plaintext: [], sealed: "530f8afbc74536b9a963b4f1c4cb738b"),
    Vector(
      name: "GCM test case 14", cipher: .aesGCM, key: String(repeating: "00", count: 32),
      nonce: String(repeating: "00", count: 12), aad: "", plaintext: [UInt8](repeating: 0, count: 16),
      sealed: "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
    Vector(
      name: "GCM test case 15", cipher: .aesGCM, key: gcmKey, nonce: "cafebabefacedbaddecaf888", aad: "",
      plaintext: gcmPlaintext,
      sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
        + "c5f61e6393ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c"),
    Vector(
      name: "GCM test case 16", cipher: .aesGCM, key: gcmKey, nonce: "cafebabefacedbaddecaf888",
      aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2", plaintext: gcmPlaintext.dropLast(4),
      sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
        + "c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"),
  ]

  @Test("Each AEAD cipher seals and opens its published test vectors", arguments: vectors)
  func knownAnswers(_ vector: Vector) throws {
    let (key, nonce, aad) = (try secret(vector.key), try Hex.decode(vector.nonce), try Hex.decode(vector.aad))
    #expect(Hex.encode(try vector.cipher.seal(vector.plaintext, key, nonce, aad)) == vector.sealed)
    #expect(try vector.cipher.open(Hex.decode(vector.sealed), key, nonce, aad) == vector.plaintext)
  }

  static let key = SecretBytes(copying: 0..<32)

  @Test(
    "Each AEAD cipher restores texts of every length, also from a slice, and adds 16 bytes when it seals",
    arguments: Cipher.allCases)
  func roundTrip(_ cipher: Cipher) throws {
    let bytes = (0..<100).map { UInt8($0) }
    for count in 0...bytes.count {
      let sealed = try cipher.seal(bytes.suffix(count), Self.key, cipher.nonce, [1])
      #expect(sealed.count == count + 16)
      #expect(try cipher.open(([0] + sealed)[1...], Self.key, cipher.nonce, [1]).elementsEqual(bytes.suffix(count)))
    }
  }

  @Test("Each AEAD cipher restores a text of 5 MiB", arguments: Cipher.allCases)
  func large(_ cipher: Cipher) throws {
    var random = SeededRandom(seed: 4)
    let bytes = random.bytes(1 << 20)
    let five = Array([bytes, bytes, bytes, bytes, bytes].joined())
    #expect(try cipher.open(cipher.seal(five, Self.key, cipher.nonce, []), Self.key, cipher.nonce, []) == five)
  }

  @Test("An AEAD ciphertext with any one bit changed is refused", arguments: Cipher.allCases)
  func altered(_ cipher: Cipher) throws {
    let sealed = try cipher.seal([1, 2, 3, 4], Self.key, cipher.nonce, [9, 9])
    for bit in 0..<sealed.count * 8 {
      var altered = sealed
      altered[bit / 8] ^= 1 << (bit % 8)
      #expect(throws: CryptoError.authenticationFailed) { try cipher.open(altered, Self.key, cipher.nonce, [9, 9]) }
    }
    for count in 0..<sealed.count {
      #expect(throws: CryptoError.authenticationFailed) {
        try cipher.open(sealed.prefix(count), Self.key, cipher.nonce, [9, 9])
      }
    }
    for (key, nonce, aad) in [
      (SecretBytes(copying: 1..<33), cipher.nonce, [UInt8(9), 9]),
      (Self.key, [UInt8](repeating: 6, count: cipher.nonceSize), [9, 9]), (Self.key, cipher.nonce, [9]),
      (Self.key, cipher.nonce, []),
    ] {
      #expect(throws: CryptoError.authenticationFailed) { try cipher.open(sealed, key, nonce, aad) }
    }
  }

  @Test("An AEAD key that is not 32 bytes long, or a nonce of a wrong size, is refused", arguments: Cipher.allCases)
  func lengths(_ cipher: Cipher) {
    for count in [0, 16, 31, 33] {
      let error = CryptoError.badLength("\(cipher.rawValue) key", expected: 32, got: count)
      let key = SecretBytes(random: count)
      #expect(throws: error) { try cipher.seal([1], key, cipher.nonce, []) }
      #expect(throws: error) { try cipher.open([UInt8](repeating: 0, count: 17), key, cipher.nonce, []) }
    }
    for count in [0, 8, 11, 12, 13, 16, 23, 24, 25] where count != cipher.nonceSize {
      let error = CryptoError.badLength("\(cipher.rawValue) nonce", expected: cipher.nonceSize, got: count)
      let nonce = [UInt8](repeating: 0, count: count)
      #expect(throws: error) { try cipher.seal([1], Self.key, nonce, []) }
      #expect(throws: error) { try cipher.open([UInt8](repeating: 0, count: 17), Self.key, nonce, []) }
    }
  }

  @Test("XChaCha20-Poly1305 with a nonce in front draws another nonce for each text, and opens the text without it")
  func nonceInFront() throws {
    var random = SeededRandom(seed: 6)
    var same = random
    let sealed = try XChaChaPoly.sealWithNonce([1, 2, 3], key: Self.key, aad: [9], randomFrom: &random)
    let nonce = same.bytes(24)
    let plain = try XChaChaPoly.seal([1, 2, 3], key: Self.key, nonce: nonce, aad: [9])
    #expect(sealed == nonce + plain)
    #expect(try XChaChaPoly.openWithNonce(([0] + sealed)[1...], key: Self.key, aad: [9]) == [1, 2, 3])
    let again = try XChaChaPoly.sealWithNonce([1, 2, 3], key: Self.key, aad: [9], randomFrom: &random)
    #expect(again != sealed)
    let empty = try XChaChaPoly.sealWithNonce([UInt8](), key: Self.key, randomFrom: &random)
    #expect(try XChaChaPoly.openWithNonce(empty, key: Self.key).isEmpty)
  }

  @Test("XChaCha20-Poly1305 with a nonce in front refuses a changed or cut text, and a key of another length")
  func nonceInFrontAltered() throws {
    var random = SeededRandom(seed: 7)
    let sealed = try XChaChaPoly.sealWithNonce([1, 2, 3], key: Self.key, aad: [9], randomFrom: &random)
    for index in sealed.indices {
      var altered = sealed
      altered[index] ^= 1
      #expect(throws: CryptoError.authenticationFailed) {
        try XChaChaPoly.openWithNonce(altered, key: Self.key, aad: [9])
      }
      #expect(throws: CryptoError.authenticationFailed) {
        try XChaChaPoly.openWithNonce(sealed.prefix(index), key: Self.key, aad: [9])
      }
    }
    #expect(throws: CryptoError.authenticationFailed) { try XChaChaPoly.openWithNonce(sealed, key: Self.key) }
    let shortKey = SecretBytes(copying: 0..<31)
    let short = CryptoError.badLength("XChaCha20-Poly1305 key", expected: 32, got: 31)
    #expect(throws: short) { try XChaChaPoly.openWithNonce(sealed, key: shortKey) }
    #expect(throws: short) { try XChaChaPoly.openWithNonce([UInt8](), key: shortKey) }
    #expect(throws: short) { try XChaChaPoly.sealWithNonce([1], key: shortKey, randomFrom: &random) }
  }

  @Test("32 tasks that seal and open with one AEAD key at the same time get correct results")
  func threads() async throws {
    let right = await withTaskGroup(of: Bool.self, returning: Int.self) { group in
      for task in UInt8(0)..<32 {
        group.addTask {
          Cipher.allCases.allSatisfy { cipher in
            let bytes = [UInt8](repeating: task, count: 1000)
            let sealed = try? cipher.seal(bytes, Self.key, cipher.nonce, [task])
            return sealed.flatMap { try? cipher.open($0, Self.key, cipher.nonce, [task]) } == bytes
          }
        }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(right == 32)
  }
}
