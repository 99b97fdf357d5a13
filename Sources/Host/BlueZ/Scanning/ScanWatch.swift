import Common

/// Decides when scanning is to be restarted because its results have stopped, although there were some before. A value: events
/// and time in, a deadline out.
///
/// A controller can stop scanning while bluetoothd and the kernel go on taking it for scanning. A discovery starts a new scan each
/// 10.24 s, and with it the controller's duplicate filter, so an advertiser that is near is reported at least that often.
struct ScanWatch: Sendable {
  /// Time without a result before the first restart.
  static let silence = Duration.seconds(30)
  /// Longest time from one restart to the next. It is the longest that a phone waits for a scan which stopped while no other
  /// advertiser was near.
  static let longestPause = Duration.seconds(120)
  /// A restart that is followed by a result within this time has shown that scanning had stopped.
  static let proofTime = Duration.seconds(10)
  /// A restart that is due while the radio connects is tried again after this time.
  static let delay = Duration.seconds(5)

  /// When `isDue` may become true; nil while no result is expected.
  private(set) var deadline: Instant?
  /// Whether there was any result since the program started.
  private var hasHeard = false
  private var isScanning = false
  private var pause = ScanWatch.silence
  /// The last restart, while no result has followed it.
  private var restartedAt: Instant?
  /// Whether a restart was reported, and no later result has shown that scanning had stopped.
  private var isReported = false

  /// Scanning begins, or ends. Does nothing for a scan that goes on.
  mutating func scan(_ isScanning: Bool, at now: Instant) {
    guard isScanning != self.isScanning else { return }
    self.isScanning = isScanning
    (pause, restartedAt) = (Self.silence, nil)
    deadline = isScanning && hasHeard ? now.advanced(by: Self.silence) : nil
  }

  /// A result has come.
  mutating func heard(at now: Instant) {
    guard isScanning else { return }
    if let restartedAt {
      if restartedAt.advanced(by: Self.proofTime) >= now { isReported = false }
      (self.restartedAt, pause) = (nil, Self.silence)
    }
    hasHeard = true
    deadline = now.advanced(by: Self.silence)
  }

  /// Whether scanning is to be restarted now.
  func isDue(at now: Instant) -> Bool { deadline.map { $0 <= now } ?? false }

  /// Puts a restart that is due off for `delay`.
  mutating func postpone(at now: Instant) { deadline = now.advanced(by: Self.delay) }

  /// Scanning is being restarted.
  ///
  /// - Returns: `isFirst`: whether it is the first restart since the last result. `isNews`: whether it is to be reported. On a
  ///   quiet site one restart is reported, and no other until a result has shown that scanning had stopped.
  mutating func restart(at now: Instant) -> (isFirst: Bool, isNews: Bool) {
    let isFirst = restartedAt == nil
    defer { isReported = true }
    restartedAt = now
    pause = min(pause * 2, Self.longestPause)
    deadline = now.advanced(by: pause)
    return (isFirst, !isReported)
  }
}
