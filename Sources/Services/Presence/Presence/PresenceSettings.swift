import Config
import DBus
import Thali

/// The settings of `earshot-presenced`, section `[Presence]` of `presence.conf`.
public struct PresenceSettings: SettingsSection, Equatable {
  public var reads: [Dialect] = [.spec]
  public var sends = Dialect.spec
  /// Names of the interfaces to use. Empty means all usable interfaces, except the loopback interface.
  public var interfaces: [String]?
  /// Port for beacons and streams; 0 lets the kernel choose.
  public var port = 0
  public var isForeground = false
  public var usesBluetooth = true
  /// The bus name of the service with the Bluetooth radio.
  public var radio = "org.earshot"

  public init() {}

  /// Contradictory settings and values that do not work, one sentence for each.
  var problems: [String] {
    [
      (1..<1024).contains(port)
        ? "Port=\(port) of [Presence]: peers do not follow locations with a port below 1024." : nil,
      WellKnownName.isValid(radio) ? nil : "Radio= of [Presence] is not a bus name.",
    ].compactMap { $0 }
  }

  var engine: PresenceEngine.Configuration {
    var configuration = PresenceEngine.Configuration()
    configuration.dialects = Set(reads)
    configuration.sends = sends
    return configuration
  }
}

extension PresenceSettings {
  public static let section = "Presence"

  /// Memory of streams with their buffers, known and nearby peers, and HTTP connections: 64 MiB.
  public var memory: Int { 64 << 20 }

  public static let keys: [Setting<PresenceSettings>] = [
    Setting(
      "Read", \.reads, .list(), .onRestart,
      "The dialects of announcements that are read: spec is the document of 2015, node is the form of the phones that "
        + "used npm thali 2.1. node is weaker: its beacons are not authenticated, and it may use a TLS suite without "
        + "forward secrecy."),
    Setting("Send", \.sends, .choice, .onRestart, "The dialect of announcements that are sent."),
    Setting(
      "Interfaces", \.interfaces,
      .optional(
        .words("up to 16 names of network interfaces", upTo: 16, key: { $0 }, show: { $0 }, parse: Self.interface)),
      .onRestart,
      "The network interfaces to use, for example eth0. Empty: all that can multicast, except the loopback interface."),
    Setting(
      "Port", \.port, .number(0...65_535), .onRestart,
      "The TCP port for beacons and streams, 1024 or higher. It is open only while something is announced. 0: the kernel "
        + "chooses a port."),
    Setting(
      "Foreground", \.isForeground, .bool, .onReload,
      "Whether to announce every 500 ms instead of every 50 s. New peers also find this machine by a search, whatever the "
        + "period is."),
    Setting(
      "Bluetooth", \.usesBluetooth, .bool, .onRestart,
      "Whether to use the Bluetooth radio of earshotd for advertisements and RFCOMM, if earshotd runs."),
    Setting("Radio", \.radio, .text(upTo: 255), .onRestart, "The D-Bus name of earshotd."),
  ]

  private static func interface(_ word: String) -> String? {
    (1...15).contains(word.utf8.count) && word.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "/") })
      ? word : nil
  }
}
