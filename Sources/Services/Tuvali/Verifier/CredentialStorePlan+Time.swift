import Common
import Store

/// Age of credentials, and its relation to the wall clock.
extension CredentialStorePlan {
  /// 2026-01-01, in seconds since 1970. A wall clock with an earlier date was not set since power-on and is ignored.
  static let epoch: Int64 = 1_767_225_600
  /// Tolerance for the date of a file, in seconds.
  static let dateTolerance: Int64 = 30
  /// Time after the start in which the network may still set the wall clock.
  static let doubt = Duration.seconds(300)

  /// Date of the wall clock; nil if unknown.
  func knownDate(_ turn: Turn) -> Int64? { turn.date >= Self.epoch ? turn.date : nil }

  /// Time of reception of a credential, by the date of its file.
  ///
  /// A date in the future, or before the epoch, counts as the present. If the wall clock is wrong now, and is set soon,
  /// the date is evaluated again.
  func received(_ date: Int64, _ turn: Turn) -> (Instant, doubtedUntil: Instant?) {
    let now = turn.now
    guard date >= Self.epoch else { return (now, nil) }
    guard let clock = knownDate(turn) else { return (now, Instant(nanoseconds: .max)) }
    guard date <= clock else { return (now, now.advanced(by: Self.doubt)) }
    return (now.advanced(by: .seconds(date.clampedSubtracting(clock))), nil)
  }

  /// Date that a file should have by the current setting of the wall clock; nil if the file has it, or the date is
  /// unknown.
  func rightDate(of kept: StoredCredential, _ turn: Turn) -> Int64? {
    guard kept.isOnDisk, kept.status != .unwanted, let clock = knownDate(turn) else { return nil }
    guard kept.doubtedUntil.map({ $0 <= turn.now }) ?? true else { return nil }
    let date = clock.clampedSubtracting(kept.received.duration(to: turn.now).components.seconds)
    return date.clampedSubtracting(kept.date).magnitude > Self.dateTolerance ? date : nil
  }

  /// Corrects the dates of the files immediately, because a loss of power may follow.
  mutating func clockWasSet(_ turn: inout Turn) {
    for kept in entries.values where kept.failure?.trouble == .dating { entries[kept.id]?.failure = nil }
    lookThrough(&turn)
  }

  mutating func lookThrough(_ turn: inout Turn) {
    reconsiderDates(turn)
    expire(&turn)
    pump(&turn)
  }

  /// Evaluates dates again that were doubted because of the wall clock.
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

  // MARK: Running time of the service

  /// Interval between writes of the running time, and its maximum error: a loss of power reduces the measured age of
  /// credentials by this time.
  private var noteInterval: Duration { min(.seconds(600), max(.seconds(10), settings.keepFor / 8)) }

  /// Total running time of the service, over all runs, at an instant of this run, in seconds.
  func running(at instant: Instant) -> UInt64 {
    ranBefore + UInt64(clamping: (began ?? instant).duration(to: instant).components.seconds)
  }

  /// Latest possible time of reception, by the running time of the service since then.
  func received(runningFor running: UInt64, _ turn: Turn) -> Instant {
    let now = self.running(at: turn.now)
    return turn.now.advanced(by: .seconds(-Int64(clamping: now - min(running, now))))
  }

  /// Note to write now, with the numbers that it reserves; nil if none is due.
  func dueNote(_ turn: Turn) -> (CredentialStoreNote, Range<Int>?)? {
    let isWell = troubles[.noting] == nil
    let running = running(at: turn.now)
    // A caller that waits for idleness may be about to end the service.
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

  /// Handles the end of the operation that wrote the note with transfer numbers and running time.
  mutating func noted(_ note: CredentialStoreNote, _ numbers: Range<Int>?, _ error: StoreError?, _ turn: inout Turn) {
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

  /// Continues the transfer numbers and the running time of earlier runs from the note of the opened spool.
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

  /// Sets the deadline: the first expiry of a credential, timeout of a caller, or retry. While credentials are on disk,
  /// it is at most a minute away.
  mutating func schedule(_ turn: Turn) {
    let now = turn.now
    if lookAt <= now { lookAt = now.advanced(by: Self.retryInterval) }
    let wanted = entries.values.filter { $0.status != .unwanted }
    var attempts = work == nil ? entries.values.compactMap(\.failure?.retry) : []
    if wanted.contains(where: \.isOnDisk) { attempts.append(lookAt) }
    let isOpening = !isOpen && troubles[.opening] != nil
    if hasOtherFiles && isOpen || isOpening { attempts.append(inspectAt) }
    if wantsNumbers && isOpen { attempts.append(noteAt) }
    // Operations that become due while another one is in progress begin at its end.
    if work != nil { attempts = attempts.map { $0 > now ? $0 : now.advanced(by: Self.retryInterval) } }
    let patience = work.flatMap { $0.isStalled ? nil : $0.patienceEnds }
    deadline = ([answersDue, patience].compactMap(\.self) + wanted.map(end(of:)) + attempts).min()
  }

  /// Returns when a stored credential expires and is erased.
  func end(of kept: StoredCredential) -> Instant { kept.received.advanced(by: settings.keepFor) }
}

extension Int64 {
  /// Returns the difference, limited to the range of the type.
  fileprivate func clampedSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
