import Common
import Crypto

/// Local broadcast channel: messages in advertisements, without links, keys and names. Facts: pblec.md sections 1 to 4.
///
/// Received messages are unsigned, and thousands of senders are possible. Stored state is therefore bounded, and
/// messages beyond the bounds are counted.
public struct BroadcastEngine: Sendable {
  public var configuration: Configuration
  public private(set) var counters = Counters()
  private var sender: Sender
  private var receiver: Receiver
  private var ledger: NotificationRecord
  private var beacon = BeaconState.none
  private var isStopped = false
  private var random: any RandomSource & Sendable

  private enum BeaconState: Sendable {
    case none
    case asking(since: Instant)
    case onAir
  }

  /// - Parameters:
  ///   - ledger: notifications of earlier runs.
  ///   - random: source of the first digit, the aliases of peers, and the numbers of beacons.
  ///   - last: received and own messages are numbered from `last` + 1.
  ///   - now: start of this run.
  public init(
    configuration: Configuration = Configuration(), ledger: NotificationRecord = NotificationRecord(),
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

  /// Time at which `Event.timer` is due; nil if no timer is running, as in an idle or stopped engine.
  public var deadline: Instant? {
    guard !isStopped else { return nil }
    return [sender.deadline, receiver.peers.nextPruning, beaconDeadline].compactMap { $0 }.min()
  }

  private var beaconDeadline: Instant? {
    guard case .asking(let since) = beacon else { return nil }
    return since.advanced(by: Limits.longestSilence)
  }

  /// Number of stored peers: those that sent a message and were received in the last `Limits.peerLife` (60 s).
  public var peersNearby: Int { receiver.peers.count }

  /// Number of pending messages of local programs, including the one being broadcast.
  public var waiting: Int { sender.count }

  /// Maximum notifications reported to local programs in a day.
  public var notifyLimit: Int { ledger.limit }

  /// Number of notifications that may still be reported today.
  public func notificationsLeft(at now: Instant, time: CalendarTime) -> Int { ledger.left(at: time, now) }

  /// Received messages with a number above `number`, oldest first, at most `limit`.
  public func messages(after number: UInt64, limit: Int) -> [ReceivedBroadcast] {
    receiver.feed.messages(after: number, limit: limit)
  }

  // MARK: Requests of local programs

  /// Queues a message for broadcast.
  ///
  /// - Returns: the message's number, which is one more for each message since the start, and the actions to perform.
  /// - Throws: `queueFull` if `Limits.queue` messages are pending.
  public mutating func send(
    _ text: MessageText, at now: Instant
  ) throws(BroadcastError) -> (number: UInt64, actions: [Action]) {
    try sender.send(text, at: now)
  }

  /// Cancels a message that is waiting, or stops one that is being broadcast.
  ///
  /// - Throws: `unknownMessage` if the message is not pending.
  public mutating func cancel(_ number: UInt64, at now: Instant) throws(BroadcastError) -> [Action] {
    count(try sender.cancel(number, at: now))
  }

  /// Broadcasts a notification beacon, once a day.
  ///
  /// - Throws: `notifying`, `notifySpent` or `clockNotSet`.
  public mutating func notify(at now: Instant, time: CalendarTime) throws(BroadcastError) -> [Action] {
    guard case .none = beacon else { throw .notifying(until: ledger.nextDay(at: time)) }
    try ledger.send(at: time, now)
    beacon = .asking(since: now)
    let bytes = random.bytes(4).map { UInt16($0) }
    // Persist the spent budget before broadcasting, so that a crash cannot restore it.
    return [
      .keep(ledger), .transmitBeacon(NotifyBeacon(major: bytes[0] << 8 | bytes[1], minor: bytes[2] << 8 | bytes[3])),
    ]
  }

  /// Sets the maximum notifications reported in a day, clamped to 0 to `Limits.mostNotifications`.
  public mutating func setNotifyLimit(_ limit: Int) -> [Action] {
    ledger.limit = limit
    return [.keep(ledger)]
  }

  // MARK: Reports and events

  /// Handles one advertising report: AD structures in their wire form.
  ///
  /// - Parameters:
  ///   - rssi: in dBm; nil if the controller gives none.
  ///   - time: evaluated only for new messages and for beacons.
  public mutating func hear(
    _ data: [UInt8], from advertiser: AdvertiserID, rssi: Int?, at now: Instant, time: @autoclosure () -> CalendarTime
  ) -> [Action] {
    switch Report(reading: data) {
    case .nothing: return []
    case .refused(let drop):
      counters.count(drop)
      return []
    case .stop(let digit):
      // An empty local name is not specific to this protocol. If a known peer sends it, the peer is still in range.
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

  /// Handles an event other than a report or a request.
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

  /// Restores the day's budget of a beacon that was not broadcast, so that it may be sent later today.
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

/// Reason why a message or a beacon cannot be broadcast, or was not.
public enum BroadcastError: CodedError, Hashable {
  case empty
  case tooLong(bytes: Int)
  case controlCharacters(bytes: Int)
  /// `Limits.queue` messages are pending. The first of them has been broadcast after `seconds`.
  case queueFull(seconds: Int)
  /// No pending message has the number; the message may have been broadcast already.
  case unknownMessage
  /// A local program cancelled the message, or the service stopped.
  case cancelled
  /// No advertising slot was free within `Limits.longestWait`.
  case noPlace
  /// The radio reported an error, described by the sentence.
  case radioFailed(String)
  /// There is no usable radio. The sentence gives the reason.
  case noRadio(String)
  /// The broadcast began, and was stopped before its full time had passed.
  case cutShort
  /// Today's beacon was sent. The next one is allowed on day `until`.
  case notifySpent(until: CalendarDay)
  /// A beacon is being broadcast, or waits for a slot. The next one is allowed on day `until`.
  case notifying(until: CalendarDay)
  /// The clock shows a time before 2026, so the day is unknown.
  case clockNotSet

  public var code: String {
    switch self {
    case .empty, .tooLong, .controlCharacters: "InvalidArgs"
    case .queueFull, .notifySpent, .notifying: "LimitExceeded"
    case .unknownMessage: "NotFound"
    case .cancelled: "Cancelled"
    case .noPlace, .radioFailed: "Timeout"
    case .cutShort: "CutShort"
    case .clockNotSet, .noRadio: "NotReady"
    }
  }

  public var sentence: String {
    switch self {
    case .empty: "A message has 1 to \(Limits.textBytes) bytes of text; this one has 0."
    case .tooLong(let bytes): "A message has 1 to \(Limits.textBytes) bytes of text; this one has \(bytes)."
    case .controlCharacters(let bytes):
      "The text of \(bytes) bytes contains a control character, which a message may not contain."
    case .queueFull(let seconds):
      "\(Limits.queue) messages are queued. There is capacity for another one in \(seconds)s."
    case .unknownMessage: "No message with this number is queued or being broadcast."
    case .cancelled: "The message was cancelled."
    case .noPlace: "No advertising slot was free within \(Limits.longestWait.components.seconds)s."
    case .noRadio(let why), .radioFailed(let why): why
    case .cutShort: "The broadcast was stopped before its time was over."
    case .notifySpent(let day): "Today's notification was broadcast already. The next one is possible on \(day)."
    case .notifying(let day): "A notification is being broadcast. The next one is possible on \(day)."
    case .clockNotSet: "This machine's clock shows a time before 2026. Set it: notifications are limited to one a day."
    }
  }
}
