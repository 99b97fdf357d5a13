import Glibc

/// The relevant settings of bluetoothd's configuration file, `main.conf`.
public struct DaemonConfiguration: Hashable, Sendable {
  /// `Channels` of `[GATT]`: maximum ATT channels per peer; nil for bluetoothd's default.
  public var channels: Int?
  /// `Privacy` of `[General]`: whether the adapter uses changing addresses.
  public var hidesAddress = false

  /// The path in Debian and other distributions.
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
