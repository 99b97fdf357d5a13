import Bitchat
import Bytes
import Common
import Loop
import Store

/// What is kept while the node runs.
extension MeshKeeper {
  /// Keeps changes, all of them in one commit.
  ///
  /// - Parameters:
  ///   - isUrgent: whether a commit begins as soon as none is under way. Other changes wait until half a second has passed since the last commit
  ///     began, so that many small changes share one: a commit for each would write a hundred times their size.
  ///   - then: called when the changes, and all earlier ones, survive a loss of power; or with the reason why the disk does not take them
  ///     now. They are tried again then, and nothing is lost while the process lives. A change that cannot be written at all, because a
  ///     text in it is too long, is left out, and the reason is `tooLarge`.
  public func keep(
    _ changes: [MeshChange], isUrgent: Bool = true, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }
  ) {
    guard state == .open else { return refuse(then) }
    var refusal: StoreError?
    var writes = MeshWrites()
    for change in changes {
      do throws(WireError) {
        writes.add(try ledger.apply(change, at: time))
      } catch {
        refusal = refusal ?? StoreError(.tooLarge, "Something of the mesh cannot be kept: \(error).")
      }
    }
    carryOut(writes)
    let answer: @LoopActor (StoreError?) -> Void = if let refusal { { then($0 ?? refusal) } } else { then }
    if isStalled {
      scheduler.soon { answer(Self.stalled) }
    } else if pending.isEmpty, underWay == nil {
      scheduler.soon { answer(nil) }
    } else {
      waiting.append(answer)
    }
    commit(isUrgent: isUrgent)
  }

  /// Removes what is too old: public lines and packets after `Settings.archive`, what waits to be sent after a day, private messages after
  /// 30 days. To be called now and then, and only when the clock is known to be right.
  ///
  /// - Parameter time: milliseconds since 1970.
  public func age(at time: UInt64) {
    guard state == .open else { return }
    carryOut(ledger.age(at: time))
    commit()
  }

  /// Removes the traces of what earlier wipes erased.
  public func forgetErased() {
    guard state == .open else { return }
    carryOut(ledger.forgetErased())
    commit()
  }

  /// Calls `then` when nothing is under way or waits except what the disk refused, after `limit` at the latest.
  public func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    commit()
    lastIdler += 1
    let number = lastIdler
    let timer = scheduler.schedule(after: limit) { [weak self] in self?.idlers.removeValue(forKey: number)?() }
    idlers[number] = {
      timer.cancel()
      then()
    }
    scheduler.soon { [weak self] in self?.tellIdlers() }
  }

  // MARK: Commits

  func carryOut(_ writes: MeshWrites) {
    pending.add(writes)
    (pending.removedMessages, pending.removedFiles) = ([], [])
    if !writes.removedFiles.isEmpty { onFilesRemoved(writes.removedFiles) }
    if !writes.removedMessages.isEmpty { onRemoved(writes.removedMessages) }
  }

  /// Begins a commit of all waiting changes, unless one is under way, or no change is urgent and the last commit began less than half a second ago.
  ///
  /// - Parameter isUrgent: whether a new change is urgent.
  func commit(isUrgent: Bool = true) {
    guard state == .open, !pending.isEmpty else { return }
    hasUrgent = hasUrgent || isUrgent
    guard underWay == nil else { return }
    let earliest = committedAt?.advanced(by: Self.grouping)
    if let earliest, !hasUrgent, scheduler.now < earliest { return group.set(earliest) }
    (committedAt, hasUrgent) = (scheduler.now, false)
    group.set(nil)
    retry.set(nil)
    let writes = pending
    underWay = (writes, waiting)
    (pending, waiting) = (MeshWrites(), [])
    stall.set(scheduler.now.advanced(by: Self.patience))
    let attempt: @Sendable () -> StoreError? = { [disk] in
      do throws(StoreError) {
        try disk.commit(writes)
        return nil
      } catch {
        return error
      }
    }
    worker.offload(attempt) { [weak self, generation] failure in
      guard let self, generation == self.generation else { return }
      self.committed(failure)
    }
  }

  private func committed(_ failure: StoreError?) {
    guard let done = underWay else { return }
    underWay = nil
    isStalled = false
    stall.set(nil)
    error = failure
    if failure == nil {
      pause = nil
    } else {
      // What came meanwhile is newer.
      var again = done.writes
      again.add(pending)
      pending = again
      let next = min(pause.map { $0 * 2 } ?? Self.firstPause, Self.longestPause)
      pause = next
      // Those who came meanwhile wait for an attempt of their own, which is made at once.
      if waiting.isEmpty { retry.set(scheduler.now.advanced(by: next)) }
    }
    for waiter in done.waiting { waiter(failure) }
    // Changes that wrote nothing came amid the commit: all that was kept before them is on the disk now.
    if failure == nil, pending.isEmpty {
      let told = waiting
      waiting = []
      for waiter in told { waiter(nil) }
    }
    if failure == nil || !waiting.isEmpty { commit(isUrgent: failure != nil) }
    tellIdlers()
  }

  // MARK: A disk that hangs

  static let stalled = StoreError(
    .diskStalled, "The disk does not answer. Look into the kernel's log; what the mesh has to keep waits for it.")

  func diskHangs() {
    isStalled = true
    error = Self.stalled
    let told = (underWay?.waiting ?? []) + waiting
    underWay?.waiting = []
    waiting = []
    for waiter in told { waiter(Self.stalled) }
  }

  func tellIdlers() {
    let isBusy = underWay != nil || state == .opening || state == .wiping || !pending.isEmpty && pause == nil
    guard !isBusy, !idlers.isEmpty else { return }
    let told = idlers.sorted { $0.key < $1.key }.map(\.value)
    idlers = [:]
    for body in told { body() }
  }
}
