import CLinux

/// Capabilities of a thread. A new thread inherits them, and existing threads are not changed: a program gives up
/// capabilities before it starts its first thread.
public struct Capabilities: OptionSet, Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Administration of networks, including Bluetooth.
  public static let netAdmin = Capabilities(rawValue: 1 << 12)
  /// Sending and receiving raw packets.
  public static let netRaw = Capabilities(rawValue: 1 << 13)

  /// The effective capabilities of this thread.
  public static var effective: Capabilities { sets.effective }

  /// The capabilities that this thread may make effective.
  public static var permitted: Capabilities { sets.permitted }

  /// Removes `lost` permanently and makes `kept` ineffective: only `using` makes them effective again. Other
  /// capabilities are not changed. Child processes inherit neither set.
  ///
  /// - Returns: whether the kernel accepted the change.
  @discardableResult
  public static func give(up lost: Capabilities, keepingAside kept: Capabilities = []) -> Bool {
    let old = sets
    let both = lost.union(kept)
    let new = Sets(
      effective: old.effective.subtracting(both), permitted: old.permitted.subtracting(lost),
      inheritable: old.inheritable.subtracting(both))
    // Without a change the kernel is not called, because a sandbox may forbid the call.
    guard new != old else { return true }
    return earshot_clear_ambient_capabilities() == 0 && set(new)
  }

  /// Calls `body` with `wanted` effective, as far as permitted, and makes them ineffective again.
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
