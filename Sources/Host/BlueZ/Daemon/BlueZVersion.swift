import Glibc
import Loop

/// A release of BlueZ. bluetoothd does not report its own release over D-Bus.
public struct BlueZVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
  public var major: Int
  public var minor: Int

  public init(_ major: Int, _ minor: Int) {
    self.major = major
    self.minor = minor
  }

  /// Parses `5.66`, also with a distribution's suffix (`5.66-1+deb12u2`); nil for anything else.
  public init?(_ text: String) {
    let parts = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }.split(
      separator: ".", omittingEmptySubsequences: false)
    guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
    self.init(major, minor)
  }

  public var description: String { "\(major).\(minor)" }

  public static func < (left: BlueZVersion, right: BlueZVersion) -> Bool {
    (left.major, left.minor) < (right.major, right.minor)
  }
}

extension BlueZVersion {
  /// Paths at which distributions install the program bluetoothd.
  private static let programs = ["/usr/libexec/bluetooth/bluetoothd", "/usr/lib/bluetooth/bluetoothd"]

  /// The installed release, as `bluetoothd --version` prints it; nil if it is not found or prints nothing. The running
  /// bluetoothd has this release except between an upgrade and its restart.
  public static func installed() -> BlueZVersion? {
    programs.lazy.filter { access($0, X_OK) == 0 }.compactMap(said).first
  }

  /// Maximum time for the output of the version.
  private static let timeLimit = Duration.seconds(5)

  /// Reads the release from the output of `PROGRAM --version`. The call takes some milliseconds.
  private static func said(by program: String) -> BlueZVersion? {
    guard let output = ProgramRun.output(of: program, ["--version"], upTo: 1024, within: timeLimit) else { return nil }
    return BlueZVersion(String(decoding: output, as: UTF8.self))
  }
}

/// A limitation of older releases of BlueZ. Facts: bluez.md section 12.
struct BlueZLimit: Hashable, Sendable {
  /// The first release without the limitation.
  let until: BlueZVersion
  /// A sentence for a person, with the effect on this service.
  let consequence: String
  /// Whether the management socket removes the limitation.
  var isLiftedByManagement = false

  /// The first release that sends the scan response of an `LEAdvertisement1`.
  static let scanResponses = BlueZVersion(5, 80)
  /// The first release that requests a separate socket for each client that subscribes (`AcquireNotify`).
  static let separateClients = BlueZVersion(5, 76)
  /// The first release from which this program requests handles: 5.66 failed with such requests in tests, 5.82 did
  /// not.
  static let handles = BlueZVersion(5, 76)
  /// The first release that accepts writes of 511 and 512 bytes.
  static let longWrites = BlueZVersion(5, 69)
  /// The first tested release whose default is one ATT channel per peer.
  static let oneChannel = BlueZVersion(5, 82)

  static let table: [BlueZLimit] = [
    BlueZLimit(
      until: longWrites,
      consequence:
        "bluetoothd loses writes of 511 and 512 bytes to this machine, among them long private messages of iPhones. This"
        + " machine itself writes at most 509 bytes. Debian 13 does not have this fault."),
    BlueZLimit(
      until: BlueZVersion(5, 74),
      consequence: "bluetoothd crashes when an adapter that was made discoverable is switched off while bluetoothd"
        + " advertises. This service does not make adapters discoverable.",
      isLiftedByManagement: true),
    BlueZLimit(
      until: separateClients,
      consequence:
        "bluetoothd sends each value to all subscribed clients, cut to the MTU of each. A service that must reach one client"
        + " alone sends the value by raw HCI, or writes it to the client."),
    BlueZLimit(
      until: scanResponses,
      consequence: "bluetoothd puts only a name into the scan response.",
      isLiftedByManagement: true),
  ]

  /// A limitation of every version whose configuration opens several ATT channels.
  static let severalChannels =
    "bluetoothd opens several channels (EATT) with a peer that supports them, such as another BlueZ, but not phones. Writes and"
    + " notifications then overtake each other, and some are lost. Writes that must arrive wait for answers. To use one"
    + " channel, set Channels=1 in [GATT] of /etc/bluetooth/main.conf."

  /// A limitation of every version that runs without `--noplugin=battery`.
  static let readsBattery =
    "bluetoothd reads the battery level of every phone that connects. A phone that protects it, such as an iPhone, asks"
    + " its user to pair each time, and transfers fail. Restart bluetoothd: systemctl restart bluetooth. If this sentence"
    + " remains, bluetooth.service lacks the option --noplugin=battery (docs/bluez.md, \"Battery levels\")."

  /// Short description of how values are transferred to and from clients.
  static func way(_ keepsClientsApart: Bool) -> String {
    keepsClientsApart ? "sockets for each client" : "WriteValue and PropertiesChanged for all clients"
  }

  /// The sentences about the limitations of `version`.
  static func sentences(
    _ version: BlueZVersion?, _ configuration: DaemonConfiguration = DaemonConfiguration(),
    _ commandLine: DaemonCommandLine? = nil, hasManagement: Bool
  ) -> [String] {
    let battery = commandLine?.loads(DaemonCommandLine.battery) == true ? [readsBattery] : []
    guard let version else { return battery }
    return battery
      + table.filter { version < $0.until && !(hasManagement && $0.isLiftedByManagement) }.map(\.consequence)
      + (configuration.opensChannels(version) ? [severalChannels] : [])
  }
}
