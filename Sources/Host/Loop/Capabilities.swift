import CLinux

/// Capabilities of a thread. A thread that it starts later has the same ones, and a thread that runs already keeps its own:
/// a program gives capabilities up before it starts its first thread.
public struct Capabilities: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Administration of networks, Bluetooth's among them.
  public static let netAdmin = Capabilities(rawValue: 1 << 12)
  /// Raw packets.
  public static let netRaw = Capabilities(rawValue: 1 << 13)

  /// The capabilities in effect on this thread.
  public static var effective: Capabilities { sets.effective }

  /// The capabilities that this thread has in effect or can put into effect.
  public static var permitted: Capabilities { sets.permitted }

  /// Gives `lost` up for good and puts `kept` away: `using` alone puts them into effect again. Other capabilities stay as
  /// they are. Programs that this one starts get neither.
  ///
  /// - Returns: whether the kernel agreed.
  @discardableResult
  public static func give(up lost: Capabilities, keepingAside kept: Capabilities = []) -> Bool {
    let old = sets
    let both = lost.union(kept)
    let new = Sets(
      effective: old.effective.subtracting(both), permitted: old.permitted.subtracting(lost),
      inheritable: old.inheritable.subtracting(both))
    // Where nothing changes the kernel is not asked: a sandbox may forbid the call.
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
