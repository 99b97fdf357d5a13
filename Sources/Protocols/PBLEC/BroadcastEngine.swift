import Common
import Crypto

/// The public feed near by: messages in advertisements, without links, keys and names. Facts: pblec.md sections 1 to 4.
///
/// Nobody signs what comes in, and thousands may say it: what is remembered is bounded, and what is beyond the bounds is counted.
public struct BroadcastEngine: Sendable {
  public var configuration: Configuration
  public private(set) var counters = Counters()
  private var sender: Sender
  private var receiver: Receiver
  private var ledger: NotifyLedger
  private var beacon = BeaconState.none
  private var isStopped = false
  private var random: any RandomSource & Sendable

  private enum BeaconState: Sendable {
    case none
    case asking(since: Instant)
    case onAir
  }

  /// - Parameters:
  ///   - ledger: what earlier runs have notified.
  ///   - random: where the first digit, the names of peers and the beacons' numbers come from.
  ///   - last: the number before that of the first message, of others and of this machine.
  ///   - now: when this run begins.
  public init(
    configuration: Configuration = Configuration(), ledger: NotifyLedger = NotifyLedger(),
    random: any RandomSource & Sendable, after last: UInt64 = 0, at now: Instant
  ) {
    var random = random
    self.configuration = configuration
    self.ledger = ledger
    self.ledger.settle(at: now)
    sender = Sender(randomFrom: &random, after: last)
    receiver = Receiver(randomFrom: &random, after: last)
    self.random = random
  }

  /// When `Event.timer` is due; nil when nothing is timed, as in a feed that is idle or stopped.
  public var deadline: Instant? {
    guard !isStopped else { return nil }
    return [sender.deadline, receiver.peers.nextPruning, beaconDeadline].compactMap { $0 }.min()
  }

  private var beaconDeadline: Instant? {
    guard case .asking(let since) = beacon else { return nil }
    return since.advanced(by: Limits.longestSilence)
  }

  /// Peers that said something in the last minute, or were heard to be there since.
  public var peersNearby: Int { receiver.peers.count }

  /// Messages that programs sent and that are not said yet.
  public var waiting: Int { sender.count }

  /// Notifications that are wanted in a day.
  public var notifyLimit: Int { ledger.limit }

  /// Notifications that may still be told today.
  public func notificationsLeft(at now: Instant, time: CalendarTime) -> Int { ledger.left(at: time, now) }

  /// Messages of a higher number, the oldest first, `limit` of them at most.
  public func messages(after number: UInt64, limit: Int) -> [HeardMessage] {
    receiver.feed.messages(after: number, limit: limit)
  }

  // MARK: What programs ask for

  /// Says something to everybody near.
  ///
  /// - Returns: the message's number, one more for each since the start, and what is to be done.
  /// - Throws: `queueFull`.
  public mutating func send(
    _ text: MessageText, at now: Instant
  ) throws(BroadcastError) -> (number: UInt64, actions: [Action]) {
    try sender.send(text, at: now)
  }

  /// Takes a message back that is not said yet; of one that is on the air the rest is not said.
  ///
  /// - Throws: `unknownMessage`.
  public mutating func cancel(_ number: UInt64, at now: Instant) throws(BroadcastError) -> [Action] {
    count(try sender.cancel(number, at: now))
  }

  /// Wakes others up, once a day.
  ///
  /// - Throws: `notifying`, `notifySpent` or `clockNotSet`.
  public mutating func notify(at now: Instant, time: CalendarTime) throws(BroadcastError) -> [Action] {
    guard case .none = beacon else { throw .notifying(until: ledger.nextDay(at: time)) }
    try ledger.send(at: time, now)
    beacon = .asking(since: now)
    let bytes = random.bytes(4).map { UInt16($0) }
    // The budget is spent on the disk before anything is on the air: a crash gives nothing back.
    return [
      .keep(ledger), .transmitBeacon(NotifyBeacon(major: bytes[0] << 8 | bytes[1], minor: bytes[2] << 8 | bytes[3])),
    ]
  }

  /// Sets how many notifications are wanted in a day.
  public mutating func setNotifyLimit(_ limit: Int) -> [Action] {
    ledger.limit = limit
    return [.keep(ledger)]
  }

  // MARK: What comes in

  /// Takes in one report of the radio: AD structures as they were on the air.
  ///
  /// - Parameters:
  ///   - rssi: in dBm; nil where the radio does not know.
  ///   - time: asked for only where it is needed.
  public mutating func hear(
    _ data: [UInt8], from advertiser: AdvertiserID, rssi: Int?, at now: Instant, time: @autoclosure () -> CalendarTime
  ) -> [Action] {
    switch Report(reading: data) {
    case .nothing: return []
    case .refused(let drop):
      counters.count(drop)
      return []
    case .stop(let digit):
      // An empty name is everybody's: it counts for those who are remembered.
      receiver.heard(advertiser, at: now)
      if digit != nil { counters.stops += 1 }
      return []
    case .message(let packet):
      let verdict = receiver.judge(
        packet, from: advertiser, rssi: rssi.map { min(max($0, -128), 127) },
        followsAddresses: configuration.followsAddresses, at: now, time: time)
      switch verdict {
      case .refused(let drop):
        counters.count(drop)
        return []
      case .new(let message):
        counters.heard += 1
        return [.heard(message)]
      }
    case .beacon(let beacon): return hear(beacon, at: now, time: time())
    }
  }

  private mutating func hear(_ beacon: NotifyBeacon, at now: Instant, time: CalendarTime) -> [Action] {
    if let drop = ledger.hear(beacon, at: time, now) {
      counters.count(drop)
      return []
    }
    counters.notifications += 1
    return [.keep(ledger), .notified]
  }

  /// Takes in what happened.
  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .began(let number):
      sender.began(number, at: now)
      return []
    case .ended(let number, let wasCutShort):
      return count(sender.ended(number, wasCutShort: wasCutShort, at: now))
    case .refused(let number, let error): return count(sender.refused(number, error, at: now))
    case .beaconBegan:
      if case .asking = beacon { beacon = .onAir }
      return []
    case .beaconEnded:
      if case .onAir = beacon { beacon = .none }
      return []
    case .beaconRefused: return giveUpBeacon()
    case .timer:
      receiver.prune(at: now)
      let actions = count(sender.timer(at: now))
      guard let beaconDeadline, beaconDeadline <= now else { return actions }
      return actions + [.stopBeacon(.noPlace)] + giveUpBeacon()
    case .stop:
      isStopped = true
      var actions = count(sender.stop())
      if case .none = beacon {} else { actions.append(.stopBeacon(.cancelled)) }
      ledger.settle(at: now)
      let rest = giveUpBeacon()
      beacon = .none
      if rest.isEmpty, ledger.isInUse { actions.append(.keep(ledger)) }
      return actions + rest
    }
  }

  /// The beacon that was not on the air may be sent another time on this day.
  private mutating func giveUpBeacon() -> [Action] {
    guard case .asking = beacon else { return [] }
    beacon = .none
    ledger.giveBack()
    return [.keep(ledger)]
  }

  private mutating func count(_ actions: [Action]) -> [Action] {
    for action in actions {
      switch action {
      case .sent: counters.sent += 1
      case .dropped: counters.notSent += 1
      default: break
      }
    }
    return actions
  }
}
