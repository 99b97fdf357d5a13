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
      "The minimum level of log entries to write; debug writes all."),
    Setting(
      "LinesPerPeer", \.linesPerPeer, .number(1...10_000), .onReload,
      "Maximum warnings about one peer per minute, and maximum other log entries about it. The entries of a transfer "
        + "count as one and are written together or not at all. A later entry reports how many were omitted."),
  ]
}
