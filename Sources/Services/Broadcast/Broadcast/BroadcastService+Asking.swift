import Common
import Journal
import Loop
import PBLEC
import Store

/// Requests of local programs: to send, cancel and notify, and the storing of notification budgets.
extension BroadcastService {
  /// The reason why the service rejects a request of a local program.
  public enum Refusal: CodedError {
    case notReady(String)
    case feed(BroadcastError)
    case store(StoreError)

    public var code: String {
      switch self {
      case .notReady: "NotReady"
      case .feed(let error): error.code
      case .store(let error): error.code
      }
    }

    public var sentence: String {
      switch self {
      case .notReady(let why): why
      case .feed(let error): error.sentence
      case .store(let error): error.sentence
      }
    }
  }

  /// Queues a message for broadcast; `outcomes` reports the result.
  ///
  /// - Returns: the message's number.
  public func send(_ text: String) throws(Refusal) -> UInt64 {
    let message: MessageText
    do throws(BroadcastError) { message = try MessageText(text) } catch { throw .feed(error) }
    try checkRadio()
    do throws(BroadcastError) {
      guard let (number, actions) = try engine?.send(message, at: scheduler.now) else { return 0 }
      perform(actions)
      return number
    } catch {
      throw Refusal.feed(error)
    }
  }

  /// Cancels a pending message.
  public func cancel(_ number: UInt64) throws(Refusal) {
    do throws(BroadcastError) {
      perform(try engine?.cancel(number, at: scheduler.now) ?? [])
      if engine == nil { throw BroadcastError.unknownMessage }
    } catch {
      throw Refusal.feed(error)
    }
  }

  /// Broadcasts a beacon, once a day; `callOutcomes` reports the result.
  ///
  /// - Parameter then: called when the spent budget is durable, or with the reason why the beacon is not sent.
  public func notify(then: @escaping @LoopActor (Refusal?) -> Void) {
    do throws(Refusal) {
      try checkRadio()
      do throws(BroadcastError) {
        guard let actions = try engine?.notify(at: scheduler.now, time: time) else { return }
        askings += 1
        asker = Asker(number: askings, then: then)
        perform(actions)
      } catch {
        throw Refusal.feed(error)
      }
    } catch {
      then(error)
    }
  }

  /// Sets the maximum notifications reported in a day, for this run and later ones.
  public func setNotifyLimit(_ limit: Int) throws(Refusal) {
    guard engine != nil else { throw .notReady(reason.isEmpty ? "The local broadcast channel is stopped." : reason) }
    isLimitChosen = true
    perform(engine?.setNotifyLimit(limit) ?? [])
  }

  private func checkRadio() throws(Refusal) {
    guard engine != nil, radio.status.state != .waiting else {
      throw .notReady(reason.isEmpty ? "The local broadcast channel is stopped." : reason)
    }
    // A radio that cannot receive advertising packets cannot broadcast either.
    if let deafness { throw .notReady(deafness) }
  }

  // MARK: Record of notifications

  /// Persists the record of notifications. The first record after a request for a beacon includes that beacon, which is
  /// broadcast once the record is durable.
  func keep(_ ledger: NotificationRecord) {
    let asker = self.asker
    self.asker = nil
    keeper.write(StoredNotificationRecord(ledger, isLimitChosen: isLimitChosen)) { [weak self] error in
      // The result is handled in a later loop iteration. Otherwise a disk that answers synchronously would do so before
      // the remaining actions.
      self?.scheduler.soon { self?.kept(error, asker) }
    }
  }

  private func kept(_ error: StoreError?, _ asker: Asker?) {
    note(error)
    changed()
    guard let asker else { return }
    // The beacon of this record was abandoned after a timeout or at the end of the service, and a later beacon may be
    // waiting.
    guard let waiting = waitingBeacon, waiting.asking == asker.number else {
      return asker.then(error.map { .store($0) } ?? .feed(.noPlace))
    }
    waitingBeacon = nil
    if let error {
      handle(.beaconRefused)
      asker.then(.store(error))
    } else {
      call(waiting.beacon)
      asker.then(nil)
    }
  }

  /// Stores the result of a disk operation in `trouble`, and logs an error if its reason differs from that of the last
  /// one.
  private func note(_ error: StoreError?) {
    if let error, trouble?.reason != error.reason {
      Log.shared.error(
        "Today's notification counts cannot be stored: \(error)", id: .broadcastStoreDegraded, .error(error),
        .protocolName("pblec"))
    }
    trouble = error
  }
}
