// swift-tools-version: 6.0
import PackageDescription

// A folder is a layer, a target is a room. Rooms of one layer stand together, lower layers first;
// a room depends on lower layers and, within a layer, on the rooms named above it: on those that it imports, and no
// others.

/// The targets of tests that the short selection runs.
nonisolated(unsafe) var selection: Set<String> = []

let package = Package(
  name: "Earshot",
  products: [
    .executable(name: "earshotd", targets: ["earshotd"]),
    .executable(name: "earshot", targets: ["earshot"]),
    .executable(name: "earshot-air", targets: ["earshot-air"]),
    .executable(name: "earshot-sociald", targets: ["earshot-sociald"]),
    .executable(name: "earshot-presenced", targets: ["earshot-presenced"]),
    .executable(name: "earshot-nostrd", targets: ["earshot-nostrd"]),
  ],
  targets: [
    // System: C libraries, as Debian packages them, and a few lines of C of our own.
    library("CColumns", apt: "libc6-dev"),
    library("CDBus", pkgConfig: "dbus-1", apt: "libdbus-1-dev"),
    library("CLinux", apt: "libc6-dev"),
    library("CMemFD", apt: "libc6-dev"),
    library("CMicroHTTPD", pkgConfig: "libmicrohttpd", apt: "libmicrohttpd-dev"),
    library("CNcurses", apt: "libncurses-dev"),
    library("COpenSSL", pkgConfig: "libcrypto", apt: "libssl-dev"),
    library("COpenSSLTLS", pkgConfig: "libssl", apt: "libssl-dev"),
    library("CPackets", apt: "libc6-dev"),
    library("CQREncode", pkgConfig: "libqrencode", apt: "libqrencode-dev"),
    library("CSecp256k1", apt: "libsecp256k1-dev"),
    library("CSodium", pkgConfig: "libsodium", apt: "libsodium-dev"),
    library("CSQLite", pkgConfig: "sqlite3", apt: "libsqlite3-dev"),
    library("CSystemdEvent", pkgConfig: "libsystemd", apt: "libsystemd-dev"),
    library("CWipe"),
    library("CWslay", apt: "libwslay-dev"),
    library("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),

    // Base: values and primitives. No I/O, no clock.
    room("Base/Common"),
    room("Base/Bytes"),
    room("Base/Compression", ["CZlib"]),
    room("Base/Crypto", ["Common", "COpenSSL", "CSecp256k1", "CSodium"]),
    room("Base/Noise", ["Common", "Bytes", "Crypto"]),

    // Protocols: pure engines, bytes and time in, actions out.
    room("Protocols/Tuvali", Every.base),
    room("Protocols/BitchatWire", Every.base + ["Noise"]),
    room("Protocols/Bitchat", ["Bytes", "Common", "Crypto", "Noise", "BitchatWire"]),
    room("Protocols/PBLEC", ["Bytes", "Common", "Crypto"]),
    room("Protocols/Thali", ["Bytes", "Common", "Crypto"]),
    room("Protocols/ASN", ["Bytes", "Common", "Crypto"]),
    room("Protocols/Nostr", ["Bytes", "Common", "Crypto"]),

    // Host: the machine. One thread, one radio port, one bus, one life for all services.
    room("Host/Loop", ["Common", "CLinux", "CSystemdEvent", "CWipe"]),
    room("Host/MemoryFiles", ["CMemFD"]),
    room("Host/Calendar"),
    room("Host/Journal", ["Calendar", "Common", "MemoryFiles"]),
    room("Host/Store", ["Bytes", "Common", "Crypto"]),
    room("Host/Database", ["Common", "Store", "CSQLite"]),
    room("Host/Config", ["Common"]),
    room("Host/CommandLine", ["Common"]),
    room("Host/Terminal", ["Common", "CColumns", "CQREncode"]),
    room("Host/FullScreen", ["Common", "Loop", "Terminal", "CNcurses"]),
    room("Host/DBus", ["Common", "Loop", "MemoryFiles", "Journal", "CDBus", "CPackets"]),
    room("Host/Radio", ["Common", "Loop"]),
    room("Host/LocalSockets", ["Loop"]),
    room("Host/WebSocket", ["Bytes", "Common", "Crypto", "CWslay"]),
    room("Host/Network", ["Common", "Loop"]),
    room("Host/TLS", ["Common", "Crypto", "COpenSSLTLS"]),
    room("Host/SOCKS"),
    room("Host/Streams", ["Common", "Crypto", "Loop", "LocalSockets", "WebSocket", "TLS", "SOCKS"]),
    room("Host/HTTP", ["Common", "Loop", "Network", "CMicroHTTPD"]),
    room("Host/Sharing", ["Common", "Loop", "Radio"]),
    room("Host/Air", ["Bytes", "Common", "Loop", "Journal", "Radio"]),
    room("Host/HCI", ["Bytes", "Common", "Loop", "Journal", "Radio"]),
    room("Host/BlueZ", ["Common", "Loop", "Journal", "DBus", "Network", "Radio", "HCI"]),
    room(
      "Host/Hosting",
      ["Common", "Crypto", "Loop", "Journal", "Config", "CommandLine", "DBus", "Radio", "Sharing"]),
    room("Host/Tool", ["Calendar", "Common", "Loop", "CommandLine", "Terminal", "DBus"]),

    // Services: an engine, a radio and D-Bus adaptors, with settings, messages and commands of their own.
    room("Services/Tuvali/Checking", ["Common", "Loop", "LocalSockets", "CommandLine"]),
    room("Services/Tuvali/Transfers", ["Common", "Loop", "Journal", "DBus", "Radio", "Tuvali", "Checking"]),
    room(
      "Services/Tuvali/Verifier",
      [
        "Bytes", "Common", "Crypto", "Loop", "Journal", "Store", "Database", "Config", "DBus", "Radio", "LocalSockets",
        "Hosting", "Tuvali", "Checking", "Transfers",
      ]),
    room(
      "Services/Tuvali/Wallet",
      ["Common", "Crypto", "Loop", "Journal", "Config", "DBus", "Radio", "Hosting", "Tuvali", "Transfers"]),
    room(
      "Services/Tuvali/Commands",
      [
        "Calendar", "Common", "Loop", "LocalSockets", "CommandLine", "Terminal", "FullScreen", "DBus", "Tool",
        "Tuvali",
        "Checking",
        "Transfers", "Verifier", "Wallet",
      ]),
    room(
      "Services/Mesh/MeshStore",
      ["Bytes", "Common", "Crypto", "Loop", "Store", "Database", "BitchatWire", "Bitchat"]),
    room("Services/Mesh/MeshNaming", ["Common"]),
    room(
      "Services/Mesh/Mesh",
      [
        "Common", "Crypto", "Loop", "Journal", "Store", "Config", "DBus", "Radio", "Hosting", "BitchatWire", "Bitchat",
        "MeshStore", "MeshNaming",
      ]),
    room("Services/Mesh/MeshViews", ["Common", "Loop", "Terminal", "DBus", "Tool", "MeshNaming"]),
    room(
      "Services/Mesh/MeshCommands",
      [
        "Bytes", "Calendar", "Common", "Loop", "CommandLine", "Terminal", "DBus", "Tool", "BitchatWire", "MeshNaming",
        "MeshViews",
      ]),
    room(
      "Services/Mesh/Chat",
      [
        "Calendar", "Common", "Loop", "CommandLine", "Terminal", "FullScreen", "DBus", "Tool", "MeshNaming",
        "MeshViews",
      ]),
    room(
      "Services/Broadcast/Broadcast",
      [
        "Bytes", "Calendar", "Common", "Crypto", "Loop", "Journal", "Store", "Config", "DBus", "Radio", "Hosting",
        "PBLEC",
      ]),
    room(
      "Services/Broadcast/BroadcastCommands",
      ["Calendar", "Common", "Loop", "CommandLine", "Terminal", "DBus", "Tool", "PBLEC"]),
    room("Services/Social/SocialStore", ["Common", "Loop", "Store", "Database", "ASN"]),
    room(
      "Services/Social/Social",
      [
        "Bytes", "Common", "Crypto", "Loop", "Store", "LocalSockets", "WebSocket", "TLS", "Streams", "ASN",
        "SocialStore",
      ]),
    room(
      "Services/Social/SocialDaemon",
      [
        "Bytes", "Common", "Crypto", "Loop", "Journal", "Store", "Config", "DBus", "LocalSockets", "Hosting", "ASN",
        "SocialStore", "Social",
      ]),
    room(
      "Services/Social/SocialCommands",
      [
        "Bytes", "Common", "Crypto", "Loop", "Store", "LocalSockets", "CommandLine", "Terminal", "DBus", "Tool", "ASN",
        "SocialStore", "Social",
      ]),
    room(
      "Services/Presence/PresenceRadio",
      ["Common", "Loop", "Journal", "Config", "DBus", "Radio", "Network", "Hosting", "Thali"]),
    room(
      "Services/Presence/Presence",
      [
        "Bytes", "Common", "Crypto", "Loop", "Journal", "Store", "Config", "DBus", "Network", "TLS", "HTTP", "Hosting",
        "Thali",
      ]),
    room(
      "Services/Presence/PresenceCommands",
      ["Calendar", "Loop", "CommandLine", "Terminal", "DBus", "Tool"]),
    room(
      "Services/Uplink/NostrUplink",
      [
        "Bytes", "Calendar", "Common", "Crypto", "Loop", "Journal", "Store", "Config", "DBus", "LocalSockets", "SOCKS",
        "TLS", "Streams", "Hosting", "Nostr",
      ]),
    // The commands that examine the machine; they know no service.
    room(
      "Services/Diagnosis",
      ["Common", "Loop", "Config", "CommandLine", "Terminal", "DBus", "HCI", "BlueZ", "Tool"]),
    // The list of services; it alone knows them all.
    room(
      "Services/Listing",
      [
        "Loop", "Journal", "Store", "Config", "DBus", "Radio", "Hosting", "Tool", "Verifier", "Wallet", "Commands",
        "Mesh",
        "MeshCommands", "Chat", "Broadcast", "BroadcastCommands", "PresenceRadio", "PresenceCommands",
      ]),
    room("Services/ToolList", ["Tool", "SocialCommands", "Diagnosis", "Listing"]),

    // Programs: wiring and words.
    program("earshotd", ["Loop", "Config", "DBus", "Radio", "Sharing", "Air", "HCI", "BlueZ", "Hosting", "Listing"]),
    program("earshot", ["Loop", "Journal", "CommandLine", "Tool", "Listing", "ToolList"]),
    program("earshot-sociald", ["SocialDaemon"]),
    program("earshot-presenced", ["Presence"]),
    program("earshot-nostrd", ["NostrUplink"]),
    program("earshot-air", ["Common", "Loop", "Journal", "CommandLine", "Radio", "Air"]),

    // Tools: measurements and simulations. No installed program depends on them.
    room("Tools/Charts", ["Common"]),
    room(
      "Tools/MeshField",
      ["Common", "Crypto", "CommandLine", "Terminal", "Charts", "Config", "BitchatWire", "Bitchat"]),
    tool("earshot-sim", ["CommandLine", "MeshField"]),
    tool(
      "earshot-bench",
      [
        "Common", "Bytes", "Compression", "Crypto", "Noise", "Loop", "Journal", "DBus", "HCI", "Radio", "Sharing",
        "Air", "LocalSockets", "Tuvali", "BitchatWire", "Bitchat", "PBLEC", "Checking", "Transfers", "Verifier",
        "Wallet", "Broadcast", "Store", "ASN", "SocialStore", "Social", "TLS", "Thali",
      ]),

    // Tests mirror Sources.
    support(
      "TestSupport",
      [
        "Bytes", "Common", "Crypto", "Loop", "LocalSockets", "Store", "CommandLine", "DBus", "Radio", "Sharing", "HCI",
        "Tool",
      ],
      seesSyncs: true),
    support("VectorSupport", ["Bytes"]),
    tests("Architecture"),
    tests("Base/CommonTests", ["Common"], go: .selection),
    tests("Base/BytesTests", ["Bytes"], go: .selection),
    tests("Base/CompressionTests", ["Compression"], go: .selection),
    tests("Base/CryptoTests", ["Bytes", "Crypto"], go: .selection),
    tests("Base/NoiseTests", ["Common", "Bytes", "Crypto", "Noise", "VectorSupport"], go: .selection, vectors: true),
    tests(
      "Protocols/TuvaliTests", Every.base + ["Tuvali", "TestSupport", "VectorSupport"], go: .selection,
      vectors: true),
    tests(
      "Protocols/BitchatTests",
      Every.base + ["Noise", "BitchatWire", "Bitchat", "TestSupport", "VectorSupport"], vectors: true),
    tests(
      "Protocols/PBLECTests", ["Bytes", "Common", "Crypto", "PBLEC", "VectorSupport"], go: .selection, vectors: true),
    tests(
      "Protocols/ThaliTests", ["Bytes", "Common", "Crypto", "Thali", "TestSupport", "VectorSupport"],
      go: .selection,
      vectors: true),
    support("Protocols/ASNSupport", ["ASN"]),
    tests(
      "Protocols/ASNTests", ["Bytes", "Common", "Crypto", "ASN", "ASNSupport", "TestSupport", "VectorSupport"],
      go: .selection,
      vectors: true),
    tests(
      "Protocols/NostrTests", ["Bytes", "Common", "Crypto", "Nostr", "TestSupport", "VectorSupport"], go: .selection,
      vectors: true),
    tests("Host/LoopTests", ["Common", "Loop", "TestSupport"], go: .realTime),
    tests("Host/CalendarTests", ["Calendar"], go: .realTime),
    tests("Host/JournalTests", ["Common", "Journal"], go: .selection),
    tests("Host/StoreTests", ["Bytes", "Crypto", "Store", "TestSupport"], go: .selection),
    tests("Host/DatabaseTests", ["Store", "Database", "TestSupport"], go: .selection),
    tests("Host/ConfigTests", ["Config"], go: .selection),
    tests("Host/CommandLineTests", ["CommandLine", "TestSupport"], go: .selection),
    tests("Host/TerminalTests", ["Terminal", "TestSupport"], go: .selection),
    tests("Host/FullScreenTests", ["Loop", "Terminal", "FullScreen", "CNcurses", "TestSupport"], go: .realTime),
    tests("Host/DBusTests", ["Common", "Loop", "DBus", "CMemFD", "TestSupport"], go: .realTime),
    tests("Host/RadioTests", ["Bytes", "Common", "Radio"]),
    tests("Host/LocalSocketsTests", ["Loop", "LocalSockets", "TestSupport"], go: .realTime),
    tests("Host/WebSocketTests", ["Crypto", "WebSocket"]),
    tests("Host/NetworkTests", ["Loop", "Network", "TestSupport"], go: .realTime),
    tests("Host/TLSTests", ["Common", "Crypto", "TLS"]),
    tests("Host/SOCKSTests", ["SOCKS"], go: .selection),
    tests(
      "Host/StreamsTests",
      ["Crypto", "Loop", "LocalSockets", "WebSocket", "TLS", "SOCKS", "Streams", "COpenSSLTLS", "TestSupport"],
      go: .realTime),
    tests("Host/HTTPTests", ["Loop", "Network", "HTTP", "Thali", "TestSupport"], go: .realTime),
    tests("Host/SharingTests", ["Common", "Loop", "Radio", "Sharing", "Air", "TestSupport"]),
    tests("Host/AirTests", ["Bytes", "Common", "Loop", "Journal", "Radio", "Air", "TestSupport"], go: .realTime),
    tests("Host/HCITests", ["Bytes", "Common", "Loop", "Radio", "Air", "HCI", "TestSupport"], go: .realTime),
    tests(
      "Host/BlueZTests",
      Every.verifierAndWallet + [
        "Bytes", "Common", "Crypto", "Loop", "Journal", "DBus", "Network", "Radio", "Sharing", "Air", "HCI", "BlueZ",
        "TestSupport",
        "Hall",
      ], go: .bluez),
    tests("Host/ToolTests", ["Loop", "CommandLine", "DBus", "Air", "Tool", "TestSupport"], go: .selection),
    tests(
      "Host/HostingTests",
      ["Common", "Loop", "Journal", "Config", "DBus", "Radio", "Sharing", "Air", "Hosting", "TestSupport"],
      go: .selection),
    support(
      "Services/Tuvali/Hall",
      Every.verifierAndWallet + [
        "Bytes", "Common", "Crypto", "Loop", "LocalSockets", "Store", "Radio", "Sharing", "Air", "Checking",
        "TestSupport",
      ]),
    tests(
      "Services/Tuvali/CheckingTests",
      ["Common", "CommandLine", "Loop", "LocalSockets", "Air", "Checking", "Hall", "TestSupport"]),
    tests(
      "Services/Tuvali/VerifierTests",
      Every.verifierAndWallet + [
        "Bytes", "Common", "Crypto", "Loop", "Store", "Radio", "Sharing", "Air", "Checking", "Hall", "TestSupport",
      ]),
    tests(
      "Services/Tuvali/FaultTests",
      Every.verifierAndWallet + [
        "Bytes", "Common", "Compression", "Crypto", "Loop", "Journal", "Store", "Radio", "Air", "TestSupport", "Hall",
      ]),
    tests("Services/Mesh/MeshNamingTests", ["MeshNaming"]),
    tests("Services/Mesh/MeshViewsTests", ["DBus", "MeshViews"]),
    tests(
      "Services/Tuvali/CommandsTests",
      ["Common", "Checking", "CommandLine", "DBus", "FullScreen", "Terminal", "Tool", "Commands"]),
    tests(
      "Services/Mesh/MeshCommandsTests",
      [
        "Calendar", "Loop", "CommandLine", "Terminal", "DBus", "Tool", "MeshNaming", "MeshViews", "MeshCommands",
        "TestSupport",
      ], go: .realTime),
    support(
      "Services/Mesh/MeshSupport",
      ["BitchatWire", "Bitchat", "Common", "Crypto", "Loop", "Radio", "Mesh", "TestSupport"]),
    tests(
      "Services/Mesh/MeshTests",
      [
        "Common", "Crypto", "Loop", "Store", "DBus", "Radio", "Sharing", "Air", "Transfers", "BitchatWire", "Bitchat",
        "MeshStore", "MeshField", "MeshNaming", "Mesh", "TestSupport", "Hall", "MeshSupport",
      ]),
    tests(
      "Services/Mesh/MeshUplinkTests",
      ["Common", "DBus", "Hosting", "Loop", "Radio", "Sharing", "Air", "MeshStore", "Mesh", "TestSupport"],
      go: .realTime),
    tests(
      "Services/Mesh/MeshWeekTests",
      [
        "Common", "Crypto", "Loop", "Radio", "Air", "BitchatWire", "Bitchat", "MeshStore", "Mesh", "MeshSupport",
        "TestSupport",
      ], go: .realTime),
    tests(
      "Services/Mesh/MeshStoreTests",
      [
        "Bytes", "Common", "Crypto", "Loop", "Store", "Database", "BitchatWire", "Bitchat", "MeshStore", "TestSupport",
      ]),
    tests(
      "Services/Mesh/ChatTests",
      ["Terminal", "FullScreen", "MeshViews", "Chat"]),
    tests(
      "Services/Broadcast/BroadcastTests",
      [
        "Common", "Crypto", "Loop", "Journal", "DBus", "Radio", "Sharing", "Air", "PBLEC", "Broadcast", "TestSupport",
      ]),
    tests(
      "Services/Broadcast/BroadcastCommandsTests",
      ["Calendar", "Loop", "CommandLine", "Terminal", "DBus", "Tool", "BroadcastCommands", "TestSupport"],
      go: .realTime),
    tests(
      "Services/Social/SocialStoreTests",
      [
        "Common", "Store", "ASN", "SocialStore", "ASNSupport", "TestSupport",
      ]),
    tests(
      "Services/Social/SocialTests",
      [
        "Common", "Crypto", "Loop", "LocalSockets", "WebSocket", "TLS", "Streams", "Store", "ASN", "SocialStore",
        "Social", "TestSupport",
      ], go: .realTime),
    tests(
      "Services/Social/SocialDaemonTests",
      [
        "Bytes", "Crypto", "Config", "DBus", "Loop", "LocalSockets", "WebSocket", "Streams", "ASN",
        "Social", "SocialDaemon", "SocialCommands", "TestSupport",
      ], go: .realTime),
    tests(
      "Services/Presence/PresenceRadioTests",
      [
        "Common", "Loop", "DBus", "Network", "Radio", "Sharing", "Air", "Thali", "Hosting", "PresenceRadio",
        "TestSupport",
      ], go: .realTime),
    tests(
      "Services/Presence/PresenceTests",
      [
        "Bytes", "Common", "Crypto", "Loop", "Store", "Config", "DBus", "Network", "HTTP", "TLS", "Air", "Thali",
        "Hosting", "Presence", "TestSupport",
      ], go: .realTime),
    tests(
      "Services/Presence/PresenceCommandsTests",
      ["Loop", "CommandLine", "DBus", "Tool", "PresenceCommands", "TestSupport"], go: .realTime),
    tests(
      "Services/Uplink/NostrUplinkTests",
      [
        "Common", "Crypto", "Loop", "Journal", "DBus", "LocalSockets", "WebSocket", "TLS", "Tool", "Nostr",
        "MeshCommands", "NostrUplink", "TestSupport",
      ], go: .realTime),
    tests(
      "Services/DiagnosisTests", ["Config", "HCI", "BlueZ", "CommandLine", "Diagnosis"]),
    tests(
      "Services/ListingTests",
      [
        "Common", "Noise", "Loop", "Journal", "Config", "CommandLine", "DBus", "BlueZ", "Radio", "Sharing", "Air",
        "Hosting", "Tool", "Tuvali", "Bitchat", "Thali",
        "Transfers", "Verifier", "Wallet", "Mesh", "Broadcast", "Listing", "ToolList", "SocialDaemon", "Presence",
        "NostrUplink", "Diagnosis", "TestSupport",
      ], go: .realTime),
    tests("Tools/ChartsTests", ["Charts"]),
    tests("Tools/MeshFieldTests", ["Common", "CommandLine", "BitchatWire", "Bitchat", "MeshField", "TestSupport"]),
    tests(
      "Fuzz",
      Every.base + [
        "CDBus", "Noise", "Tuvali", "BitchatWire", "Bitchat", "PBLEC", "Thali", "ASN", "Nostr", "Store", "Config",
        "Checking",
        "CommandLine",
        "DBus", "Radio",
        "Sharing",
        "Air",
        "HCI", "BlueZ",
        "Verifier", "WebSocket", "SOCKS", "SocialStore",
        "Listing", "TestSupport",
      ]),
    tests(
      "Integration",
      Every.verifierAndWallet + [
        "Common", "Crypto", "Loop", "Journal", "Config", "DBus", "Radio", "Sharing", "Air", "Hosting", "Bitchat",
        "Checking",
        "MeshStore",
        "Mesh", "Broadcast", "Listing", "SocialDaemon", "Presence", "NostrUplink", "TestSupport",
        "Hall",
      ], go: .realTime),
  ],
  swiftLanguageModes: [.v6]
)

enum Every {
  static let base = ["Common", "Bytes", "Compression", "Crypto"]
  static let verifierAndWallet = ["Tuvali", "Transfers", "Verifier", "Wallet"]
  static let settings: [SwiftSetting] = [.enableUpcomingFeature("ExistentialAny")]
}

func library(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
  .systemLibrary(name: name, path: "Sources/System/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}

/// A few lines of C of our own.
func library(_ name: String) -> Target {
  .target(name: name, path: "Sources/System/\(name)", publicHeadersPath: ".")
}

func room(_ path: String, _ dependencies: [String] = []) -> Target {
  .target(name: last(path), dependencies: names(dependencies), path: "Sources/\(path)", swiftSettings: Every.settings)
}

func program(_ name: String, _ dependencies: [String]) -> Target { executable("Programs/\(name)", dependencies) }

/// A program that is not installed.
func tool(_ name: String, _ dependencies: [String]) -> Target { executable("Tools/\(name)", dependencies) }

func executable(_ path: String, _ dependencies: [String]) -> Target {
  .executableTarget(
    name: last(path), dependencies: names(dependencies), path: "Sources/\(path)", swiftSettings: Every.settings)
}

/// - Parameter seesSyncs: its `fsync` and `fdatasync` stand before those of the C library for shared libraries as well.
func support(_ path: String, _ dependencies: [String], seesSyncs: Bool = false) -> Target {
  let symbols = seesSyncs ? ["fsync", "fdatasync"] : []
  let flags = symbols.flatMap { ["-Xlinker", "--export-dynamic-symbol=\($0)"] }
  return .target(
    name: last(path), dependencies: names(dependencies), path: "Tests/\(path)", swiftSettings: Every.settings,
    linkerSettings: flags.isEmpty ? [] : [.unsafeFlags(flags)])
}

/// The part of a test run (`scripts/test` calls it a go) that runs a target of tests. The script reads it from this
/// file.
enum Go {
  /// Any number of tests at a time, in virtual time.
  case virtualTime
  /// As `virtualTime`, and also in the short selection: values, codecs, engines, files and the command line.
  case selection
  /// One test at a time: they wait for the clock and for other programs, or measure the memory of their process.
  case realTime
  /// As `realTime`, with the stand-in for bluetoothd.
  case bluez
}

func tests(_ path: String, _ dependencies: [String] = [], go: Go = .virtualTime, vectors: Bool = false) -> Target {
  let name = path == last(path) ? path + "Tests" : last(path)
  if case .selection = go { selection.insert(name) }
  return .testTarget(
    name: name, dependencies: names(dependencies), path: "Tests/\(path)",
    resources: vectors ? [.copy("Vectors")] : [], swiftSettings: Every.settings)
}

func names(_ names: [String]) -> [Target.Dependency] { names.map { .byName(name: $0) } }

func last(_ path: String) -> String { path.split(separator: "/").last.map(String.init) ?? path }

// Building the other tests as well takes most of the time on a new machine, which runs only the selection.
if Context.environment["EARSHOT_TESTS"] == "selection" {
  package.targets.removeAll { $0.type == .test && !selection.contains($0.name) }
}
