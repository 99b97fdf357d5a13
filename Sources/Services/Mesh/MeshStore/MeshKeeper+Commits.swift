import Bitchat
import Bytes
import Common
import Loop
import Store

/// Writing during the run of the node.
extension MeshKeeper {
  /// Stores changes, all in one commit.
  ///
  /// A change that cannot be encoded, because a text is too long, is skipped, and the reason is `tooLarge`. After a
  /// storage error, changes are retried; nothing is lost while the process runs.
  ///
  /// - Parameters:
  ///   - isUrgent: whether a commit begins as soon as none is running. Other changes wait until half a second after the
  ///     start of the last commit, so that small changes share one. A commit for each would write a hundred times their
  ///     size.
  ///   - then: called when these and all earlier changes are durable, or with the reason of a failure.
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
        refusal = refusal ?? StoreError(.tooLarge, "A record of the mesh cannot be stored: \(error).")
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

  /// Removes expired items. Public messages and packets expire after `Settings.archive`, outgoing messages after a day,
  /// private messages after 30 days. Call it regularly, and only if the clock is known to be right.
  ///
  /// - Parameter time: milliseconds since 1970.
  public func age(at time: UInt64) {
    guard state == .open else { return }
    carryOut(ledger.age(at: time))
    commit()
  }

  /// Removes the hashes of what earlier wipes erased.
  public func forgetErased() {
    guard state == .open else { return }
    carryOut(ledger.forgetErased())
    commit()
  }

  /// Calls `then` when nothing is running or waiting, except failed changes, or after `limit`.
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

  /// Commits all waiting changes. It does nothing while a commit is running, or while only changes that are not urgent
  /// wait and the last commit began less than half a second ago.
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
      // Newer changes replace older ones.
      var again = done.writes
      again.add(pending)
      pending = again
      let next = min(pause.map { $0 * 2 } ?? Self.firstPause, Self.longestPause)
      pause = next
      // Changes that arrived meanwhile get an attempt of their own immediately.
      if waiting.isEmpty { retry.set(scheduler.now.advanced(by: next)) }
    }
    for waiter in done.waiting { waiter(failure) }
    // Changes without writes arrived during the commit: all changes before them are durable now.
    if failure == nil, pending.isEmpty {
      let told = waiting
      waiting = []
      for waiter in told { waiter(nil) }
    }
    if failure == nil || !waiting.isEmpty { commit(isUrgent: failure != nil) }
    tellIdlers()
  }

  // MARK: Stalled disk

  static let stalled = StoreError(
    .diskStalled, "The disk does not answer. Check the kernel log; writes of the mesh store wait for the disk.")

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
