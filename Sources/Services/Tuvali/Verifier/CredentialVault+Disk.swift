import Common
import Journal
import Loop
import Store
import Transfers

/// What is done on the disk, one thing after the other.
extension CredentialVault {
  /// Begins the next thing that has to be done, if nothing is being done.
  func pump() {
    defer { schedule() }
    guard busy == nil else { return }
    guard let spool else { return openSpool() ? () : tellOfRest() }
    let now = scheduler.now
    let due = entries.values.filter { ($0.failure?.retry ?? now) <= now }.sorted {
      // Those for whom somebody waits come first.
      ($0.askers.isEmpty ? 1 : 0, $0.transfer.number) < ($1.askers.isEmpty ? 1 : 0, $1.transfer.number)
    }
    for entry in due {
      if let step = entry.step { return take(step, for: entry, in: spool) }
    }
    for entry in due {
      if let date = rightDate(of: entry), let id = entry.id { return redate(entry, id, to: date, in: spool) }
    }
    // What failed and is due again needs nothing any more.
    for entry in due { entry.failure = nil }
    if !entries.values.contains(where: { $0.failure?.trouble == .dating }) { end(.dating) }
    tellOfDates()
    tellOfRest()
    if hasFilesApart, inspectAt <= now { inspect(spool) }
  }

  private func tellOfRest() {
    let resting = onRest
    onRest = []
    for body in resting { body() }
  }

  private func take(_ step: KeptCredential.Step, for kept: KeptCredential, in spool: CredentialSpool) {
    let id = kept.id ?? spool.makeID()
    kept.id = id
    let isAccepted = kept.wish == .taken
    switch step {
    case .put:
      kept.mayBeOnDisk = true
      let entry = entry(kept.content ?? [], of: kept.transfer, date: kept.date)
      run(
        { () throws(StoreError) in _ = try spool.put(entry, as: id, isAccepted: isAccepted) },
        then: { $0.written(kept, isAccepted, $1) })
    case .accept:
      run({ () throws(StoreError) in try spool.accept(id) }, then: { $0.written(kept, true, $1) })
    case .erase:
      run({ () throws(StoreError) in try spool.remove(id) }, then: { $0.erased(kept, $1) })
    }
  }

  private func written(_ kept: KeptCredential, _ isAccepted: Bool, _ result: Result<Void, StoreError>) {
    switch result {
    case .success:
      (kept.isOnDisk, kept.isAcceptedOnDisk) = (true, isAccepted)
      // From now on the transfer's own is the only one.
      kept.content = nil
      kept.failure = nil
      // The disk is well: what it refused is tried again at once.
      for other in entries.values where other.failure?.trouble == .writing { other.failure = nil }
      if !entries.values.contains(where: { $0.wish != .nobody && $0.step != nil }) { end(.writing) }
      if kept.step == nil { kept.answer() }
    case .failure(let error):
      if error.reason == .spoolFull, kept.wish == .judged, !kept.askers.isEmpty {
        // The wallet is still there, and hears of it.
        entries[kept.transfer.number] = nil
        return kept.answer(error)
      }
      fail(kept, .writing, error)
    }
  }

  private func erased(_ kept: KeptCredential, _ result: Result<Void, StoreError>) {
    switch result {
    case .success:
      entries[kept.transfer.number] = nil
      if !entries.values.contains(where: { $0.failure?.trouble == .erasing }) { end(.erasing) }
      // There may be room for what is left on the disk.
      inspectAt = scheduler.now
      kept.answer()
    case .failure(let error): fail(kept, .erasing, error)
    }
  }

  private func redate(_ kept: KeptCredential, _ id: SpoolID, to date: Int64, in spool: CredentialSpool) {
    run(
      { () throws(StoreError) in try spool.redate(id, received: date) },
      then: { vault, result in
        switch result {
        case .success:
          kept.date = date
          kept.failure = nil
          vault.redated += 1
        case .failure(let error): vault.fail(kept, .dating, error)
        }
      })
  }

  private func fail(_ kept: KeptCredential, _ trouble: Trouble, _ error: StoreError) {
    kept.failure = (trouble, scheduler.now.advanced(by: Self.retryInterval))
    complain(trouble, error)
    kept.answer()
  }

  /// Runs `work` on the disk, and goes on afterwards with whatever there is to do.
  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(StoreError) -> Value,
    then: @escaping @LoopActor (CredentialVault, Result<Value, StoreError>) -> Void
  ) {
    busy = scheduler.schedule(after: Self.patience) { [weak self] in self?.stall() }
    let attempt: @Sendable () -> Result<Value, StoreError> = {
      do throws(StoreError) { return .success(try work()) } catch { return .failure(error) }
    }
    disk.offload(attempt) { [weak self] result in
      guard let self else { return }
      busy = nil
      if isStalled {
        isStalled = false
        end(.stalled)
      }
      then(self, result)
      pump()
    }
  }

  /// What is being done takes too long: nobody waits for the disk until that comes to an end.
  func stall() {
    guard busy != nil, !isStalled else { return }
    isStalled = true
    let seconds = Self.patience.components.seconds
    complain(
      .stalled, StoreError(.diskStalled, "The disk has not answered for \(seconds) s. Look into the kernel's log."))
    for entry in entries.values { entry.answer() }
  }

  // MARK: Opening

  typealias Opened = Result<(spool: CredentialSpool, contents: SpoolContents, tooOld: Int), StoreError>

  /// Opens the spool and reads what there is room for.
  nonisolated static func opened(_ open: Opening, _ settings: Settings, now: Int64?) -> Opened {
    do throws(StoreError) {
      let spool = try open()
      let tooOld = now.map { spool.removeAll(olderThan: settings.keepFor, now: $0, epoch: epoch).removed.count } ?? 0
      return .success((spool, try spool.list(room: (.max, settings.maximumBytes)), tooOld))
    } catch {
      return .failure(error)
    }
  }

  /// Tries to open the spool where somebody waits for that, or it is time to.
  private func openSpool() -> Bool {
    let isWanted = entries.values.contains { !$0.askers.isEmpty }
    guard let open, isWanted || troubles[.opening] != nil && inspectAt <= scheduler.now else { return false }
    let (settings, now) = (settings, knownDate)
    run({ () throws(StoreError) in try Self.opened(open, settings, now: now).get() }, then: { $0.adopt($1) })
    return true
  }

  func adopt(_ opened: Opened) {
    switch opened {
    case .success(let (spool, contents, tooOld)):
      self.spool = spool
      tellOfKey(spool)
      end(.opening)
      tellOfOld(tooOld)
      hasFilesApart = false
      restore(contents)
    case .failure(let error):
      inspectAt = scheduler.now.advanced(by: Self.retryInterval)
      complain(.opening, error)
      for entry in entries.values { entry.answer() }
    }
  }

  /// Looks after the files that are not here as transfers: some may be too old, readable now, or have room now.
  private func inspect(_ spool: CredentialSpool) {
    inspectAt = scheduler.now.advanced(by: Self.retryInterval)
    let here = Set(entries.values.compactMap(\.id))
    let (keepFor, now, room) = (settings.keepFor, knownDate, settings.maximumBytes - bytes)
    let look: @Sendable () throws(StoreError) -> (contents: SpoolContents, tooOld: Int) = { () throws(StoreError) in
      let tooOld = now.map {
        spool.removeAll(olderThan: keepFor, now: $0, epoch: Self.epoch, except: here).removed.count
      }
      return (try spool.list(except: here, room: (.max, room)), tooOld ?? 0)
    }
    run(
      look,
      then: { vault, result in
        switch result {
        case .success(let found):
          vault.tellOfOld(found.tooOld)
          vault.restore(found.contents)
        case .failure(let error): vault.complain(.unreadable, error)
        }
      })
  }

  private func restore(_ contents: SpoolContents) {
    guard let list else { return }
    for restored in contents.credentials {
      let entry = restored.entry
      let transfer = list.restore(
        entry.credential, peer: entry.peer, dialect: entry.dialect, isAccepted: restored.isAccepted)
      let (received, doubtedUntil) = received(entry.received)
      let new = KeptCredential(
        transfer, size: CredentialSpool.size(of: entry), date: entry.received, received: received)
      new.doubtedUntil = doubtedUntil
      new.id = restored.id
      new.isOnDisk = true
      new.isAcceptedOnDisk = restored.isAccepted
      new.wish = restored.isAccepted ? .taken : .judged
      entries[transfer.number] = new
      if !restored.isAccepted { self.restored(transfer) }
    }
    tell(of: contents)
    hasFilesApart = contents.left > 0 || !contents.problems.isEmpty || contents.damaged > 0
    inspectAt = scheduler.now.advanced(by: Self.retryInterval)
  }
}
