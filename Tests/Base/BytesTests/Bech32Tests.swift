import Bytes
import Testing

@Suite("Bech32 and base64")
struct Bech32Tests {
  @Test(
    "Bech32 encoding and decoding convert between the published bytes and texts",
    arguments: [
      // NIP-19.
      (
        "npub", "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg",
        "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
      ),
      (
        "nsec", "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5",
        "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"
      ),
      // BIP-173.
      ("a", "a12uel5l", ""),
    ])
  func published(prefix: String, text: String, digits: String) throws {
    let bytes = try Hex.decode(digits)
    #expect(Bech32.encode(bytes, prefix: prefix) == text)
    #expect(try Bech32.decode(text, prefix: prefix) == bytes)
    #expect(try Bech32.decode(text.uppercased(), prefix: prefix) == bytes)
  }

  @Test("Bech32 decoding refuses a changed character, a different prefix, mixed case and a wrong length")
  func refused() throws {
    let text = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
    for index in text.indices.dropFirst(5) {
      var changed = text
      changed.replaceSubrange(index...index, with: text[index] == "q" ? "p" : "q")
      guard changed != text else { continue }
      #expect(throws: WireError.badValue("bech32")) { try Bech32.decode(changed, prefix: "npub") }
    }
    let wrong = [
      "", "npub1", "npub", "nsec1" + text.dropFirst(5), "N" + text.dropFirst(), String(text.dropLast()), text + "q",
      text + "é", "npub1b" + text.dropFirst(6),
    ]
    for text in wrong { #expect(throws: WireError.badValue("bech32")) { try Bech32.decode(text, prefix: "npub") } }
    #expect(throws: WireError.tooLong(field: "bech32", limit: 90)) {
      try Bech32.decode("a1" + String(repeating: "q", count: 89), prefix: "a")
    }
  }

  @Test(
    "Base64 encoding gives the examples of RFC 4648 section 10",
    arguments: [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
      ("foobar", "Zm9vYmFy"),
    ])
  func base64(bytes: String, text: String) throws {
    #expect(Base64.encode(bytes.utf8) == text)
    #expect(try Base64.decode(text) == Array(bytes.utf8))
  }

  @Test("Base64 uses the characters + and /; the URL alphabet and a text without padding are refused")
  func alphabet() throws {
    let bytes: [UInt8] = [0xFB, 0xEF, 0xBE, 0xFF, 0xFF, 0xFF]
    #expect(Base64.encode(bytes) == "++++////")
    #expect(try Base64.decode("++++////") == bytes)
    for text in ["----", "____", "Zg", "Zg=", "Zg===", "Zh==", "Zg==Zg==", "Z g=", "=Zg="] {
      #expect(throws: WireError.badValue("base64")) { try Base64.decode(text) }
    }
  }
}
