/// The importance of a log line. The raw value is the syslog priority: a smaller value is more important.
public enum LogLevel: Int, Sendable, CaseIterable, Comparable {
  /// A failure that is permanent without intervention.
  case error = 3
  /// A problem; the service continues.
  case warning = 4
  /// A significant event that is not a problem: the service is ready, the radio is back.
  case notice = 5
  /// An ordinary event.
  case info = 6
  /// Details for developers; normally disabled.
  case debug = 7

  /// The name in the configuration file: `error`, `warning`, `notice`, `info`, `debug`.
  public var name: String {
    switch self {
    case .error: "error"
    case .warning: "warning"
    case .notice: "notice"
    case .info: "info"
    case .debug: "debug"
    }
  }

  /// The level with this name, ignoring case.
  public init?(name: String) {
    let wanted = name.lowercased()
    guard let level = Self.allCases.first(where: { $0.name == wanted }) else { return nil }
    self = level
  }

  /// Whether `left` is less important than `right`: `debug < error`.
  public static func < (left: LogLevel, right: LogLevel) -> Bool {
    left.rawValue > right.rawValue
  }
}
