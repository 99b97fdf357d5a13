import Common
import Config
import DBus
import Nostr
import SOCKS
import Streams

/// The settings of `earshot-nostrd`, section `[Uplink]` of `uplink.conf`.
public struct UplinkSettings: SettingsSection, Equatable {
  /// Options by which the uplink deviates from the behaviour of the phone apps.
  public enum Option: String, CaseIterable, Sendable {
    /// Envelopes as NIP-17, NIP-44 and NIP-59 define them, instead of the apps' own form.
    case nip17 = "nip17_strict"
  }

  public var proxyText = "127.0.0.1:39050"
  /// The addresses of the relays for private messages; nil means the relays of the phone apps.
  public var relays: [String]?
  public var geohashes: [Geohash]?
  public var geohashName: String?
  public var options: [Option]?
  public var trustedCertificates: String?
  /// The bus name of the service of the mesh.
  public var mesh = "org.earshot"

  public init() {}

  var proxy: ProxyAddress { ProxyAddress(proxyText) ?? ProxyAddress(host: "127.0.0.1", port: 39050) }

  /// The parsed relays: those of the apps, if the settings name none.
  ///
  /// - Parameter allowsPlain: whether connections without TLS are permitted.
  func parsedRelays(allowsPlain: Bool) -> [UplinkRelay] {
    (relays ?? RelayAddress.apps).map { UplinkRelay($0, allowsPlain: allowsPlain) }
  }

  /// Contradictions between settings and unusable values, one sentence for each.
  ///
  /// - Parameter allowsClearnet: whether the developer's switch is set.
  func problems(allowsClearnet: Bool) -> [String] {
    parsedRelays(allowsPlain: allowsClearnet).compactMap(\.problem)
      + (WellKnownName.isValid(mesh) ? [] : ["Mesh= of [Uplink] is not a bus name."])
  }

  func engine(relays: [RelayAddress]) -> NostrEngine.Configuration {
    var configuration = NostrEngine.Configuration(relays: relays)
    if options?.contains(.nip17) == true {
      (configuration.sends, configuration.accepts) = (.nip17, [.app, .nip17])
    }
    configuration.channels = geohashes ?? []
    configuration.nickname = geohashName
    return configuration
  }
}

/// A parsed relay of the settings: its address, or the reason why it is not used.
struct UplinkRelay: Sendable {
  private enum Verdict {
    case used(RelayAddress, WebSocketAddress)
    case refused(String)
  }

  let text: String
  private let verdict: Verdict

  /// - Parameter allowsPlain: whether connections without TLS are permitted.
  init(_ text: String, allowsPlain: Bool) {
    self.text = text
    do throws(NostrError) {
      let address = try RelayAddress(text, allowsPlain: allowsPlain)
      if let target = SOCKSTarget(host: address.host, port: address.port),
        let server = WebSocketAddress(target, path: address.path, isSecure: address.isSecure)
      {
        verdict = .used(address, server)
      } else {
        verdict = .refused(
          "The relay \(text) is not used: its host must be a name of letters, digits and hyphens, not a numeric "
            + "address.")
      }
    } catch {
      verdict = .refused("A relay is not used: \(error.sentence)")
    }
  }

  /// The address for the engine, and the one for connections; nil if the relay is not used.
  var server: (address: RelayAddress, socket: WebSocketAddress)? {
    guard case .used(let address, let socket) = verdict else { return nil }
    return (address: address, socket: socket)
  }

  /// A sentence on why the relay is not used; nil if it is used.
  var problem: String? {
    if case .refused(let sentence) = verdict { sentence } else { nil }
  }
}

/// The address of a proxy on this machine: `127.0.0.1:9050` or `[::1]:9050`.
public struct ProxyAddress: Hashable, Sendable {
  public let host: String
  public let port: UInt16

  /// - Parameter host: a numeric address of the loopback interface.
  init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }

  /// Parses the address; nil for any other text. A proxy on another machine is refused, because the connection to it is
  /// not encrypted.
  init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":") else { return nil }
    let digits = text[text.index(after: colon)...]
    guard let port = UInt16(digits: digits), port > 0 else { return nil }
    switch text[..<colon] {
    case "127.0.0.1", "localhost": self.init(host: "127.0.0.1", port: port)
    case "[::1]": self.init(host: "::1", port: port)
    default: return nil
    }
  }

  var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

extension UplinkSettings {
  public static let section = "Uplink"

  /// The outbox, the relays' messages, and the connections: 64 MiB.
  public var memory: Int { 64 << 20 }

  public static let keys: [Setting<UplinkSettings>] = [
    Setting(
      "Proxy", \.proxyText,
      .text(upTo: 64).refusing {
        ProxyAddress($0) == nil
          ? "it is not the address of a proxy on this machine, as 127.0.0.1:PORT or [::1]:PORT" : nil
      }, .onRestart,
      "The SOCKS 5 proxy through which relays are reached, and nothing without it. It must accept user names and "
        + "passwords, by which it keeps the relays apart. Debian's tor listens at 127.0.0.1:9050."),
    Setting(
      "Relays", \.relays,
      .optional(
        .words("up to 8 addresses as wss://HOST[:PORT][/PATH]", upTo: 8, key: { $0 }, show: { $0 }, parse: Self.word)),
      .onRestart,
      "The relays, with spaces between them. Empty: those of the apps. A peer is reached only over a relay that both "
        + "sides use."),
    Setting(
      "Geohash", \.geohashes,
      .optional(
        .words("up to 4 geohashes of 1 to 12 characters", upTo: 4, key: { $0 }, show: { $0.text }, parse: Self.geohash)),
      .onRestart,
      "Public geohash channels to take part in. Each has a key of its own. Empty: none."),
    Setting(
      "GeohashName", \.geohashName, .optional(.text(upTo: NostrLimits.nicknameBytes)), .onRestart,
      "The name of this machine in geohash channels. Empty: none is sent."),
    Setting(
      "Options", \.options, .optional(.list()), .onRestart,
      "Deviations from what the apps do. nip17_strict: sends envelopes as NIP-17, NIP-44 and NIP-59 define them, and "
        + "accepts both forms. The apps do not understand it."),
    Setting(
      "TrustedCertificates", \.trustedCertificates, .optional(.path()), .onReload,
      "The certificates by which relays are trusted, as a PEM file. Empty: those that the system trusts."),
    Setting("Mesh", \.mesh, .text(upTo: 255), .onRestart, "The D-Bus name of earshotd."),
  ]

  private static func word(_ word: String) -> String? {
    (1...NostrLimits.addressBytes).contains(word.utf8.count) && word.utf8.allSatisfy { (33...126).contains($0) }
      ? word : nil
  }

  private static func geohash(_ word: String) -> Geohash? { try? Geohash(word) }
}
