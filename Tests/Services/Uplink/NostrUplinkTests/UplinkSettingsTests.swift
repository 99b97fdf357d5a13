import Foundation
import Nostr
import Testing

@testable import NostrUplink

@Suite("Settings of the Nostr uplink")
struct UplinkSettingsTests {
  @Test("The configured proxy of the uplink must be on this machine")
  func proxies() {
    for (text, host) in [("127.0.0.1:9050", "127.0.0.1"), ("localhost:1", "127.0.0.1"), ("[::1]:9050", "::1")] {
      #expect(ProxyAddress(text)?.host == host)
    }
    for text in [
      "", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:+9050", "10.0.0.1:9050", "proxy.example:9050",
      "::1:9050",
    ] {
      #expect(ProxyAddress(text) == nil, "\(text)")
    }
    #expect(UplinkSettings().proxy.text == "127.0.0.1:39050")
  }

  @Test("The default relays of the uplink are those of the phone apps, and none has a reported problem")
  func relays() {
    #expect(UplinkSettings().problems(allowsClearnet: false).isEmpty)
    let relays = UplinkSettings().parsedRelays(allowsPlain: false)
    #expect(relays.compactMap { $0.server?.address.text } == RelayAddress.apps)
    #expect(relays.compactMap { $0.server?.socket.host } == relays.compactMap { $0.server?.address.host })
    var settings = UplinkSettings()
    settings.relays = ["ws://relay.example", "wss://[::1]:7000"]
    #expect(settings.problems(allowsClearnet: false).count == 2)
    #expect(settings.problems(allowsClearnet: true).count == 1)
  }

  @Test("A value of `Mesh=` in section [Uplink] that is not a bus name is reported")
  func busNames() {
    for (name, count) in [("org.earshot", 0), ("earshot", 1), ("", 1), (":1.7", 1), ("org.1a", 1), ("org.a?b", 1)] {
      var settings = UplinkSettings()
      settings.mesh = name
      #expect(settings.problems(allowsClearnet: false).count == count, "\(name)")
    }
  }

  private static func text(_ path: String) throws -> String {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    return try String(contentsOf: top.appendingPathComponent(path), encoding: .utf8)
  }

  @Test("config/uplink.conf equals the default configuration file")
  func defaultFile() throws {
    let isCurrent = try Self.text("config/uplink.conf") == UplinkDaemon.configuration.defaultFile
    #expect(isCurrent)
  }

  @Test("The default of MemoryLimit= is MemoryMax= of the unit")
  func memory() throws {
    let key = "#MemoryLimit="
    let line = try #require(try Self.text("config/uplink.conf").split(separator: "\n").first { $0.hasPrefix(key) })
    let unit = try Self.text("systemd/earshot-nostrd.service")
    #expect(unit.contains("\nMemoryMax=\(line.dropFirst(key.count))\n"))
  }
}
