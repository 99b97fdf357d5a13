import CLinux

/// Capabilities of a thread. Threads that it starts later have the same, those that there are already have their own: they
/// are given up before the first one is started.
public struct Capabilities: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Administration of networks, Bluetooth's among them.
  public static let netAdmin = Capabilities(rawValue: 1 << 12)
  /// Raw packets.
  public static let netRaw = Capabilities(rawValue: 1 << 13)

  /// What this thread can do.
  public static var effective: Capabilities { sets.effective }

  /// What this thread can do or make itself able to.
  public static var permitted: Capabilities { sets.permitted }

  /// Gives `lost` up for good and puts `kept` away, to be had within `using` alone. Others are left as they are.
  /// Programs that are started get none of them.
  ///
  /// - Returns: whether the kernel agreed.
  @discardableResult
  public static func give(up lost: Capabilities, keepingAside kept: Capabilities = []) -> Bool {
    let old = sets
    let both = lost.union(kept)
    let new = Sets(
      effective: old.effective.subtracting(both), permitted: old.permitted.subtracting(lost),
      inheritable: old.inheritable.subtracting(both))
    // Who has none need not ask: a sandbox may forbid the question.
    guard new != old else { return true }
    return earshot_clear_ambient_capabilities() == 0 && set(new)
  }

  /// Calls `body` with `wanted` in effect, as far as it is permitted, and puts it away again.
  public static func using<Value, Failure: Error>(
    _ wanted: Capabilities, _ body: () throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let old = sets
    let raised = old.effective.union(wanted.intersection(old.permitted))
    guard raised != old.effective else { return try body() }
    _ = set(Sets(effective: raised, permitted: old.permitted, inheritable: old.inheritable))
    defer { _ = set(old) }
    return try body()
  }

  private struct Sets: Equatable {
    var effective: Capabilities = []
    var permitted: Capabilities = []
    var inheritable: Capabilities = []
  }

  private static var sets: Sets {
    var (effective, permitted, inheritable): (UInt64, UInt64, UInt64) = (0, 0, 0)
    guard earshot_get_capabilities(&effective, &permitted, &inheritable) == 0 else { return Sets() }
    return Sets(
      effective: .init(rawValue: effective), permitted: .init(rawValue: permitted),
      inheritable: .init(rawValue: inheritable))
  }

  private static func set(_ sets: Sets) -> Bool {
    earshot_set_capabilities(sets.effective.rawValue, sets.permitted.rawValue, sets.inheritable.rawValue) == 0
  }
}
