import Config

/// Checks whether the memory that the settings permit is available to the service. Otherwise the kernel may kill the
/// service under high load.
public enum MemoryBudget {
  /// Memory of the service itself, in bytes.
  static let own = 32 << 20

  /// Maximum memory that settings may permit, in bytes: three quarters of the limit, because fragmentation needs the
  /// rest.
  static func room(_ configuration: Configuration) -> Int { configuration[StoreSettings.self].memoryLimit / 4 * 3 }

  /// The problem in one sentence; nil if the memory suffices.
  public static func objection(to configuration: Configuration) -> String? {
    let needed = own + configuration.memory
    let room = room(configuration)
    guard needed > room else { return nil }
    let (needs, has, limit) = (
      megabytes(needed), megabytes(room), megabytes(configuration[StoreSettings.self].memoryLimit)
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
