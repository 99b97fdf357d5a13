import Glibc

/// What matters here of bluetoothd's own configuration file, `main.conf`.
public struct DaemonConfiguration: Hashable, Sendable {
  /// `Channels` of `[GATT]`: how many ATT channels bluetoothd has with a peer at most; nil where it has its default.
  public var channels: Int?
  /// `Privacy` of `[General]`: whether the adapter has addresses that change.
  public var hidesAddress = false

  /// Where Debian and others have it.
  private static let path = "/etc/bluetooth/main.conf"
  private static let longest = 256 << 10

  public init() {}

  /// Reads the text of the file: sections, keys and values, as GLib's key files have them.
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

  /// What bluetoothd reads when it starts; what is not there, or cannot be read, is as bluetoothd has it by default.
  public static func installed() -> DaemonConfiguration { text(at: path).map { DaemonConfiguration($0) } ?? .init() }

  /// The beginning of a small file of the system; nil if it cannot be read, or is empty.
  static func text(at path: String) -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var text = [UInt8](repeating: 0, count: longest)
    let count = read(file, &text, text.count)
    return count > 0 ? String(decoding: text.prefix(count), as: UTF8.self) : nil
  }

  /// Whether bluetoothd opens several ATT channels with a peer that has them, too.
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
