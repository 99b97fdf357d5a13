/// How much a log line matters; the raw value is the syslog priority, so a smaller one matters more.
public enum LogLevel: Int, Sendable, CaseIterable, Comparable {
  /// Something failed and will not mend itself.
  case error = 3
  /// Something is wrong, and the service goes on.
  case warning = 4
  /// Worth knowing although nothing is wrong: the service is ready, the radio is back.
  case notice = 5
  /// What happens, in the order it happens.
  case info = 6
  /// What a developer wants to see; off in ordinary life.
  case debug = 7

  /// The name as it stands in the configuration file: `error`, `warning`, `notice`, `info`, `debug`.
  public var name: String {
    switch self {
    case .error: "error"
    case .warning: "warning"
    case .notice: "notice"
    case .info: "info"
    case .debug: "debug"
    }
  }

  /// The level with this name, in any case of letters.
  public init?(name: String) {
    let wanted = name.lowercased()
    guard let level = Self.allCases.first(where: { $0.name == wanted }) else { return nil }
    self = level
  }

  /// True if `left` matters less than `right`: `debug < error`.
  public static func < (left: LogLevel, right: LogLevel) -> Bool {
    left.rawValue > right.rawValue
  }
}
