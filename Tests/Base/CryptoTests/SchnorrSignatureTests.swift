import Bytes
import Testing

@testable import Crypto

/// A source of given bytes.
private struct GivenBytes: RandomSource {
  var rest: [UInt8]

  mutating func fill(_ bytes: inout [UInt8]) {
    bytes = Array(rest.prefix(bytes.count))
    rest.removeFirst(bytes.count)
  }
}

@Suite("Schnorr signatures")
struct SchnorrSignatureTests {
  /// A row of the vectors of BIP-340; the comment of the file says why a signature is wrong.
  struct Row: Sendable, CustomTestStringConvertible {
    let number: Int
    let secret: String?
    let key: String
    let auxiliary: String?
    let message: String
    let signature: String
    let isValid: Bool
    var testDescription: String { "\(number)" }

    init(_ line: String, _ number: Int) {
      let parts = line.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
      self.number = number
      (secret, key, auxiliary) = (parts[0].isEmpty ? nil : parts[0], parts[1], parts[2].isEmpty ? nil : parts[2])
      (message, signature, isValid) = (parts[3], parts[4], parts[5] == "TRUE")
    }
  }

  private static let message = "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89"
  private static let key = "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659"
  private static let half = "69E89B4C5564D00349106B8497785DD7D1D713A8AE82B32FA79D5F7FC407D39B"
  private static let first = "6CFF5C3BA86C69EA4B7376F31A9BCB4F74C1976089B2D9963DA2E5543E177769"
  private static let zeros = String(repeating: "0", count: 64)
  private static let ones = String(repeating: "F", count: 64)

  /// `bip-0340/test-vectors.csv` of bitcoin/bips at 7e8b5dfc, rows 0 to 14: secret key, public key, auxiliary bytes,
  /// message, signature, result.
  static let rows: [Row] = [
    "\(zeros.dropLast())3,F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9,\(zeros),\(zeros),"
      + "E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215"
      + "25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0,TRUE",
    "B7E151628AED2A6ABF7158809CF4F3C762E7160F38B4DA56A784D9045190CFEF,\(key),\(zeros.dropLast())1,\(message),"
      + "6896BD60EEAE296DB48A229FF71DFE071BDE413E6D43F917DC8DCF8C78DE3341"
      + "8906D11AC976ABCCB20B091292BFF4EA897EFCB639EA871CFA95F6DE339E4B0A,TRUE",
    "C90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B14E5C9,"
      + "DD308AFEC5777E13121FA72B9CC1B7CC0139715309B086C960E18FD969774EB8,"
      + "C87AA53824B4D7AE2EB035A2B5BBBCCC080E76CDC6D1692C4B0B62D798E6D906,"
      + "7E2D58D8B3BCDF1ABADEC7829054F90DDA9805AAB56C77333024B9D0A508B75C,"
      + "5831AAEED7B44BB74E5EAB94BA9D4294C49BCF2A60728D8B4C200F50DD313C1B"
      + "AB745879A5AD954A72C45A91C3A51D3C7ADEA98D82F8481E0E1E03674A6F3FB7,TRUE",
    "0B432B2677937381AEF05BB02A66ECD012773062CF3FA2549E44F58ED2401710,"
      + "25D1DFF95105F5253C4022F628A996AD3A0D95FBF21D468A1B33F8C160D8F517,\(ones),\(ones),"
      + "7EB0509757E246F19449885651611CB965ECC1A187DD51B64FDA1EDC9637D5EC"
      + "97582B9CB13DB3933705B32BA982AF5AF25FD78881EBB32771FC5922EFC66EA3,TRUE",
    ",D69C3509BB99E412E68B0FE8544E72837DFA30746D8BE2AA65975F29D22DC7B9,,"
      + "4DF3C3F68FCC83B27E9D42C90431A72499F17875C81A599B566C9889B9696703,"
      + "00000000000000000000003B78CE563F89A0ED9414F5AA28AD0D96D6795F9C63"
      + "76AFB1548AF603B3EB45C9F8207DEE1060CB71C04E80F593060B07D28308D7F4,TRUE",
    ",EEFDEA4CDB677750A420FEE807EACF21EB9898AE79B9768766E4FAA04A2D4A34,,\(message),\(first)\(half),FALSE",
    ",\(key),,\(message),FFF97BD5755EEEA420453A14355235D382F6472F8568A18B2F057A1460297556"
      + "3CC27944640AC607CD107AE10923D9EF7A73C643E166BE5EBEAFA34B1AC553E2,FALSE",
    ",\(key),,\(message),1FA62E331EDBC21C394792D2AB1100A7B432B013DF3F6FF4F99FCB33E0E1515F"
      + "28890B3EDB6E7189B630448B515CE4F8622A954CFE545735AAEA5134FCCDB2BD,FALSE",
    ",\(key),,\(message),\(first)961764B3AA9B2FFCB6EF947B6887A226E8D7C93E00C5ED0C1834FF0D0C2E6DA6,FALSE",
    ",\(key),,\(message),\(zeros)123DDA8328AF9C23A94C1FEECFD123BA4FB73476F0D594DCB65C6425BD186051,FALSE",
    ",\(key),,\(message),\(zeros.dropLast())17615FBAF5AE28864013C099742DEADB4DBA87F11AC6754F93780D5A1837CF197,FALSE",
    ",\(key),,\(message),4A298DACAE57395A15D0795DDBFD1DCB564DA82B0F269BC70A74F8220429BA1D\(half),FALSE",
    ",\(key),,\(message),FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F\(half),FALSE",
    ",\(key),,\(message),\(first)FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,FALSE",
    ",FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC30,,\(message),\(first)\(half),FALSE",
  ].enumerated().map { Row($1, $0) }

  @Test("Schnorr signing and verification give the results of every BIP-340 test vector", arguments: rows)
  func published(row: Row) throws {
    let message = try Hex.decode(row.message)
    let signature = try Hex.decode(row.signature)
    if let secret = row.secret, let auxiliary = row.auxiliary {
      let key = try Secp256k1.PrivateKey(copying: Hex.decode(secret))
      var random = GivenBytes(rest: try Hex.decode(auxiliary))
      #expect(Hex.encode(key.xOnlyKey.bytes).uppercased() == row.key)
      #expect(try key.sign(hash: message, randomFrom: &random) == signature)
    }
    // A coordinate of no point is refused before any signature is.
    let bytes = try Hex.decode(row.key)
    let key = try? Secp256k1.XOnlyKey(bytes)
    #expect((key?.hasSigned(message, signature: signature) ?? false) == row.isValid)
  }

  @Test("A Schnorr signature of a wrong length is invalid, and a hash of a wrong length is not signed")
  func lengths() throws {
    var random = SeededRandom(seed: 1)
    let key = try Secp256k1.PrivateKey(randomFrom: &random)
    let hash = random.bytes(32)
    let signature = try key.sign(hash: hash, randomFrom: &random)
    #expect(key.xOnlyKey.hasSigned(hash, signature: signature))
    #expect(!key.xOnlyKey.hasSigned(hash, signature: signature.dropLast()))
    #expect(!key.xOnlyKey.hasSigned(hash, signature: signature + [0]))
    #expect(!key.xOnlyKey.hasSigned([], signature: signature))
    #expect(throws: CryptoError.badLength("hash to sign", expected: 32, got: 31)) {
      try key.sign(hash: random.bytes(31), randomFrom: &random)
    }
    #expect(throws: CryptoError.badLength("secp256k1 X coordinate", expected: 32, got: 33)) {
      try Secp256k1.XOnlyKey(random.bytes(33))
    }
  }

  @Test("Both sides compute a shared secp256k1 point with the same X coordinate, in 33-byte compressed form")
  func sharedPoint() throws {
    var random = SeededRandom(seed: 2)
    var marks: Set<UInt8> = []
    for _ in 0..<16 {
      let first = try Secp256k1.PrivateKey(randomFrom: &random)
      let second = try Secp256k1.PrivateKey(randomFrom: &random)
      let mine = try first.sharedPoint(with: second.xOnlyKey)
      let yours = try second.sharedPoint(with: first.xOnlyKey)
      #expect(mine.count == 33)
      #expect(hex(mine).dropFirst(2) == hex(yours).dropFirst(2))
      let coordinate = try first.sharedX(with: second.publicKey)
      #expect(hex(mine).dropFirst(2) == hex(coordinate)[...])
      marks.insert(mine.withUnsafeBytes { $0[0] })
      marks.insert(yours.withUnsafeBytes { $0[0] })
    }
    #expect(marks == [0x02, 0x03])
  }
}

@Suite("ChaCha20 key stream and HKDF in separate steps")
struct StreamCipherTests {
  @Test("The ChaCha20 key stream for a zero key and nonce is that of RFC 8439, appendix A.1")
  func keyStream() throws {
    let zeros = SecretBytes(copying: [UInt8](repeating: 0, count: 32))
    let nonce = SecretBytes(copying: [UInt8](repeating: 0, count: 12))
    let stream = try ChaCha20.apply(to: [UInt8](repeating: 0, count: 64), key: zeros, nonce: nonce)
    #expect(
      Hex.encode(stream)
        == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        + "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586")
    #expect(try ChaCha20.apply(to: stream, key: zeros, nonce: nonce).allSatisfy { $0 == 0 })
    #expect(throws: CryptoError.badLength("ChaCha20 nonce", expected: 12, got: 32)) {
      try ChaCha20.apply(to: stream, key: zeros, nonce: zeros)
    }
  }

  @Test("HKDF extract and HKDF expand give the values of RFC 5869, appendix A.1")
  func steps() throws {
    let key = HKDF.extract(
      secret: SecretBytes(copying: [UInt8](repeating: 0x0B, count: 22)), salt: Array(0...0x0C))
    #expect(hex(key) == "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    let output = try HKDF.expand(key: key, info: Array(0xF0...0xF9), count: 42)
    #expect(
      hex(output)
        == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    #expect(throws: CryptoError.badLength("HKDF output", expected: 8160, got: 8161)) {
      try HKDF.expand(key: key, info: [], count: 8161)
    }
  }
}
