import Testing

@Suite("Protocol-specific words in Host and Base")
struct ProtocolWordTests {
  @Test("Names, strings and comments in Host and Base contain no protocol-specific word")
  func tree() throws {
    let sources = try House.files(below: "Sources")
    #expect(ProtocolWords.broken(sources) == [])
  }

  private func broken(_ text: String, in path: String = "Host/Loop/Sample.swift") -> [String] {
    ProtocolWords.broken([SourceFile(path: "Sources/\(path)", text: text)])
  }

  @Test(
    "A protocol-specific word in a name, string or comment of Host or Base is reported",
    arguments: [
      "let wallet = 1", "struct WalletLink {}", "// for the verifier", "log(\"a Credential came\")", "case tuvali",
      "let servedDialects = 2", "/// TVV_TRA_001", "let meshLinks = 1", "for chunk in chunks {}", "func readASN() {}",
      "let asnPort = 1", "// ASN", "// the Noise handshake", "\"OPENID4VP\"", "let isVisitor = true",
      "enum Bitchat {}", "// as PBLEC does", "import Thali",
    ])
  func caught(text: String) {
    #expect(broken("\n" + text).count == 1)
    #expect(broken(text, in: "Base/Bytes/Sample.swift").count == 1)
    #expect(broken(text, in: "Host/DBus/Access/Sample.swift").count == 1)
    #expect(broken(text, in: "Protocols/Tuvali/Sample.swift") == [])
    #expect(broken(text, in: "Services/Manager/Sample.swift") == [])
  }

  @Test(
    "A word that merely contains the letters of a protocol-specific word is not reported",
    arguments: ["let hasNext = 1", "// it has no end", "wasn't", "let isASCII = 1", "noisesome", "meh"])
  func harmless(text: String) {
    #expect(broken(text) == [])
  }

  @Test("D-Bus and systemd terms that are also protocol words are allowed only in the files about D-Bus and systemd")
  func exceptions() {
    #expect(broken("call(\"GetConnectionCredentials\")") == [])
    #expect(broken("environment[\"CREDENTIALS_DIRECTORY\"] // LoadCredentialEncrypted=, LoadCredential=") == [])
    #expect(broken("let credentials: Credentials", in: "Host/DBus/Access/Credentials.swift") == [])
    #expect(broken("bus.credentials(of: sender)", in: "Host/Hosting/Manager/SoleCaller.swift") == [])
    #expect(broken("let credential = 1", in: "Host/Hosting/Manager/SoleCaller.swift").count == 1)
    #expect(broken("let credentials: Credentials").count == 1)
    #expect(broken("GetConnectionCredentials of a wallet").count == 1)
    #expect(broken("let credential = 1", in: "Host/DBus/Access/Sample.swift").count == 1)
    #expect(broken("var chunk = 1", in: "Host/DBus/Values/Value.swift").count == 1)
    #expect(broken("enum NoiseError {}", in: "Base/Noise/NoiseError.swift") == [])
    #expect(broken("enum NoiseError {}", in: "Base/Crypto/NoiseError.swift").count == 2)
    #expect(broken("// the Bitchat mesh, by Noise", in: "Base/Noise/Sessions.swift").count == 1)
  }

  @Test("A protocol-specific word in a file name is reported, and each report has a line number")
  func place() {
    #expect(broken("", in: "Host/Store/WalletFile.swift") == ["Sources/Host/Store/WalletFile.swift:0: the word wallet"])
    #expect(broken("\nlet a = \"mesh\"") == ["Sources/Host/Loop/Sample.swift:2: the word mesh"])
  }

  @Test("A camel-case name is split into its words before it is compared with protocol-specific words")
  func words() {
    #expect(ProtocolWords.words(of: "readASNHeader(of_asn: ASN1)") == ["read", "asn", "header", "of", "asn", "asn"])
  }
}
