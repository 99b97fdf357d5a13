import Common
import Crypto
import Journal
import Loop
import PBLEC
import Radio
import Store

/// The public feed near by on one machine: an engine, a radio that hears and says its packets, and the ledger of notifications.
@LoopActor
public final class BroadcastService {
  public internal(set) var settings: Settings
  let radio: any Radio
  let scheduler: any Scheduler
  let clock: any WallClock
  let keeper: LedgerKeeper
  private let localDay: @LoopActor (Int64) -> CalendarDay
  private let random: @LoopActor () -> any RandomSource & Sendable

  /// Nil until it is known what earlier runs have notified, and after the end.
  var engine: BroadcastEngine?
  var isStarted = false
  /// Whether a program has set how many notifications are wanted.
  var isLimitChosen = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  // The air: BroadcastService+Air.
  var listening: Registration?
  /// Why the radio has no way to single packets; nil where it has.
  var deafness: String?
  var watches: [Registration] = []
  /// For messages, as long as a conversation lasts.
  var messageSet: (any AdvertisingSet)?
  var airing: Registration?
  /// For a beacon.
  var beaconSet: (any AdvertisingSet)?
  var beaconAiring: Registration?

  // The ledger: BroadcastService+Asking.
  /// A program that waits for the disk to know that the day's beacon is spent.
  struct Asker {
    let number: Int
    let then: @LoopActor (Refusal?) -> Void
  }

  /// Who has asked, until that is on its way to the disk.
  var asker: Asker?
  /// How often one has asked.
  var askings = 0
  /// The beacon that waits for the disk, and who asked for it.
  var waitingBeacon: (beacon: NotifyBeacon, asking: Int)?

  /// What is wrong with keeping the ledger; nil where nothing is.
  var trouble: StoreError?
  /// Lines in the journal that strangers can bring about: one a minute of each kind.
  var told = RateLimiter<Line>(perMinute: 1, capacity: 4)
  /// What the caps had refused when that was last in the journal.
  private var refusedBefore: UInt64 = 0

  // Observers: the face, and the house.
  let changes = Observers<Void>()
  /// Somebody has said something: its number.
  let arrivals = Observers<UInt64>()
  /// What became of an own message: its number, and why it was not said, nil where it was.
  let outcomes = Observers<(number: UInt64, error: BroadcastError?)>()
  let notifications = Observers<Void>()
  /// What became of the own notification: why nobody was notified, nil where everybody near was.
  let callOutcomes = Observers<BroadcastError?>()
  private var shown = Shown()

  enum Line: Hashable, Sendable { case flood, notified, unsent }

  /// What a change is told of.
  private struct Shown: Hashable {
    var state = State.stopped
    var reason = ""
    var peers = 0
    var limit = 0
    var left = 0
  }

  /// - Parameters:
  ///   - keeper: what outlives the run.
  ///   - localDay: the day of the local calendar of a time, in milliseconds since 1970.
  ///   - random: makes the source of digits, words and beacons.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings, keeper: LedgerKeeper,
    clock: any WallClock = SystemWallClock(),
    localDay: @escaping @LoopActor (Int64) -> CalendarDay = { LocalDay.day($0) },
    random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() }
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    self.keeper = keeper
    self.clock = clock
    self.localDay = localDay
    self.random = random
  }

  // MARK: Beginning and end

  /// Finds out what was notified before, and listens from then on.
  ///
  /// - Parameter then: called once, when that is known.
  public func start(then: @escaping @LoopActor () -> Void = {}) {
    guard !isStarted else { return then() }
    isStarted = true
    keeper.open { [weak self] found in
      guard let self, isStarted else { return then() }
      refusedBefore = 0
      // Programs hold the numbers of an earlier run, of which nothing is on the disk: the time of day is higher than any of them.
      engine = BroadcastEngine(
        configuration: settings.engine, ledger: ledger(found), random: random(),
        after: UInt64(max(0, clock.milliseconds)), at: scheduler.now)
      watches = [radio.onStatus { [weak self] _ in self?.radioChanged() }]
      listen()
      Log.shared.notice("The public feed nearby is heard", id: .broadcastStarted, .protocolName("pblec"))
      changed()
      then()
    }
    changed()
  }

  private func ledger(_ found: LedgerKeeper.Found) -> NotifyLedger {
    switch found {
    case .noDirectory, .nothing: return NotifyLedger(limit: settings.notifyLimit)
    case .kept(let kept):
      isLimitChosen = kept.isLimitChosen
      var ledger = kept.ledger
      if !isLimitChosen { ledger.limit = settings.notifyLimit }
      return ledger
    case .damaged(let error, let before):
      trouble = error
      Log.shared.error(
        "What was notified today cannot be read, and is held for spent: \(error)", id: .broadcastStoreDegraded,
        .error(error), .protocolName("pblec"))
      isLimitChosen = before?.isLimitChosen ?? false
      let limit = before.flatMap { $0.isLimitChosen ? $0.ledger.limit : nil } ?? settings.notifyLimit
      return .spent(on: time, limit: limit)
    }
  }

  /// Leaves the air; what waits to be said is dropped.
  public func stop() {
    guard isStarted else { return }
    isStarted = false
    handle(.stop)
    engine = nil
    (listening, deafness, watches) = (nil, nil, [])
    timer.set(nil)
    Log.shared.notice("The public feed nearby is no longer heard", id: .broadcastStopped, .protocolName("pblec"))
    changed()
  }

  /// Takes on what can change while it runs.
  public func apply(_ settings: Settings) {
    if settings.notifyLimit != self.settings.notifyLimit, isLimitChosen {
      Log.shared.notice(
        "Broadcast.NotifyLimit has no effect: a limit that was set over D-Bus takes precedence", .protocolName("pblec"))
    }
    self.settings = settings
    engine?.configuration = settings.engine
    if !isLimitChosen, engine?.notifyLimit != settings.notifyLimit {
      perform(engine?.setNotifyLimit(settings.notifyLimit) ?? [])
    }
    changed()
  }

  // MARK: The engine

  /// What this machine's clock says.
  var time: CalendarTime {
    let milliseconds = clock.milliseconds
    return CalendarTime(milliseconds: milliseconds, day: localDay(milliseconds))
  }

  func handle(_ event: BroadcastEngine.Event) {
    guard let actions = engine?.handle(event, at: scheduler.now) else { return }
    perform(actions)
  }

  /// Takes in a packet that the radio heard.
  func hear(_ packet: AdvertisingPacket) {
    let refused = engine?.counters.refusedByCaps
    let actions = engine?.hear(
      packet.data, from: AdvertiserID(packet), rssi: packet.rssi, at: scheduler.now, time: time)
    // Most packets are copies: nothing has changed then.
    if let actions, !actions.isEmpty { perform(actions) }
    if engine?.counters.refusedByCaps != refused { noteFlood() }
  }

  /// Carries the actions out, in order, and sets the timer.
  func perform(_ actions: [BroadcastEngine.Action]) {
    for action in actions {
      switch action {
      case .transmit(let number, let packet): transmit(packet, as: number)
      case .silence: silence()
      case .leaveAir: leaveAir()
      case .transmitBeacon(let beacon): waitingBeacon = (beacon, askings)
      case .stopBeacon(let error): stopCalling(error)
      case .sent(let number): outcomes.call((number, nil))
      case .dropped(let number, let error): dropped(number, error)
      case .heard(let message): arrivals.call(message.number)
      case .notified: notified()
      case .keep(let ledger): keep(ledger)
      }
    }
    timer.set(engine?.deadline)
    changed()
  }

  private func dropped(_ number: UInt64, _ error: BroadcastError) {
    if error != .cancelled, told.allow(.unsent, at: scheduler.now) {
      Log.shared.warning(
        "A message was not said: \(error)", id: .broadcastUnsent, .error(error), .protocolName("pblec"))
    }
    outcomes.call((number, error))
  }

  private func notified() {
    if told.allow(.notified, at: scheduler.now) {
      Log.shared.notice("Somebody nearby wants to talk", id: .broadcastNotified, .protocolName("pblec"))
    }
    notifications.call()
  }

  /// One line a minute, whatever is going on.
  private func noteFlood() {
    guard let counters = engine?.counters, told.allow(.flood, at: scheduler.now) else { return }
    let count = counters.refusedByCaps - refusedBefore
    refusedBefore = counters.refusedByCaps
    Log.shared.warning(
      """
      More is said nearby than the limits let through: \(count) reports were dropped since the last such line \
      (in all \(counters[.noRoom]) of new peers with no room, \(counters[.tooManyNew]) of too many new peers, \
      \(counters[.tooFast]) of peers that are too fast)
      """, id: .broadcastFlooded, .protocolName("pblec"))
  }

  /// Tells observers if something that is shown has changed.
  func changed() {
    let now = Shown(
      state: state, reason: reason, peers: peersNearby, limit: notifyLimit, left: notificationsLeft)
    guard now != shown else { return }
    shown = now
    changes.call()
  }

  // MARK: For the house

  public enum State: String, Sendable {
    case stopped
    /// The disk says what was notified, or there is no radio.
    case waiting
    /// It hears, and says what there is to say.
    case listening
    /// It works in part; the reason says what is missing.
    case degraded
  }

  public var state: State {
    guard isStarted else { return .stopped }
    guard engine != nil, radio.status.state != .waiting else { return .waiting }
    return shortfalls.isEmpty ? .listening : .degraded
  }

  /// What is wrong and what to do, for a person; empty where nothing is.
  public var reason: String {
    guard isStarted else { return "" }
    guard engine != nil else { return "The disk is asked what was notified before." }
    if radio.status.state == .waiting { return radio.status.reason }
    return shortfalls.joined(separator: " ")
  }

  private var shortfalls: [String] {
    let traits = radio.status.traits
    return [deafness ?? traits.deafness, traits.packetShortfall, trouble?.sentence].compactMap { $0 }
  }

  var isListening: Bool {
    listening != nil && radio.status.state != .waiting && radio.status.traits.deafness == nil
  }

  /// Notifications that may still be told today.
  var notificationsLeft: Int { engine?.notificationsLeft(at: scheduler.now, time: time) ?? 0 }

  /// How often each thing happened since the start.
  var tallies: [Tally] {
    (engine?.counters ?? BroadcastEngine.Counters()).tallies + [Tally("LinesLeftOut", told.total)]
  }
}
