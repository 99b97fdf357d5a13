import Common

/// Prevents a hostile peer from filling the log: a maximum number of lines per key and minute, and a bounded table of
/// keys.
///
/// A key's minute begins with its first line. When the table is full, all other keys share one allowance, so a peer
/// that changes its address with every attempt has no advantage. At most `(capacity + 1) * perMinute` lines are
/// permitted in any minute that begins with a line.
public struct RateLimiter<Key: Hashable & Sendable>: Sendable {
  /// Number of lines that were refused since the last call of `takeSuppressed()`.
  public private(set) var suppressed: UInt64 = 0
  /// Total number of refused lines.
  public private(set) var total: UInt64 = 0
  /// Maximum lines for each key in a minute.
  public var perMinute: Int

  private let capacity: Int
  private var windows: [Key: Window] = [:]
  private var shared: Window?

  private struct Window {
    let start: Instant
    var lines = 0

    func isOver(at now: Instant) -> Bool { start.duration(to: now) >= .seconds(60) }
  }

  /// - Parameters:
  ///   - perMinute: maximum lines for each key in a minute.
  ///   - capacity: maximum keys in the table.
  public init(perMinute: Int, capacity: Int = 64) {
    self.perMinute = perMinute
    self.capacity = capacity
  }

  /// Whether a line about `key` may be written now; it is counted in either case.
  public mutating func allow(_ key: Key, at now: Instant) -> Bool {
    if windows[key] == nil, windows.count >= capacity {
      windows = windows.filter { !$0.value.isOver(at: now) }
    }
    let allowed: Bool
    if windows[key] != nil || windows.count < capacity {
      allowed = Self.count(in: &windows[key], upTo: perMinute, at: now)
    } else {
      allowed = Self.count(in: &shared, upTo: perMinute, at: now)
    }
    if !allowed {
      suppressed += 1
      total += 1
    }
    return allowed
  }

  /// Whether a line about `key` may be written now. Nothing is counted.
  public func wouldAllow(_ key: Key, at now: Instant) -> Bool {
    let hasPlace = windows.count < capacity || windows.values.contains { $0.isOver(at: now) }
    let window = windows[key] ?? (hasPlace ? nil : shared)
    return window.map { $0.isOver(at: now) || $0.lines < perMinute } ?? true
  }

  /// Returns the number of lines that were refused since the last call.
  public mutating func takeSuppressed() -> UInt64 {
    defer { suppressed = 0 }
    return suppressed
  }

  private static func count(in slot: inout Window?, upTo limit: Int, at now: Instant) -> Bool {
    var window = slot.flatMap { $0.isOver(at: now) ? nil : $0 } ?? Window(start: now)
    guard window.lines < limit else { return false }
    window.lines += 1
    slot = window
    return true
  }
}
