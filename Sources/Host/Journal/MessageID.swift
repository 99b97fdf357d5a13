/// The type of a log line's event: the journal's MESSAGE_ID, with its explanation for the catalog.
///
/// An ID never changes. The common IDs follow; the IDs of a service are in its own target.
public struct MessageID: Hashable, Sendable {
  /// The name in documentation and tests: `RadioReady`.
  public let name: String
  /// The ID in the form of journal and catalog: 32 lower-case hexadecimal digits.
  public let hex: String
  /// The subject of the event, one line in the catalog.
  public let subject: String
  /// The meaning of the event and what to do: the catalog's text, with its line breaks. `@EARSHOT_ADAPTER@` is replaced
  /// by the value of that field.
  public let explanation: String

  public init(_ name: StaticString, _ hex: StaticString, _ subject: StaticString, _ explanation: StaticString) {
    self.name = name.description
    self.hex = hex.description
    self.subject = subject.description
    self.explanation = explanation.description
  }
}

extension MessageID {
  /// The service has started and owns its bus name.
  public static let started = MessageID(
    "Started", "26fe3d04de69688b21438e9761cf28cc", "earshotd is ready",
    """
    The service owns its name on the bus and can be called.
    """)

  /// The service is stopping.
  public static let stopping = MessageID(
    "Stopping", "6f06adf93711db516f827cc99ceab8b4", "earshotd is stopping",
    """
    The service received a request to stop. Active transfers and links end.
    """)

  /// The radio is usable.
  public static let radioReady = MessageID(
    "RadioReady", "34542aa0e85927cb49e6182f38439483", "The radio is ready",
    """
    The adapter @EARSHOT_ADAPTER@ is present and switched on. The services advertise and serve clients again. If the
    radio was unavailable for less than ten seconds, for example while bluetoothd restarted, this is the only message
    about the outage; it states the duration and the cause.
    """)

  /// No radio is usable yet; the service waits for one.
  public static let radioWaiting = MessageID(
    "RadioWaiting", "5d727c0e1976376af0102f83095fa440", "The radio is not available yet",
    """
    The message names what is missing (the Bluetooth service, an adapter, or one that is unblocked and switched on) and
    the command to run. No other action is needed: the service continues when the missing part is available.
    """)

  /// The radio was usable and is gone.
  public static let radioLost = MessageID(
    "RadioLost", "23468551b981d066f47188de8ace057a", "The radio is no longer available",
    """
    The message names what is missing: the Bluetooth service, the bus, or the adapter. Active transfers and links have
    failed; if bluetoothd runs but does not answer, they may continue when it answers again. The service continues when
    the missing part is available again.
    """)

  /// The radio works partially.
  public static let radioDegraded = MessageID(
    "RadioDegraded", "10f9b8258aa2bc47605f0f3c3c8c489a", "The radio is degraded",
    """
    The message states what is missing and what to do about it. Until then, peers may not find this machine or may get
    no answer. If a capability is missing: the unit of the package grants CAP_NET_ADMIN and CAP_NET_RAW
    (AmbientCapabilities= and CapabilityBoundingSet=), and sets neither PrivateNetwork= nor PrivateUsers=, with which
    Bluetooth sockets do not work. A drop-in or a container may override this. docs/bluez.md has the details.
    """)

  /// Scan results had stopped, and scanning was restarted.
  public static let scanRestarted = MessageID(
    "ScanRestarted", "19d4209ad7e74fd5a7bb05c6943828c2", "Scanning was restarted",
    """
    No advertisement was received for some time, although some were received before. A controller can stop scanning
    while bluetoothd and the kernel still report that it scans; then no new device is found. The service therefore
    restarts the discovery, again after one minute and then every two minutes while nothing is received. This is normal
    and harmless if no device in range advertises. The counter ScanRestarts (earshot status --counters) counts the
    restarts. If it grows although devices are in range, check the controller and its firmware (journalctl -k).
    """)

  /// bluetoothd causes pairing requests on phones.
  public static let pairingAsked = MessageID(
    "PairingAsked", "8249b41ee23044cc9062732d2736e2cf", "Phones receive pairing requests",
    """
    bluetoothd reads the battery level of every phone that connects. A phone that protects it asks its user to pair, and
    transfers fail until the user accepts. The package adds --noplugin=battery to the command of
    bluetooth.service (/usr/lib/systemd/system-generators/earshot-bluetooth-generator). A bluetoothd that was started
    before the package was installed has to be restarted (systemctl restart bluetooth). systemctl cat bluetooth shows
    the command. docs/bluez.md has the details.
    """)

  /// The kernel limits the speed of links.
  public static let linksSlow = MessageID(
    "LinksSlow", "6c1c9bfbf4624136bc1c33455047a71c", "Links are slower than they could be",
    """
    The kernel does not let the service choose the connection interval of new links, or LE 2M; the message states why
    and what to do. Everything works, but data from peers takes longer: docs/performance.md has a table. To end the
    attempts and this message, set LinkInterval=kernel and Link2M=no in the section [Radio] of earshot.conf.
    """)

  /// The adapter that the configuration names does not exist.
  public static let adapterMissing = MessageID(
    "AdapterMissing", "4d40754d08b2f9c6bb3e175a7f6eb055", "The configured adapter does not exist",
    """
    Adapter= in the section [Radio] of earshot.conf names an adapter that BlueZ does not know. bluetoothctl list shows
    the existing adapters; an empty value selects the first one.
    """)

  /// A key or a value in the configuration is invalid; its default is in force.
  public static let configurationProblem = MessageID(
    "ConfigurationProblem", "b25b9efb4ce0942e999afd6ee0231b65", "A part of the configuration is invalid",
    """
    The message names the file, the line and the value that applies instead. earshotd --check-config lists all problems.
    """)

  /// The configuration was reloaded.
  public static let configurationReloaded = MessageID(
    "ConfigurationReloaded", "2d29e4169664e9b9587001e6020bf9df", "The configuration was reloaded",
    """
    The message names the keys whose new values are in force, and those that need a restart: systemctl restart earshotd.
    systemctl status earshotd names the latter until the restart.
    """)

  /// Keys may be written to the disk, because the kernel refused to lock or protect the memory of this process.
  public static let memoryExposed = MessageID(
    "MemoryExposed", "aa9bffcaff3f3cb664015ba1d46c6cad", "Keys may be written to the disk",
    """
    The kernel does not lock the memory of this process, or does not hide it from other processes. The service works.
    Its systemd unit sets LimitMEMLOCK=16M and LimitCORE=0; check for a drop-in or a container that overrides them.
    """)

  /// Lines are missing from the journal because it did not read them.
  public static let linesLost = MessageID(
    "LinesLost", "35ba25f5dccd406ea3545e3d78870917", "Log entries are missing from the journal",
    """
    The journal did not accept entries for a while: its disk is slow or full, or it was restarted. The service does not
    wait for it. The message states how many entries are missing before it.
    """)

  /// The connection to the message bus broke.
  public static let busLost = MessageID(
    "BusLost", "709e8a41207ea9f9495baeb33f89338f", "The connection to the message bus was lost",
    """
    The service reconnects by itself. Local programs cannot reach the service until then.
    """)

  /// The connection to the message bus is back.
  public static let busBack = MessageID(
    "BusBack", "158aa217cf5b834a7ce0004139dc3747", "The connection to the message bus is restored",
    """
    Local programs can reach the service again.
    """)

  /// The common message IDs of daemons with a radio.
  public static let house: [MessageID] = [
    .started, .stopping, .radioReady, .radioWaiting, .radioLost, .radioDegraded, .pairingAsked, .scanRestarted,
    .linksSlow, .adapterMissing, .configurationProblem, .configurationReloaded, .memoryExposed, .linesLost, .busLost,
    .busBack,
  ]

  /// The common message IDs of a daemon without a radio.
  public static let daemon: [MessageID] = [
    .started, .stopping, .configurationProblem, .configurationReloaded, .memoryExposed, .linesLost, .busLost, .busBack,
  ]
}

/// The catalog of messages, which `journalctl --catalog` shows with each line. It is generated from the message IDs.
public enum MessageCatalog {
  /// The catalog as a file for `/usr/lib/systemd/catalog`: one entry for each ID, in the given order.
  public static func text(_ ids: [MessageID]) -> String {
    var written: Set<String> = []
    let entries = ids.filter { written.insert($0.hex).inserted }.map { id in
      """
      -- \(id.hex)
      Subject: \(id.subject)
      Defined-By: earshotd

      \(id.explanation)

      """
    }
    return "# The messages of earshotd, explained: journalctl --catalog.\n\n" + entries.joined(separator: "\n")
  }
}
