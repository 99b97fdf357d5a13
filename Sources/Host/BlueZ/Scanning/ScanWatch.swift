import Common

/// Decides when to restart scanning because its results have stopped although there were some before. A value type:
/// events and the time are inputs, a deadline is the output.
///
/// A controller can stop scanning while bluetoothd and the kernel still report that it scans. A discovery starts a new
/// scan every 10.24 s, which resets the controller's duplicate filter, so an advertiser in range is reported at least
/// that often.
struct ScanWatch: Sendable {
  /// Time without a result before the first restart.
  static let silence = Duration.seconds(30)
  /// Longest time between two restarts. It is also the longest time that a phone is not found if the scan stopped while
  /// no other advertiser was in range.
  static let longestPause = Duration.seconds(120)
  /// Maximum time between a restart and a result that proves that scanning had stopped.
  static let proofTime = Duration.seconds(10)
  /// Time by which a restart is postponed if it becomes due while the radio connects.
  static let delay = Duration.seconds(5)

  /// When `isDue` may become true; nil if no result is expected.
  private(set) var deadline: Instant?
  /// Whether any result has arrived since the program started.
  private var hasHeard = false
  private var isScanning = false
  private var backoff = Backoff(from: ScanWatch.silence * 2, upTo: ScanWatch.longestPause)
  /// Time of the last restart; nil once a result has followed it.
  private var restartedAt: Instant?
  /// Whether a restart was reported since a result last proved that scanning had stopped.
  private var isReported = false

  /// Records that scanning begins or ends. Has no effect if the state is unchanged.
  mutating func scan(_ isScanning: Bool, at now: Instant) {
    guard isScanning != self.isScanning else { return }
    self.isScanning = isScanning
    restartedAt = nil
    backoff.reset()
    deadline = isScanning && hasHeard ? now.advanced(by: Self.silence) : nil
  }

  /// Records that a scan result has arrived, which proves that scanning works.
  mutating func heard(at now: Instant) {
    guard isScanning else { return }
    if let restartedAt {
      if restartedAt.advanced(by: Self.proofTime) >= now { isReported = false }
      self.restartedAt = nil
      backoff.reset()
    }
    hasHeard = true
    deadline = now.advanced(by: Self.silence)
  }

  /// Whether a restart of scanning is due.
  func isDue(at now: Instant) -> Bool { deadline.map { $0 <= now } ?? false }

  /// Postpones a due restart by `delay`.
  mutating func postpone(at now: Instant) { deadline = now.advanced(by: Self.delay) }

  /// Records a restart of scanning.
  ///
  /// - Returns: `isFirst`: whether it is the first restart since the last result. `isNews`: whether to report it. If no
  ///   device advertises, only one restart is reported until a result proves that scanning had stopped.
  mutating func restart(at now: Instant) -> (isFirst: Bool, isNews: Bool) {
    let isFirst = restartedAt == nil
    defer { isReported = true }
    restartedAt = now
    deadline = now.advanced(by: backoff.next())
    return (isFirst, !isReported)
  }
}
