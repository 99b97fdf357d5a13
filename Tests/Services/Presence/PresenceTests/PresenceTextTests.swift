import Bytes
import Config
import Crypto
import Foundation
import Network
import Testing
import Thali

@testable import Presence

@Suite("Public keys, peer names and local addresses as text")
struct PresenceTextTests {
  private static func key(_ number: UInt8) throws -> Secp256k1.PublicKey {
    try Secp256k1.PrivateKey(copying: [UInt8](repeating: number, count: 32)).publicKey
  }

  @Test("A public key is read in both of its forms from base64, base64url and hex digits")
  func keys() throws {
    for number in UInt8(1)...20 {
      let key = try Self.key(number)
      let info = Base64URL.encode(key.info)
      let standard = info.map { $0 == "-" ? "+" : $0 == "_" ? "/" : String($0) }.joined() + "=="
      let texts = [
        info, standard, Base64URL.encode(key.point), Hex.encode(key.info), Hex.encode(key.point), KeyText.text(key),
      ]
      for text in texts {
        let read = try KnownPeers.key(reading: KeyText.bytes(text))
        #expect(read == key, "\(text)")
      }
    }
    #expect(KeyText.text(try Self.key(1)).utf8.count == 118)
  }

  @Test(
    "A text that is not a public key of private presence gives no key",
    arguments: ["", "abc", "é", "AAAA", "zz==", "========"])
  func badKeys(text: String) {
    #expect(throws: PresenceError.badKey) { try KnownPeers.key(reading: KeyText.bytes(text)) }
  }

  @Test("A text longer than the longest public key is not decoded")
  func longKey() {
    #expect(KeyText.bytes(String(repeating: "A", count: 177)).isEmpty)
    #expect(!KeyText.bytes(String(repeating: "A", count: 176)).isEmpty)
  }

  @Test("A local address is a Unix socket or a port of the loopback interface")
  func addresses() {
    #expect(LocalAddress("/run/a/socket") == .socket("/run/a/socket"))
    #expect(LocalAddress("127.0.0.1:8080") == .loopback(Endpoint(.loopback4, port: 8080)))
    #expect(LocalAddress("[::1]:1") == .loopback(Endpoint(.loopback6, port: 1)))
  }

  @Test(
    "Another host, another form, port 0 or a path that is too long is not a local address",
    arguments: [
      "", "run/socket", "10.0.0.1:80", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
      "127.0.0.1:+80", "127.0.0.1:80 ", "/a\0b", "/" + String(repeating: "x", count: 107),
    ])
  func badAddresses(text: String) { #expect(LocalAddress(text) == nil) }

  @Test("A port from 1 to 1023 in the presence settings is reported")
  func lowPort() {
    func problems(_ port: Int) -> Int {
      var settings = PresenceSettings()
      settings.port = port
      return settings.problems.count
    }
    #expect([0, 1, 1023, 1024, 65_535].map(problems) == [0, 1, 1, 0, 0])
  }

  @Test("A value of `Radio=` in section [Presence] that is not a bus name is reported")
  func busNames() {
    for (name, count) in [("org.earshot", 0), ("earshot", 1), ("", 1), (":1.7", 1), ("org.1a", 1), ("org.a?b", 1)] {
      var settings = PresenceSettings()
      settings.radio = name
      #expect(settings.problems.count == count, "\(name)")
    }
  }

  @Test("config/presence.conf equals the default configuration file")
  func defaultFile() throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let installed = try String(contentsOf: top.appendingPathComponent("config/presence.conf"), encoding: .utf8)
    let isCurrent = installed == PresenceDaemon.configuration.defaultFile
    #expect(isCurrent)
  }

  @Test("A peer's name has 1 to 64 bytes and no control characters, and does not look like an option or a path")
  func names() {
    for name in ["a", "Zoë", "a b", String(repeating: "x", count: 64)] { #expect(StoredPeers.isName(name), "\(name)") }
    for name in ["", "-a", "/a", " a", "a ", "a\nb", "a\u{202E}b", String(repeating: "x", count: 65)] {
      #expect(!StoredPeers.isName(name), "\(name)")
    }
  }
}
