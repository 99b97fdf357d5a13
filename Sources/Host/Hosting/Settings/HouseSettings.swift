import Config
import DBus
import Journal

/// The common sections of the configuration; those of the services follow.
public enum HouseSettings {
  public static let sections: [any SettingsSection.Type] = [
    RadioSettings.self, StoreSettings.self, BusSettings.self, LogSettings.self, MetricsSettings.self,
  ]
}

/// Section `[Bus]`: limits on callers on the message bus.
public struct BusSettings: SettingsSection {
  public var limits = BusLimits()

  public init() {}

  /// Maximum unhandled received bytes and unsent bytes, of this connection and of the radio's.
  public var memory: Int { limits.received + limits.outgoing + Self.radio.received + Self.radio.outgoing }

  /// The limits of the radio's own connection, which carries characteristic values and bluetoothd's objects.
  public static var radio: BusLimits {
    var limits = BusLimits()
    limits.received = 16 << 20
    limits.outgoing = 4 << 20
    return limits
  }

  public static let section = "Bus"
  public static let keys: [Setting<BusSettings>] = [
    Setting(
      "WaitingCallers", \.limits.waitingCallers, .number(1...4096), .onRestart,
      "Maximum callers whose identity is requested from the bus at one time. Calls of further callers are refused."),
    Setting(
      "WaitingCalls", \.limits.waitingCalls, .number(1...4096), .onRestart,
      "Maximum calls of one caller that wait until the caller is identified. Further calls are refused."),
    Setting(
      "CallsPerSecond", \.limits.callsPerSecond, .number(10...100_000), .onRestart,
      "Maximum calls per second of one caller, on average. GetManagedObjects counts as 16 calls, and each 4 KiB of an "
        + "answer as one more. A caller that was idle may make the calls of five seconds at once. Further calls are "
        + "refused."),
  ]
}

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

/// Section `[Store]`: the location of persistent state.
public struct StoreSettings: SettingsSection {
  /// The directory of persistent state; nil means `$STATE_DIRECTORY`.
  public var directory: String?
  /// `MemoryMax=` of the unit, in bytes.
  public var memoryLimit = 768 << 20

  public init() {}

  public static let section = "Store"
  public static let keys: [Setting<StoreSettings>] = [
    Setting(
      "Directory", \.directory, .optional(.path()), .onRestart,
      "The directory of the encrypted state that must survive a restart. Empty: the state directory that systemd "
        + "creates for the service; if there is none, state is stored in memory only."),
    Setting(
      "MemoryLimit", \.memoryLimit, .size((64 << 20)...(64 << 30)), .onReload,
      "The memory of the service: the value of MemoryMax= of its unit. Change both together. --check-config rejects "
        + "settings that permit more than three quarters of it."),
  ]
}

/// Checks whether the memory that the settings permit is available to the service. Otherwise the kernel may kill the
/// service under high load.
public enum MemoryBudget {
  /// Memory that the service uses independently of its settings, in bytes.
  static let own = 32 << 20

  /// Maximum memory that settings may permit, in bytes: three quarters of the limit, because fragmentation needs the
  /// rest.
  static func capacity(_ configuration: Configuration) -> Int { configuration[StoreSettings.self].memoryLimit / 4 * 3 }

  /// A sentence about settings that permit more memory than the limit of the unit; nil if the limit suffices.
  public static func objection(to configuration: Configuration) -> String? {
    let needed = own + configuration.memory
    let capacity = capacity(configuration)
    guard needed > capacity else { return nil }
    let (needs, has, limit) = (
      megabytes(needed), megabytes(capacity), megabytes(configuration[StoreSettings.self].memoryLimit)
    )
    return
      "These settings permit \(needs) of memory, but only \(has) is available (three quarters of "
      + "MemoryLimit=\(limit)). Lower the limits of sizes and numbers, or raise Store.MemoryLimit and MemoryMax= of "
      + "the unit."
  }

  private static func megabytes(_ bytes: Int) -> String { "\((bytes + (1 << 20) - 1) >> 20)M" }

  /// Adds the problem to the complaints about the configuration files.
  public static func check(_ loaded: LoadedConfiguration) -> LoadedConfiguration {
    guard let objection = objection(to: loaded.configuration) else { return loaded }
    return loaded.adding(Complaint(file: loaded.files.last ?? "the defaults", line: nil, sentence: objection))
  }
}
