// swift-tools-version: 6.0
import PackageDescription

// A folder is a layer, a target is a room. Rooms of one layer stand together, lower layers first;
// a room depends on lower layers and, within Host, on the rooms named above it.

let package = Package(
  name: "Earshot",
  products: [
    .executable(name: "earshotd", targets: ["earshotd"]),
    .executable(name: "earshot", targets: ["earshot"]),
    .executable(name: "earshot-air", targets: ["earshot-air"]),
  ],
  targets: [
    // System: C libraries, as Debian packages them.
    library("CDBus", pkgConfig: "dbus-1", apt: "libdbus-1-dev"),
    library("CLinux", apt: "libc6-dev"),
    library("COpenSSL", pkgConfig: "libcrypto", apt: "libssl-dev"),
    library("CQREncode", pkgConfig: "libqrencode", apt: "libqrencode-dev"),
    library("CSodium", pkgConfig: "libsodium", apt: "libsodium-dev"),
    library("CSystemdEvent", pkgConfig: "libsystemd", apt: "libsystemd-dev"),
    library("CSystemdJournal", pkgConfig: "libsystemd", apt: "libsystemd-dev"),
    library("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),

    // Base: values and primitives. No I/O, no clock.
    room("Base/Common"),
    room("Base/Bytes"),
    room("Base/Compression", ["CZlib"]),
    room("Base/Crypto", ["Bytes", "COpenSSL", "CSodium"]),

    // Protocols: pure engines, bytes and time in, actions out.
    room("Protocols/Tuvali", Every.base),

    // Host: the machine. One thread, one radio port, one bus.
    room("Host/Loop", ["Common", "CLinux", "CSystemdEvent"]),
    room("Host/Journal", ["Bytes", "Common", "CSystemdJournal"]),
    room("Host/Store", ["Bytes", "Common", "Crypto"]),
    room("Host/Config", ["Common"]),
    room("Host/CommandLine", ["Common"]),
    room("Host/Terminal", ["Common", "CQREncode"]),
    room("Host/DBus", ["Bytes", "Common", "Loop", "Journal", "CDBus"]),
    room("Host/Radio", ["Bytes", "Common", "Loop"]),
    room("Host/Air", ["Bytes", "Common", "Loop", "Journal", "Radio"]),
    room("Host/HCI", ["Bytes", "Common", "Loop", "Journal", "Radio"]),
    room("Host/BlueZ", ["Bytes", "Common", "Loop", "Journal", "DBus", "Radio", "HCI"]),

    // Services: an engine, a radio and a D-Bus face each.
    room("Services/Manager", Every.base + Every.host),
    room("Services/Tuvali/Transfers", Every.base + Every.host + ["Tuvali"]),
    room("Services/Tuvali/Verifier", Every.base + Every.host + ["Store", "Transfers", "Tuvali"]),
    room("Services/Tuvali/Wallet", Every.base + Every.host + ["Transfers", "Tuvali"]),
    room("Services/Interfaces", Every.host + ["Manager", "Transfers", "Tuvali", "Verifier", "Wallet"]),

    // Programs: wiring and words.
    program(
      "earshotd",
      Every.base + Every.host + [
        "Air", "BlueZ", "CommandLine", "Config", "HCI", "Interfaces", "Manager", "Store", "Transfers", "Tuvali",
        "Verifier", "Wallet",
      ]),
    program("earshot", Every.base + ["CommandLine", "DBus", "Journal", "Loop", "Terminal"]),
    program("earshot-air", Every.base + ["Air", "CommandLine", "Journal", "Loop"]),
    program("earshot-bench", Every.base + Every.host + ["Tuvali"]),

    // Tests mirror Sources.
    .target(
      name: "TestSupport",
      dependencies: names(Every.base + Every.host + ["Air", "BlueZ", "CommandLine", "HCI", "Store", "Tuvali"]),
      path: "Tests/TestSupport", swiftSettings: Every.settings),
    tests("Architecture"),
    tests("Base/CommonTests", ["Common"]),
    tests("Base/BytesTests", ["Bytes"]),
    tests("Base/CompressionTests", ["Compression"]),
    tests("Base/CryptoTests", ["Crypto", "Bytes"]),
    tests("Protocols/TuvaliTests", Every.base + ["Tuvali"], vectors: true),
    tests("Host/LoopTests", ["Loop", "Common"]),
    tests("Host/JournalTests", ["Journal", "Crypto"]),
    tests("Host/StoreTests", ["Bytes", "Common", "Crypto", "Store"]),
    tests("Host/ConfigTests", ["Config"]),
    tests("Host/CommandLineTests", ["CommandLine"]),
    tests("Host/TerminalTests", ["Terminal"]),
    tests("Host/DBusTests", ["Bytes", "Common", "Loop", "DBus"]),
    tests("Host/RadioTests", ["Bytes", "Common", "Radio"]),
    tests("Host/AirTests", ["Bytes", "Common", "Loop", "Radio", "Air"]),
    tests("Host/HCITests", ["Bytes", "Common", "Loop", "Radio", "Air", "HCI"]),
    tests("Host/BlueZTests", Every.base + Every.host + ["BlueZ", "HCI", "Hall"] + Every.verifierAndWallet),
    .target(
      name: "Hall",
      dependencies: names(Every.base + Every.host + Every.verifierAndWallet + ["Store", "TestSupport"]),
      path: "Tests/Services/Tuvali/Hall", swiftSettings: Every.settings),
    tests("Services/Tuvali/VerifierTests", Every.base + Every.host + Every.verifierAndWallet + ["Hall", "Store"]),
    tests("Services/Tuvali/FaultTests", Every.base + Every.host + Every.verifierAndWallet + ["Hall", "Store"]),
    tests(
      "Fuzz", Every.base + Every.host + ["Air", "CDBus", "CommandLine", "Config", "HCI", "Store", "Tuvali", "Verifier"]),
    tests(
      "Integration", Every.base + Every.host + Every.verifierAndWallet + ["Hall", "Interfaces", "Manager"]),
  ],
  swiftLanguageModes: [.v6]
)

enum Every {
  static let base = ["Common", "Bytes", "Compression", "Crypto"]
  static let host = ["Loop", "Journal", "DBus", "Radio"]
  static let verifierAndWallet = ["Air", "Transfers", "Tuvali", "Verifier", "Wallet"]
  static let settings: [SwiftSetting] = [.enableUpcomingFeature("ExistentialAny")]
}

func library(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
  .systemLibrary(name: name, path: "Sources/System/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}

func room(_ path: String, _ dependencies: [String] = []) -> Target {
  .target(name: last(path), dependencies: names(dependencies), path: "Sources/\(path)", swiftSettings: Every.settings)
}

func program(_ name: String, _ dependencies: [String]) -> Target {
  .executableTarget(
    name: name, dependencies: names(dependencies), path: "Sources/Programs/\(name)", swiftSettings: Every.settings)
}

func tests(_ path: String, _ dependencies: [String] = [], vectors: Bool = false) -> Target {
  .testTarget(
    name: path == last(path) ? path + "Tests" : last(path), dependencies: names(dependencies + ["TestSupport"]),
    path: "Tests/\(path)", resources: vectors ? [.copy("Vectors")] : [], swiftSettings: Every.settings)
}

func names(_ names: [String]) -> [Target.Dependency] { names.map { .byName(name: $0) } }

func last(_ path: String) -> String { path.split(separator: "/").last.map(String.init) ?? path }
