import Common
import Journal
import Loop
import PBLEC
import Store

/// What programs ask for.
extension BroadcastService {
  /// Why something is not done.
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

  /// Says something to everybody near, as soon as it is its turn; `outcomes` tells what became of it.
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

  /// Takes a message back.
  public func cancel(_ number: UInt64) throws(Refusal) {
    do throws(BroadcastError) {
      perform(try engine?.cancel(number, at: scheduler.now) ?? [])
      if engine == nil { throw BroadcastError.unknownMessage }
    } catch {
      throw Refusal.feed(error)
    }
  }

  /// Notifies others, once a day; `callOutcomes` tells what became of it.
  ///
  /// - Parameter then: called when the disk knows that the day's notification is spent, or with the reason why nobody is notified.
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

  /// Sets how many notifications are told in a day, for this run and the next ones.
  public func setNotifyLimit(_ limit: Int) throws(Refusal) {
    guard engine != nil else { throw .notReady(reason.isEmpty ? "The feed is stopped." : reason) }
    isLimitChosen = true
    perform(engine?.setNotifyLimit(limit) ?? [])
  }

  private func checkRadio() throws(Refusal) {
    guard engine != nil, radio.status.state != .waiting else {
      throw .notReady(reason.isEmpty ? "The feed is stopped." : reason)
    }
    // A radio without a way to single packets says none either.
    if let deafness { throw .notReady(deafness) }
  }

  // MARK: The ledger

  /// Keeps the ledger. The first one after a program has asked for a beacon has that beacon in it: the beacon goes on the air when
  /// the disk has the ledger.
  func keep(_ ledger: NotifyLedger) {
    let asker = self.asker
    self.asker = nil
    keeper.write(KeptLedger(ledger, isLimitChosen: isLimitChosen)) { [weak self] error in
      // A disk that answers at once does so before the action behind this one.
      self?.scheduler.soon { self?.kept(error, asker) }
    }
  }

  private func kept(_ error: StoreError?, _ asker: Asker?) {
    note(error)
    changed()
    guard let asker else { return }
    // A disk that takes too long, and the end of the service, have taken the beacon back; another one may wait since.
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

  /// What is wrong with the disk, once; and that it is no longer.
  private func note(_ error: StoreError?) {
    if let error, trouble?.reason != error.reason {
      Log.shared.error(
        "What was notified today cannot be kept: \(error)", id: .broadcastStoreDegraded, .error(error),
        .protocolName("pblec"))
    }
    trouble = error
  }
}
