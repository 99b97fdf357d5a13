import Config
import Journal

/// Section `[Log]`: the level and rate of log lines.
public struct LogSettings: SettingsSection {
  public var level = LogLevel.info
  /// Maximum warnings about one peer in a minute, and maximum transfers or other lines about it.
  public var linesPerPeer = 6

  public init() {}

  public static let section = "Log"
  public static let keys: [Setting<LogSettings>] = [
    Setting(
      "Level", \.level, .choice(of: LogLevel.allCases) { $0.name }, .onReload,
      "The least important lines that are logged; debug tells most."),
    Setting(
      "LinesPerPeer", \.linesPerPeer, .number(1...10_000), .onReload,
      "How many warnings about one peer are written in a minute, and how many other lines. A transfer counts as one: its lines "
        + "are written all or not at all. A later line says how many were not written."),
  ]
}
