import Bytes
import Crypto
import Foundation
import Testing

@Suite(
  "Wycheproof",
  .enabled(
    if: Wycheproof.isTried(isPresent: Wycheproof.isPresent, in: ProcessInfo.processInfo.environment),
    "the Wycheproof files are not beside the checkout"))
struct WycheproofTests {
  @Test("The Wycheproof vector files are present")
  func present() {
    #expect(Wycheproof.isPresent, "CI needs them in \(Wycheproof.folder.path)")
  }

  @Test("Every Wycheproof vector file is used by a test")
  func files() throws {
    let ours = [
      "aes_gcm", "chacha20_poly1305", "ecdh_secp256k1", "ed25519", "hkdf_sha256", "hmac_sha256", "x25519",
    ]
    let present = try FileManager.default.contentsOfDirectory(atPath: Wycheproof.folder.path)
    #expect(present.sorted() == ours.map { $0 + ".json" })
  }

  @Test("AES-256-GCM gives the results of the Wycheproof vectors, and refuses other key and nonce sizes")
  func aesGCM() throws {
    try tryAll(
      "aes_gcm", of: 316, ours: 66,
      seal: { try AESGCM.seal($0, key: $1, nonce: $2, aad: $3) },
      open: { try AESGCM.open($0, key: $1, nonce: $2, aad: $3) })
  }

  @Test("AES-128-GCM with nonces of 16 bytes gives the results of the Wycheproof vectors, and refuses other sizes")
  func aes128GCM() throws {
    try tryAll(
      "aes_gcm", of: 316, ours: 20, keySize: 128, nonceSize: 128,
      seal: { try AES128GCM.seal($0, key: $1, nonce: $2, aad: $3) },
      open: { try AES128GCM.open($0, key: $1, nonce: $2, aad: $3) })
  }

  @Test("secp256k1 ECDH gives the Wycheproof secrets for uncompressed points, and refuses all other points")
  func secp256k1() throws {
    let file = try Wycheproof.File<Wycheproof.ECDHGroup>("ecdh_secp256k1")
    var (tried, agreed) = (0, 0)
    for group in file.testGroups {
      #expect(group.curve == "secp256k1")
      for test in group.tests {
        tried += 1
        let scalar = try test.scalar()
        let key = try Secp256k1.PrivateKey(copying: scalar)
        guard let peer = try? Secp256k1.PublicKey(info: test.public.value) else {
          #expect(test.result != .valid, "test \(test.tcId)")
          continue
        }
        #expect(test.result == .valid, "test \(test.tcId)")
        agreed += 1
        let secret = try key.sharedX(with: peer)
        #expect(secret.withUnsafeBytes { $0.elementsEqual(test.shared.value) }, "test \(test.tcId)")
      }
    }
    #expect(tried == file.numberOfTests && tried == 752)
    #expect(agreed == 473)
  }

  @Test("secp256k1 ECDH refuses the 16 Wycheproof points of the invalid-curve attack")
  func invalidCurve() throws {
    let tests = try Wycheproof.File<Wycheproof.ECDHGroup>("ecdh_secp256k1").testGroups.flatMap(\.tests)
      .filter { $0.flags == ["InvalidCurveAttack"] }
    #expect(tests.count == 16)
    for test in tests {
      #expect(throws: CryptoError.invalidKey("secp256k1 point"), "test \(test.tcId)") {
        try Secp256k1.PublicKey(info: test.public.value)
      }
    }
  }

  @Test("ChaCha20-Poly1305 gives the results of the Wycheproof vectors, and refuses other sizes")
  func chaChaPoly() throws {
    try tryAll(
      "chacha20_poly1305", of: 325, ours: 316,
      seal: { try ChaChaPoly.seal($0, key: $1, nonce: $2, aad: $3) },
      open: { try ChaChaPoly.open($0, key: $1, nonce: $2, aad: $3) })
  }

  @Test("Ed25519 accepts exactly the valid signatures among the Wycheproof vectors")
  func ed25519() throws {
    let file = try Wycheproof.File<Wycheproof.EdDSAGroup>("ed25519")
    var tried = 0
    for group in file.testGroups {
      let key = try Ed25519.PublicKey(group.publicKey.pk.value)
      for test in group.tests {
        tried += 1
        #expect(key.verify(test.sig.value, of: test.msg.value) == (test.result == .valid), "test \(test.tcId)")
      }
    }
    #expect(tried == file.numberOfTests)
  }

  @Test("HKDF gives the valid Wycheproof outputs, and refuses the others because they are too long")
  func hkdf() throws {
    let file = try Wycheproof.File<Wycheproof.HKDFGroup>("hkdf_sha256")
    var tried = 0
    for test in file.testGroups.flatMap(\.tests) {
      tried += 1
      func derive() throws -> SecretBytes {
        try HKDF.sha256(
          secret: test.ikm.value, salt: test.salt.value, info: test.info.value, count: test.size)
      }
      if test.result == .valid {
        #expect(try derive().withUnsafeBytes { $0.elementsEqual(test.okm.value) }, "test \(test.tcId)")
      } else {
        #expect(throws: CryptoError.badLength("HKDF output", expected: 8160, got: test.size), "test \(test.tcId)") {
          try derive()
        }
      }
    }
    #expect(tried == file.numberOfTests)
  }

  @Test("HMAC accepts exactly the valid codes among the Wycheproof vectors, including truncated codes")
  func hmac() throws {
    let file = try Wycheproof.File<Wycheproof.MACGroup>("hmac_sha256")
    var tried = 0
    for group in file.testGroups {
      for test in group.tests {
        tried += 1
        let key = SecretBytes(copying: test.key.value)
        let verified =
          if group.tagSize == 256 {
            HMACSHA256.verify(test.tag.value, for: test.msg.value, key: key)
          } else {
            ConstantTime.equal(
              test.tag.value,
              HMACSHA256.authenticationCode(for: test.msg.value, key: key).prefix(group.tagSize / 8))
          }
        #expect(verified == (test.result == .valid), "test \(test.tcId)")
      }
    }
    #expect(tried == file.numberOfTests)
  }

  @Test("X25519 gives every Wycheproof shared secret, and refuses the 31 cases where the secret is zero")
  func x25519() throws {
    let file = try Wycheproof.File<Wycheproof.XDHGroup>("x25519")
    var tried = 0
    var refused = 0
    for test in file.testGroups.flatMap(\.tests) {
      tried += 1
      let key = try X25519.PrivateKey(copying: test.private.value)
      let peer = try X25519.PublicKey(test.public.value)
      if test.shared.value.allSatisfy({ $0 == 0 }) {
        refused += 1
        #expect(test.result == .acceptable)
        #expect(throws: CryptoError.weakKey, "test \(test.tcId)") { try key.sharedSecret(with: peer) }
      } else {
        let secret = try key.sharedSecret(with: peer)
        #expect(secret.withUnsafeBytes { $0.elementsEqual(test.shared.value) }, "test \(test.tcId)")
      }
    }
    #expect(tried == file.numberOfTests)
    #expect(refused == 31)
  }

  private typealias Transform = ([UInt8], SecretBytes, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]

  /// Runs a file of authenticated encryption, restricted to keys and nonces of the given numbers of bits and tags of
  /// 128 bits.
  private func tryAll(
    _ name: String, of total: Int, ours: Int, keySize: Int = 256, nonceSize: Int = 96, seal: Transform, open: Transform
  ) throws {
    let file = try Wycheproof.File<Wycheproof.AEADGroup>(name)
    var tried = 0
    var notOurs = 0
    for group in file.testGroups {
      let isOurs = group.keySize == keySize && group.ivSize == nonceSize && group.tagSize == 128
      for test in group.tests {
        let key = SecretBytes(copying: test.key.value)
        let (nonce, aad, plaintext) = (test.iv.value, test.aad.value, test.msg.value)
        let sealed = test.ct.value + test.tag.value
        if !isOurs {
          notOurs += 1
          #expect(refusesLength { try seal(plaintext, key, nonce, aad) }, "test \(test.tcId)")
          #expect(refusesLength { try open(sealed, key, nonce, aad) }, "test \(test.tcId)")
        } else if test.result == .valid {
          tried += 1
          #expect(try seal(plaintext, key, nonce, aad) == sealed, "test \(test.tcId)")
          #expect(try open(sealed, key, nonce, aad) == plaintext, "test \(test.tcId)")
        } else {
          tried += 1
          #expect(throws: CryptoError.authenticationFailed, "test \(test.tcId)") {
            try open(sealed, key, nonce, aad)
          }
        }
      }
    }
    #expect(tried == ours)
    #expect(tried + notOurs == total && total == file.numberOfTests)
  }

  private func refusesLength(_ body: () throws -> [UInt8]) -> Bool {
    do {
      _ = try body()
      return false
    } catch CryptoError.badLength {
      return true
    } catch {
      return false
    }
  }
}

@Suite("Presence of the Wycheproof files")
struct WycheproofSelectionTests {
  @Test(
    "Without the Wycheproof files their tests are skipped, or fail if the variable CI is set",
    arguments: [
      (true, [:], true), (false, [:], false), (true, ["CI": "true"], true), (false, ["CI": "true"], true),
      (false, ["CI": "1"], true), (false, ["CI": ""], false), (false, ["CI": "false"], false),
    ] as [(Bool, [String: String], Bool)])
  func selection(isPresent: Bool, environment: [String: String], isTried: Bool) {
    #expect(Wycheproof.isTried(isPresent: isPresent, in: environment) == isTried)
  }
}
