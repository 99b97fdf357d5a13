import Bytes
import Crypto
import Testing

@Suite("secp256k1")
struct Secp256k1Tests {
  /// The generator of the curve (SEC 2 section 2.4.1).
  static let generator =
    "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    + "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
  static let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
  static let one = String(repeating: "0", count: 63) + "1"

  @Test("The secp256k1 private key 1 has the generator as public key, and the order minus 1 has its negative")
  func publicKeys() throws {
    #expect(Hex.encode(try key(Self.one).publicKey.point) == Self.generator)
    let last = try key("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140").publicKey.point
    #expect(Hex.encode(last.prefix(33)) == Self.generator.prefix(66))
    #expect(Hex.encode(last) != Self.generator)
  }

  @Test("The secp256k1 private key 0, and keys not less than the curve's order, are refused")
  func privateRange() {
    for digits in [String(repeating: "0", count: 64), Self.order, String(repeating: "f", count: 64)] {
      #expect(throws: CryptoError.invalidKey("secp256k1 private key")) { try key(digits) }
    }
    for count in [0, 31, 33] {
      #expect(throws: CryptoError.badLength("secp256k1 private key", expected: 32, got: count)) {
        try Secp256k1.PrivateKey(copying: [UInt8](repeating: 1, count: count))
      }
    }
  }

  @Test("The shared secp256k1 X coordinate has 32 bytes, with leading zeros if necessary, and is equal on both sides")
  func leadingZero() throws {
    var random = SeededRandom(seed: 50)
    let mine = try Secp256k1.PrivateKey(randomFrom: &random)
    // One secret in 256 begins with 0; with a fixed seed, 2000 draws contain one.
    for _ in 0..<2000 {
      let other = try Secp256k1.PrivateKey(randomFrom: &random)
      let shared = try mine.sharedX(with: other.publicKey)
      guard shared.withUnsafeBytes({ $0[0] == 0 }) else { continue }
      #expect(shared.count == 32)
      #expect(try shared.equals(other.sharedX(with: mine.publicKey)))
      return
    }
    Issue.record("no secret begins with 0")
  }

  @Test("The secp256k1 shared secret is the X coordinate itself, not a hash of the coordinate")
  func bareX() throws {
    let generator = try Secp256k1.PublicKey(point: Hex.decode(Self.generator))
    #expect(hex(try key(Self.one).sharedX(with: generator)) == Self.generator.dropFirst(2).prefix(64))
  }

  @Test("A secp256k1 point in compressed or hybrid form is refused")
  func otherForms() throws {
    let point = try Hex.decode(Self.generator)
    // The Y coordinate of the generator is even.
    #expect(throws: CryptoError.badLength("secp256k1 point", expected: 65, got: 33)) {
      try Secp256k1.PublicKey(point: [2] + point[1..<33])
    }
    for mark: UInt8 in [0, 2, 3, 5, 6, 7] {
      #expect(throws: CryptoError.invalidKey("secp256k1 point"), "mark \(mark)") {
        try Secp256k1.PublicKey(point: [mark] + point[1...])
      }
    }
  }

  @Test("A secp256k1 point that is off the curve, or has a coordinate outside the field, is refused")
  func notOnCurve() throws {
    var point = try Hex.decode(Self.generator)
    point[64] ^= 1
    let prime = "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f"
    let zero = String(repeating: "0", count: 64)
    for bytes in [
      point, try Hex.decode("04" + zero + zero), try Hex.decode("04" + prime + zero),
      try Hex.decode("04" + String(repeating: "f", count: 128)),
    ] {
      #expect(throws: CryptoError.invalidKey("secp256k1 point")) { try Secp256k1.PublicKey(point: bytes) }
    }
  }

  @Test("A secp256k1 SubjectPublicKeyInfo has 88 bytes, and any change in its header is refused")
  func info() throws {
    let key = try key(Self.one).publicKey
    #expect(key.info.count == 88)
    #expect(Hex.encode(key.info) == "3056301006072a8648ce3d020106052b8104000a034200" + Self.generator)
    #expect(try Secp256k1.PublicKey(info: key.info) == key)
    for index in 0..<23 {
      var changed = key.info
      changed[index] ^= 1
      #expect(throws: CryptoError.invalidKey("secp256k1 SubjectPublicKeyInfo")) {
        try Secp256k1.PublicKey(info: changed)
      }
    }
    for count in [0, 65, 87, 89] {
      #expect(throws: CryptoError.badLength("secp256k1 SubjectPublicKeyInfo", expected: 88, got: count)) {
        try Secp256k1.PublicKey(info: (key.info + [0]).prefix(count))
      }
    }
  }

  @Test("A seeded generator gives the same secp256k1 key each time, and a stored key is restored")
  func drawn() throws {
    var (random, again) = (SeededRandom(seed: 3), SeededRandom(seed: 3))
    let key = try Secp256k1.PrivateKey(randomFrom: &random)
    #expect(try Secp256k1.PrivateKey(randomFrom: &again).publicKey == key.publicKey)
    #expect(try Secp256k1.PrivateKey(key.secret).publicKey == key.publicKey)
    #expect("\(key)" == "<secret>")
  }

  @Test("Making a secp256k1 key fails after the generator has returned 16 values out of range")
  func badGenerator() {
    var stuck = StuckRandom()
    #expect(throws: CryptoError.unavailable("a source of randomness for a secp256k1 key")) {
      try Secp256k1.PrivateKey(randomFrom: &stuck)
    }
    #expect(stuck.drawn == 16)
  }

  private struct StuckRandom: RandomSource {
    var drawn = 0

    mutating func fill(_ bytes: inout [UInt8]) {
      drawn += 1
      for index in bytes.indices { bytes[index] = 0xFF }
    }
  }

  private func key(_ digits: String) throws -> Secp256k1.PrivateKey {
    try Secp256k1.PrivateKey(copying: Hex.decode(digits))
  }
}
