import Bytes
import Crypto
import Testing

@Suite("AES-128-CBC with a key from a password")
struct AESCBCTests {
  /// Made with `openssl enc -aes-128-cbc -nosalt -md md5 -pass pass:password`.
  @Test(
    "AES-CBC ciphertexts equal the output of the openssl command, and are decrypted",
    arguments: [
      ("", "bbc33946e96dfeec1fc3660c2c2f1df1"),
      ("hello, known answer", "1e4feb1b00f7cf106a6fd628f5b14455c898b2fe1e14a49445179fd917b8de43"),
      ("0123456789abcdef", "7e9c50662bf2e271f4e8bce23b13217e001bb0eb733c7c1971bfa2457df58a76"),
    ])
  func knownAnswers(plaintext: String, sealed: String) throws {
    let password = SecretBytes(copying: Array("password".utf8))
    #expect(Hex.encode(try AESCBC.seal(Array(plaintext.utf8), password: password)) == sealed)
    #expect(try AESCBC.open(Hex.decode(sealed), password: password) == Array(plaintext.utf8))
  }

  @Test("AES-CBC pads a text of any length to the next whole block, and decryption restores it")
  func roundTrip() throws {
    let password = SecretBytes(copying: 0..<16)
    for count in 0...50 {
      let bytes = (0..<count).map { UInt8($0) }
      let sealed = try AESCBC.seal(bytes, password: password)
      #expect(sealed.count == count / 16 * 16 + 16)
      #expect(try AESCBC.open(sealed, password: password) == bytes)
    }
  }

  @Test("AES-CBC decryption refuses an empty text, a partial block and a wrong padding")
  func refused() throws {
    let password = SecretBytes(copying: 0..<16)
    let sealed = try AESCBC.seal([1, 2, 3], password: password)
    for bytes in [[], Array(sealed.dropLast()), sealed + [0]] {
      #expect(throws: CryptoError.authenticationFailed) { try AESCBC.open(bytes, password: password) }
    }
    var changed = sealed
    changed[15] ^= 0xFF
    #expect(throws: CryptoError.authenticationFailed) { try AESCBC.open(changed, password: password) }
  }

  @Test("AES-CBC refuses a text of 1 MiB because of its length")
  func tooLong() {
    let password = SecretBytes(copying: 0..<16)
    let bytes = [UInt8](repeating: 0, count: 1 << 20)
    let error = CryptoError.badLength("AES-128-CBC text", expected: (1 << 20) - 1, got: 1 << 20)
    #expect(throws: error) { try AESCBC.seal(bytes, password: password) }
    #expect(throws: error) { try AESCBC.open(bytes, password: password) }
  }
}
