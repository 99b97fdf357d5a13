import DBus
import Glibc
import Loop

/// The relevant settings of bluetoothd's configuration file, `main.conf`.
public struct DaemonConfiguration: Hashable, Sendable {
  /// `Channels` of `[GATT]`: maximum ATT channels per peer; nil for bluetoothd's default.
  public var channels: Int?
  /// `Privacy` of `[General]`: whether the adapter uses changing addresses.
  public var hidesAddress = false
  /// `ReverseServiceDiscovery` of `[General]`: whether bluetoothd discovers the services of peers that connect.
  public var discoversPeers = true

  /// Path of the file in Debian and other distributions.
  private static let path = "/etc/bluetooth/main.conf"
  private static let longest = 256 << 10

  public init() {}

  /// Parses the text of the file: sections, keys and values in the syntax of GLib's key files.
  public init(_ text: String) {
    var section = ""
    for line in text.split(whereSeparator: \.isNewline) {
      let line = line.trimmed
      if line.hasPrefix("#") { continue }
      if line.hasPrefix("["), line.hasSuffix("]") {
        section = String(line.dropFirst().dropLast())
        continue
      }
      let parts = line.split(separator: "=", maxSplits: 1)
      guard parts.count == 2 else { continue }
      let value = parts[1].trimmed
      switch (section, parts[0].trimmed) {
      case ("GATT", "Channels"): channels = Int(value)
      case ("General", "Privacy"): hidesAddress = !["off", "false"].contains(value)
      case ("General", "ReverseServiceDiscovery"): discoversPeers = value != "false"
      default: break
      }
    }
  }

  /// Reads the installed file; missing or unreadable settings have bluetoothd's defaults.
  public static func installed() -> DaemonConfiguration { text(at: path).map { DaemonConfiguration($0) } ?? .init() }

  /// The beginning of a small system file; nil if it cannot be read, or is empty.
  static func text(at path: String) -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var text = [UInt8](repeating: 0, count: longest)
    let count = read(file, &text, text.count)
    return count > 0 ? String(decoding: text.prefix(count), as: UTF8.self) : nil
  }

  /// Whether bluetoothd opens several ATT channels with a peer that supports them.
  func opensChannels(_ version: BlueZVersion?) -> Bool {
    guard let channels else { return version.map { $0 < BlueZLimit.oneChannel } ?? true }
    return channels > 1
  }
}

extension Substring {
  fileprivate var trimmed: String {
    let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    let begin = drop(while: isSpace)
    guard let last = begin.lastIndex(where: { !isSpace($0) }) else { return "" }
    return String(begin[...last])
  }
}

/// The command line of the running bluetoothd, as systemd reports it.
public struct DaemonCommandLine: Hashable, Sendable {
  /// Patterns of plugins that are not loaded, by `--noplugin`.
  private var left: [String] = []
  /// Patterns of the only plugins that are loaded, by `--plugin`; nil without that option.
  private var wanted: [String]?

  /// The plugin that reads Battery Level of every connected peer.
  static let battery = "battery"

  /// Reads a command line in which blanks separate the words: `/usr/libexec/bluetooth/bluetoothd --noplugin=battery`.
  /// If an option is given twice, bluetoothd uses the last one. Nil for the command line of another program.
  public init?(_ text: String) {
    var words = text.split(whereSeparator: \.isWhitespace).map { $0.filter { $0 != "\"" && $0 != "'" } }[...]
    guard words.popFirst()?.split(separator: "/").last == "bluetoothd" else { return nil }
    while let word = words.popFirst() {
      if let value = Self.value(of: word, "--noplugin", "-P", &words) { left = Self.list(value) }
      if let value = Self.value(of: word, "--plugin", "-p", &words) { wanted = Self.list(value) }
    }
  }

  /// Whether bluetoothd loads the plugin with this name, if it was built with it.
  public func loads(_ plugin: String) -> Bool {
    !left.contains { Self.matches(plugin[...], $0[...]) }
      && wanted.map { $0.contains { Self.matches(plugin[...], $0[...]) } } ?? true
  }

  /// The value of an option: in the same word, or the next word.
  private static func value(
    of word: String, _ long: String, _ short: String, _ rest: inout ArraySlice<String>
  ) -> String? {
    if word == long || word == short { return rest.popFirst() }
    if word.hasPrefix(long + "=") { return String(word.dropFirst(long.count + 1)) }
    return word.hasPrefix(short) && !word.hasPrefix("--") ? String(word.dropFirst(short.count)) : nil
  }

  private static func list(_ value: String) -> [String] {
    value.split(whereSeparator: { $0 == "," || $0 == " " }).map(String.init)
  }

  /// Whether a name matches a pattern of GLib: `*` stands for any number of characters, `?` for one.
  private static func matches(_ text: Substring, _ pattern: Substring) -> Bool {
    guard let first = pattern.first else { return text.isEmpty }
    let rest = pattern.dropFirst()
    if first == "*" { return matches(text, rest) || !text.isEmpty && matches(text.dropFirst(), pattern) }
    guard let character = text.first, first == "?" || first == character else { return false }
    return matches(text.dropFirst(), rest)
  }
}

extension BusConnection {
  /// Asks systemd for the command line of the running bluetoothd; nil if systemd does not run, or if bluetoothd is not
  /// a process of its unit `bluetooth.service`.
  func askForDaemonCommandLine(_ then: @escaping @LoopActor (DaemonCommandLine?) -> Void) {
    let unit = DBusValue.string("bluetooth.service")
    call(
      "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "GetUnitProcesses",
      [unit]
    ) { result in
      guard case .success(let values) = result else { return then(nil) }
      // Control group, process, command line.
      let lines = (values.first?.asArray ?? []).compactMap { $0.asArray?.last?.asString }
      then(lines.lazy.compactMap { DaemonCommandLine($0) }.first)
    }
  }
}
