import Common
import Journal
import Loop
import Store

/// How long credentials have waited, and what the wall clock has to do with it.
extension CredentialVault {
  /// 2026-01-01. A clock that says an earlier date was not set yet since the machine was switched on: it says nothing.
  nonisolated static let epoch: Int64 = 1_767_225_600
  /// Seconds that a date may be wrong.
  private static let dateTolerance: Int64 = 30
  /// So long after the start the network may still set the clock.
  private static let doubt = Duration.seconds(300)

  /// The date, where the clock knows it.
  var knownDate: Int64? {
    let now = clock.seconds
    return now >= Self.epoch ? now : nil
  }

  /// When something of that date was received.
  ///
  /// One from the future, or from before the epoch, counts from now on. If it is the present clock that is wrong, and it is
  /// set soon, the date counts after all.
  func received(_ date: Int64) -> (Instant, doubtedUntil: Instant?) {
    let now = scheduler.now
    guard date >= Self.epoch else { return (now, nil) }
    guard let clock = knownDate else { return (now, Instant(nanoseconds: .max)) }
    guard date <= clock else { return (now, now.advanced(by: Self.doubt)) }
    return (now.advanced(by: .seconds(date.clampedSubtracting(clock))), nil)
  }

  /// The date that a file should have by the wall clock, as it goes now; nil if that is the one it has.
  func rightDate(of entry: KeptCredential) -> Int64? {
    guard entry.isOnDisk, entry.wish != .nobody, let clock = knownDate else { return nil }
    guard entry.doubtedUntil.map({ $0 <= scheduler.now }) ?? true else { return nil }
    let date = clock.clampedSubtracting(entry.received.duration(to: scheduler.now).components.seconds)
    return date.clampedSubtracting(entry.date).magnitude > Self.dateTolerance ? date : nil
  }

  /// At once, for the power may fail in the next moment.
  func clockWasSet() {
    for entry in entries.values where entry.failure?.trouble == .dating { entry.failure = nil }
    lookThrough()
  }

  /// Those whose date was doubted because of the clock may turn out to be right.
  private func reconsiderDates() {
    for entry in entries.values {
      guard let old = entry.doubtedUntil, old > scheduler.now else { continue }
      let (received, doubtedUntil) = received(entry.date)
      if doubtedUntil == nil { entry.received = received }
      entry.doubtedUntil = doubtedUntil.map { min($0, old) }
    }
  }

  func tellOfDates() {
    guard redated > 0 else { return }
    Log.shared.notice("The wall clock was set: \(redated) kept credentials are dated anew")
    redated = 0
  }

  /// Wakes when the first has waited too long; and every minute while there is something to look after.
  func schedule() {
    let now = scheduler.now
    let waiting = entries.values.filter { $0.wish != .nobody }
    var next = waiting.map { until($0) }.min()
    let isOpening = spool == nil && troubles[.opening] != nil
    if lookAt <= now { lookAt = now.advanced(by: Self.retryInterval) }
    if waiting.contains(where: \.isOnDisk) { next = earlier(next, lookAt) }
    if hasFilesApart && spool != nil || isOpening { next = earlier(next, inspectAt) }
    if busy == nil {
      for entry in entries.values { next = earlier(next, entry.failure?.retry) }
    }
    // What is due now is being done.
    look.set(next.map { busy == nil || $0 > now ? $0 : now.advanced(by: Self.retryInterval) })
  }

  private func earlier(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
  }

  private func until(_ entry: KeptCredential) -> Instant { entry.received.advanced(by: settings.keepFor) }

  func lookThrough() {
    reconsiderDates()
    expire()
    pump()
  }

  private func expire() {
    let old = entries.values.filter { $0.wish != .nobody && until($0) <= scheduler.now }
    for entry in old {
      let whom: String = entry.wish == .judged ? "a verdict" : "somebody to take it"
      Log.shared.warning(
        "A credential waited too long for \(whom) and is erased", .transfer("\(entry.transfer.number)"))
      entry.transfer.forget()
      remove(entry.transfer)
    }
  }
}

extension Int64 {
  /// The difference, or the nearest there is to it.
  fileprivate func clampedSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
