import Config

/// Whether what the settings permit fits into the memory that the service has. Where it does not, a busy hour ends with the
/// kernel killing the service.
public enum MemoryBudget {
  /// What the service takes for itself.
  static let own = 32 << 20

  /// The sum of what may be permitted: a quarter of the memory is for what stands between the pieces.
  static func room(_ configuration: Configuration) -> Int { configuration[StoreSettings.self].memoryLimit / 4 * 3 }

  /// What is wrong, in one sentence; nil where it fits.
  public static func objection(to configuration: Configuration) -> String? {
    let needed = own + configuration.memory
    let room = room(configuration)
    guard needed > room else { return nil }
    let (needs, has, limit) = (
      megabytes(needed), megabytes(room), megabytes(configuration[StoreSettings.self].memoryLimit)
    )
    return
      "These settings permit \(needs) of memory, and \(has) is what there is for that (three quarters of MemoryLimit="
      + "\(limit)). Lower the limits of sizes and numbers, or raise Store.MemoryLimit and MemoryMax= of the unit."
  }

  private static func megabytes(_ bytes: Int) -> String { "\((bytes + (1 << 20) - 1) >> 20)M" }

  /// The same as a complaint about the files that the configuration was read from.
  public static func check(_ loaded: LoadedConfiguration) -> LoadedConfiguration {
    guard let objection = objection(to: loaded.configuration) else { return loaded }
    return loaded.adding(Complaint(file: loaded.files.last ?? "the defaults", line: nil, sentence: objection))
  }
}
