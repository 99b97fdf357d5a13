import Common
import Store

/// How long credentials have been kept, and what the wall clock has to do with it.
extension CredentialVault {
  /// 2026-01-01. A wall clock that says an earlier date was not set since the machine was switched on: it says nothing.
  static let epoch: Int64 = 1_767_225_600
  /// Seconds that the date of a file may be wrong.
  static let dateTolerance: Int64 = 30
  /// For so long after the start the network may still set the wall clock.
  static let doubt = Duration.seconds(300)

  /// The date, where the wall clock knows it.
  func knownDate(_ turn: Turn) -> Int64? { turn.date >= Self.epoch ? turn.date : nil }

  /// When a credential was received whose file has that date.
  ///
  /// A date in the future, or before the epoch, counts as the present. If it is the wall clock that is wrong now, and the
  /// clock is set soon, the date counts after all.
  func received(_ date: Int64, _ turn: Turn) -> (Instant, doubtedUntil: Instant?) {
    let now = turn.now
    guard date >= Self.epoch else { return (now, nil) }
    guard let clock = knownDate(turn) else { return (now, Instant(nanoseconds: .max)) }
    guard date <= clock else { return (now, now.advanced(by: Self.doubt)) }
    return (now.advanced(by: .seconds(date.clampedSubtracting(clock))), nil)
  }

  /// The date that a file should have by the wall clock as it goes now; nil if the file has it, or the date is not known.
  func rightDate(of kept: KeptCredential, _ turn: Turn) -> Int64? {
    guard kept.isOnDisk, kept.status != .unwanted, let clock = knownDate(turn) else { return nil }
    guard kept.doubtedUntil.map({ $0 <= turn.now }) ?? true else { return nil }
    let date = clock.clampedSubtracting(kept.received.duration(to: turn.now).components.seconds)
    return date.clampedSubtracting(kept.date).magnitude > Self.dateTolerance ? date : nil
  }

  /// The files get other dates at once, for the power may fail in the next moment.
  mutating func clockWasSet(_ turn: inout Turn) {
    for kept in entries.values where kept.failure?.trouble == .dating { entries[kept.id]?.failure = nil }
    lookThrough(&turn)
  }

  mutating func lookThrough(_ turn: inout Turn) {
    reconsiderDates(turn)
    expire(&turn)
    pump(&turn)
  }

  /// A date that was doubted because of the wall clock may turn out to be right.
  private mutating func reconsiderDates(_ turn: Turn) {
    for kept in entries.values {
      guard let old = kept.doubtedUntil, old > turn.now else { continue }
      let (received, doubtedUntil) = received(kept.date, turn)
      if doubtedUntil == nil { entries[kept.id]?.received = min(received, kept.received) }
      entries[kept.id]?.doubtedUntil = doubtedUntil.map { min($0, old) }
    }
  }

  private mutating func expire(_ turn: inout Turn) {
    for kept in inOrder where kept.status != .unwanted && end(of: kept) <= turn.now {
      turn.actions.append(.expire(kept.id, isAccepted: kept.status == .accepted))
      discard(kept.id, &turn)
    }
  }

  // MARK: The time that the service runs

  /// What is written of the running time is this much too little at most: a loss of power takes it from the time that a
  /// credential is said to have waited.
  private var noteInterval: Duration { min(.seconds(600), max(.seconds(10), settings.keepFor / 8)) }

  /// For how many seconds the service had run, in all its runs, at an instant of this one.
  func running(at instant: Instant) -> UInt64 {
    ranBefore + UInt64(clamping: (began ?? instant).duration(to: instant).components.seconds)
  }

  /// When a credential was received at the latest, by the time that the service has run since.
  func received(runningFor running: UInt64, _ turn: Turn) -> Instant {
    let now = self.running(at: turn.now)
    return turn.now.advanced(by: .seconds(-Int64(clamping: now - min(running, now))))
  }

  /// The note as it has to be written now, with the numbers that it sets aside; nil if it need not.
  func dueNote(_ turn: Turn) -> (VaultNote, Range<Int>?)? {
    let isWell = troubles[.noting] == nil
    let running = running(at: turn.now)
    // Who wants nothing to be left to do may be about to end the service.
    let isTimely = noteAt <= turn.now || isWell && !idleAskers.isEmpty
    let isWaiting = entries.values.contains { $0.isOnDisk && $0.status != .unwanted }
    guard isWaiting && isTimely && running > note.running || wantsNumbers && (isWell || noteAt <= turn.now) else {
      return nil
    }
    var note = note
    note.running = running
    let numbers = wantsNumbers ? note.takeBlock() : nil
    return (note, numbers)
  }

  /// The disk has written the note, or failed.
  mutating func noted(_ note: VaultNote, _ numbers: Range<Int>?, _ error: StoreError?, _ turn: inout Turn) {
    if let error {
      noteAt = turn.now.advanced(by: Self.retryInterval)
      return complain(.noting, error, &turn)
    }
    self.note = note
    noteAt = turn.now.advanced(by: noteInterval)
    end(.noting, &turn)
    guard let numbers else { return }
    wantsNumbers = false
    turn.actions.append(.numbers(numbers))
  }

  /// The spool is open: what its note says counts from now on.
  mutating func takeOver(_ found: Found, _ turn: inout Turn) {
    note = found.note
    ranBefore = found.note.running
    noteAt = turn.now.advanced(by: noteInterval)
    wantsNumbers = found.numbers == nil
    if let numbers = found.numbers { turn.actions.append(.numbers(numbers)) }
  }

  // MARK: The timer

  mutating func logDates(_ turn: inout Turn) {
    guard redated > 0 else { return }
    turn.actions.append(.log(.redated(redated)))
    redated = 0
  }

  /// Sets the deadline: when the first credential was kept for too long, when an asker has waited for too long, when
  /// something is tried again; and every minute while there is something to look after.
  mutating func schedule(_ turn: Turn) {
    let now = turn.now
    if lookAt <= now { lookAt = now.advanced(by: Self.retryInterval) }
    let wanted = entries.values.filter { $0.status != .unwanted }
    var attempts = work == nil ? entries.values.compactMap(\.failure?.retry) : []
    if wanted.contains(where: \.isOnDisk) { attempts.append(lookAt) }
    let isOpening = !isOpen && troubles[.opening] != nil
    if hasOtherFiles && isOpen || isOpening { attempts.append(inspectAt) }
    if wantsNumbers && isOpen { attempts.append(noteAt) }
    // What is due while something is done on the disk is begun when that has come to its end.
    if work != nil { attempts = attempts.map { $0 > now ? $0 : now.advanced(by: Self.retryInterval) } }
    let patience = work.flatMap { $0.isStalled ? nil : $0.patienceEnds }
    deadline = ([answersDue, patience].compactMap(\.self) + wanted.map(end(of:)) + attempts).min()
  }

  /// When a credential has been kept for too long.
  func end(of kept: KeptCredential) -> Instant { kept.received.advanced(by: settings.keepFor) }
}

extension Int64 {
  /// The difference, or the nearest there is to it.
  fileprivate func clampedSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
