import Common
import Store

/// Disk operations, one after the other.
extension CredentialStorePlan {
  /// Begins the next operation, if none is in progress.
  mutating func pump(_ turn: inout Turn) {
    guard work == nil else { return }
    guard isOpen else {
      if isOpeningDue(turn) { open(&turn) } else { answerIdle(&turn) }
      return
    }
    let now = turn.now
    let due = inOrder.filter { $0.failure.map { $0.retry <= now } ?? true }
    // Operations that a caller waits for come first.
    let next = due.first { $0.step != nil && !$0.askers.isEmpty } ?? due.first { $0.step != nil }
    if let next, let step = next.step { return take(step, for: next, &turn) }
    for kept in due {
      if let date = rightDate(of: kept, turn) {
        return begin(.redate(kept.id, date: date), by: .redate(kept.id, date: date), &turn)
      }
    }
    // Entries that failed and are due again have nothing left to do.
    for kept in due { entries[kept.id]?.failure = nil }
    if !hasFailure(.dating) { end(.dating, &turn) }
    logDates(&turn)
    if let (note, numbers) = dueNote(turn) { return begin(.note(note, numbers), by: .note(note), &turn) }
    answerIdle(&turn)
    if hasOtherFiles && inspectAt <= now { inspect(&turn) }
  }

  private mutating func begin(_ kind: Work.Kind, by action: Action, _ turn: inout Turn) {
    work = Work(kind: kind, patienceEnds: turn.now.advanced(by: Self.patience))
    turn.actions.append(action)
  }

  /// Ends the current operation, and returns its kind.
  private mutating func end(_ turn: inout Turn) -> Work.Kind? {
    guard let work else { return nil }
    self.work = nil
    if work.isStalled { end(.stalled, &turn) }
    return work.kind
  }

  /// Handles an operation that takes too long. Until it ends, callers do not wait for the disk.
  mutating func stall(_ turn: inout Turn) {
    guard let work, !work.isStalled else { return }
    self.work?.isStalled = true
    let seconds = Self.patience.components.seconds
    complain(
      .stalled, StoreError(.diskStalled, "The disk has not answered for \(seconds) s. See the kernel log."),
      &turn)
    answerAll(&turn)
  }

  // MARK: One credential

  private mutating func take(_ step: StoredCredential.Step, for kept: StoredCredential, _ turn: inout Turn) {
    let id = kept.id
    switch step {
    case .put:
      // The record exists until it is written. Without one there is nothing to write.
      guard var record = kept.record else {
        answer(id, &turn)
        forget(id, &turn)
        return pump(&turn)
      }
      entries[id]?.file = .uncertain
      record.running = running(at: kept.received)
      let isAccepted = kept.status == .accepted
      begin(
        .put(id, isAccepted: isAccepted), by: .put(id, record, date: kept.date, isAccepted: isAccepted), &turn)
    case .accept: begin(.accept(id), by: .accept(id), &turn)
    case .verdict:
      guard let verdict = kept.verdict else { return }
      begin(.verdict(id, verdict), by: .verdict(id, verdict), &turn)
    case .erase: begin(.erase(id), by: .erase(id), &turn)
    }
  }

  /// Handles the end of an operation on one credential.
  mutating func done(_ error: StoreError?, _ turn: inout Turn) {
    switch work?.kind {
    case nil, .open, .inspect: return
    case .put, .accept, .verdict, .erase, .redate, .note: break
    }
    switch end(&turn) {
    case .put(let id, let isAccepted): written(id, isAccepted, error, &turn)
    case .accept(let id): written(id, true, error, &turn)
    case .verdict(let id, let verdict): noted(verdict, of: id, error, &turn)
    case .erase(let id): erased(id, error, &turn)
    case .redate(let id, let date): redated(id, to: date, error, &turn)
    case .note(let note, let numbers): noted(note, numbers, error, &turn)
    case nil, .open, .inspect: break
    }
    pump(&turn)
  }

  private mutating func written(_ id: SpoolID, _ isAccepted: Bool, _ error: StoreError?, _ turn: inout Turn) {
    guard let kept = entries[id] else { return }
    if let error {
      // If the spool is full only because of files that cannot be erased, the credential is stored in memory.
      let isFull = error.reason == .spoolFull && !hasFailure(.erasing)
      guard isFull, kept.status == .unjudged, !kept.askers.isEmpty else { return fail(id, .writing, error, &turn) }
      // The wallet is still connected and is notified.
      answer(id, &turn, error: error)
      return forget(id, &turn)
    }
    entries[id]?.file = .present(isAccepted: isAccepted)
    // From now on only the transfer holds the credential in memory.
    entries[id]?.record = nil
    entries[id]?.failure = nil
    // The disk works: failed writes are retried immediately.
    for other in entries.values where other.failure?.trouble == .writing { entries[other.id]?.failure = nil }
    if !entries.values.contains(where: { $0.status != .unwanted && $0.step != nil }) { end(.writing, &turn) }
    if entries[id]?.step == nil { answer(id, &turn) }
  }

  private mutating func noted(_ verdict: [UInt8], of id: SpoolID, _ error: StoreError?, _ turn: inout Turn) {
    guard entries[id]?.status != .unwanted, entries[id] != nil else { return }
    if let error { return fail(id, .verdicts, error, &turn) }
    // A newer verdict may be waiting.
    if entries[id]?.verdict == verdict { entries[id]?.verdict = nil }
    entries[id]?.failure = nil
    if !hasFailure(.verdicts) { end(.verdicts, &turn) }
    if entries[id]?.step == nil { answer(id, &turn) }
  }

  private mutating func erased(_ id: SpoolID, _ error: StoreError?, _ turn: inout Turn) {
    if let error { return fail(id, .erasing, error, &turn) }
    let askers = entries[id]?.askers ?? []
    forget(id, &turn)
    if !hasFailure(.erasing) { end(.erasing, &turn) }
    // There may be capacity now for credentials that are still on disk.
    inspectAt = turn.now
    turn.actions += askers.map { .answer($0.number, nil) }
  }

  private mutating func redated(_ id: SpoolID, to date: Int64, _ error: StoreError?, _ turn: inout Turn) {
    if let error { return fail(id, .dating, error, &turn) }
    entries[id]?.date = date
    entries[id]?.failure = nil
    redated += 1
  }

  private mutating func fail(_ id: SpoolID, _ trouble: Trouble, _ error: StoreError, _ turn: inout Turn) {
    entries[id]?.failure = .init(trouble: trouble, retry: turn.now.advanced(by: Self.retryInterval))
    complain(trouble, error, &turn)
    answer(id, &turn)
  }

  private func hasFailure(_ trouble: Trouble) -> Bool {
    entries.values.contains { $0.failure?.trouble == trouble }
  }

  // MARK: The spool

  private func look(room: Int, _ turn: Turn) -> Look {
    Look(except: Set(entries.keys), room: room, keepFor: settings.keepFor, date: knownDate(turn))
  }

  mutating func open(_ turn: inout Turn) {
    begin(.open, by: .open(look(room: settings.maximumBytes, turn)), &turn)
  }

  /// Whether to open the spool: a caller waits for it, or a retry is due.
  private func isOpeningDue(_ turn: Turn) -> Bool {
    let isWanted = entries.values.contains { !$0.askers.isEmpty }
    return hasDisk && (isWanted || troubles[.opening] != nil && inspectAt <= turn.now)
  }

  mutating func opened(_ result: Result<Found, StoreError>, _ turn: inout Turn) {
    guard case .open? = work?.kind else { return }
    _ = end(&turn)
    switch result {
    case .success(let found):
      isOpen = true
      end(.opening, &turn)
      hasOtherFiles = false
      takeOver(found, &turn)
      adopt(found, &turn)
    case .failure(let error):
      inspectAt = turn.now.advanced(by: Self.retryInterval)
      complain(.opening, error, &turn)
      answerAll(&turn)
    }
    pump(&turn)
  }

  /// Inspects the files whose credentials are not in the store: some may have expired, be readable, or fit now.
  private mutating func inspect(_ turn: inout Turn) {
    inspectAt = turn.now.advanced(by: Self.retryInterval)
    begin(.inspect, by: .inspect(look(room: settings.maximumBytes - bytes, turn)), &turn)
  }

  mutating func inspected(_ result: Result<Found, StoreError>, _ turn: inout Turn) {
    guard case .inspect? = work?.kind else { return }
    _ = end(&turn)
    switch result {
    case .success(let found): adopt(found, &turn)
    case .failure(let error): complain(.unreadable, error, &turn)
    }
    pump(&turn)
  }

  /// Adds the records found in the spool to the store.
  private mutating func adopt(_ found: Found, _ turn: inout Turn) {
    var contents = found.contents
    contents.entries.removeAll { entries[$0.id] != nil }
    let old = contents.entries.filter { end(of: kept($0, turn)) <= turn.now }
    for entry in old {
      var kept = kept(entry, turn)
      kept.order = nextOrder()
      kept.status = .unwanted
      keep(kept)
    }
    contents.entries.removeAll { entries[$0.id] != nil }
    if found.tooOld + old.count > 0 { turn.actions.append(.log(.tooOld(found.tooOld + old.count))) }
    limitToRoom(&contents)
    for entry in contents.entries {
      var kept = kept(entry, turn)
      kept.order = nextOrder()
      keep(kept)
      turn.actions.append(.restore(entry.id, entry.value, isAccepted: kept.status == .accepted))
    }
    report(contents, &turn)
    hasOtherFiles = contents.withoutRoom > 0 || !contents.problems.isEmpty || contents.damaged > 0
    inspectAt = turn.now.advanced(by: Self.retryInterval)
  }

  /// Makes an entry for a record in the spool. The time of reception is the earlier one of those derived from its date
  /// and from the running time.
  private func kept(_ entry: SpoolContents<CredentialRecord>.Entry, _ turn: Turn) -> StoredCredential {
    let isAccepted = entry.mark == CredentialRecord.Mark.accepted.rawValue
    let (byDate, doubtedUntil) = received(entry.received, turn)
    let byRunning = received(runningFor: entry.value.running, turn)
    var kept = StoredCredential(
      id: entry.id, order: 0, size: entry.size, date: entry.received, received: min(byDate, byRunning))
    kept.status = isAccepted ? .accepted : .unjudged
    kept.verdictSize = CredentialRecord.size(ofVerdict: entry.value.verdict.count)
    kept.file = .present(isAccepted: isAccepted)
    kept.doubtedUntil = doubtedUntil
    return kept
  }

  /// Drops the records that exceed the capacity, in the order of reading, because credentials may have arrived
  /// meanwhile. They stay in the spool.
  private func limitToRoom(_ contents: inout SpoolContents<CredentialRecord>) {
    var room = settings.maximumBytes - bytes
    let fitting = contents.entries.prefix { entry in
      room -= entry.size
      return room >= 0
    }
    contents.withoutRoom += contents.entries.count - fitting.count
    contents.entries = Array(fitting)
  }
}
