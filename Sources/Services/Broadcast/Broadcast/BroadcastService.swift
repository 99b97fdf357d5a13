import Calendar
import Common
import Config
import Crypto
import DBus
import Hosting
import Journal
import Loop
import PBLEC
import Radio
import Store

/// Local broadcast channel of one machine: engine, radio, and persisted record of notifications.
@LoopActor
public final class BroadcastService {
  public internal(set) var settings: Settings
  let radio: any Radio
  let scheduler: any Scheduler
  let clock: any WallClock
  let keeper: NotificationStore
  private let localDay: @LoopActor (Int64) -> CalendarDay
  private let random: @LoopActor () -> any RandomSource & Sendable

  /// The engine; nil until the notifications of earlier runs are loaded, and after the service has stopped.
  var engine: BroadcastEngine?
  var isStarted = false
  /// Whether a program has set the maximum of notifications.
  var isLimitChosen = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  // Radio: BroadcastService+Air.
  var listening: Registration?
  /// Reason why the radio cannot report advertising packets; nil if it can.
  var deafness: String?
  var watches: [Registration] = []
  /// Advertising set for messages, released `Limits.conversation` after the last one.
  var messageSet: (any AdvertisingSet)?
  var airing: Registration?
  /// Advertising set for a beacon.
  var beaconSet: (any AdvertisingSet)?
  var beaconAiring: Registration?

  // Record of notifications: BroadcastService+Asking.
  /// A request that waits until the spent budget of the day's beacon is durable.
  struct Asker {
    let number: Int
    let then: @LoopActor (Refusal?) -> Void
  }

  /// The last request for a beacon, until the record with the spent budget is passed to the store.
  var asker: Asker?
  /// Number of the last request for a beacon, from 1.
  var askings = 0
  /// The beacon that waits until it is stored on the disk, and the number of its request.
  var waitingBeacon: (beacon: NotifyBeacon, asking: Int)?

  /// Error of the last write or read of the record; nil if there was none.
  var trouble: StoreError?
  /// Limits each kind of journal line that strangers can cause to one a minute.
  var told = RateLimiter<Line>(perMinute: 1, capacity: 4)
  /// Value of `BroadcastEngine.Counters.refusedByCaps` at the last journal line about a flood.
  private var refusedBefore: UInt64 = 0

  // Observers: D-Bus adaptor and daemon.
  let changes = Observers<Void>()
  /// Notifies observers of a received message, by its number.
  let arrivals = Observers<UInt64>()
  /// Notifies observers of the outcome of an own message: its number, and the reason why it was not broadcast, or nil.
  let outcomes = Observers<(number: UInt64, error: BroadcastError?)>()
  let notifications = Observers<Void>()
  /// Notifies observers of the outcome of the own beacon: the reason why it was not broadcast for its whole time, or
  /// nil.
  let callOutcomes = Observers<BroadcastError?>()
  private var shown = Shown()

  enum Line: Hashable, Sendable { case flood, notified, unsent }

  /// The values on D-Bus and in the status line. A change of any of them is reported to observers.
  private struct Shown: Hashable {
    var state = State.stopped
    var reason = ""
    var peers = 0
    var limit = 0
    var left = 0
  }

  /// - Parameters:
  ///   - keeper: store of the record of notifications.
  ///   - localDay: returns the local calendar day of a time in milliseconds since 1970.
  ///   - random: creates the source of digits, aliases and beacon numbers.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings, keeper: NotificationStore,
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

  // MARK: Start and stop

  /// Loads the notifications of earlier runs, and then begins to scan.
  ///
  /// - Parameter then: called once, when they are loaded or the service was stopped.
  public func start(then: @escaping @LoopActor () -> Void = {}) {
    guard !isStarted else { return then() }
    isStarted = true
    keeper.open { [weak self] found in
      guard let self, isStarted else { return then() }
      refusedBefore = 0
      // Clients may hold numbers of an earlier run, which are not stored. Numbers from the clock's milliseconds are
      // higher than those.
      engine = BroadcastEngine(
        configuration: settings.engine, ledger: ledger(found), random: random(),
        after: UInt64(max(0, clock.milliseconds)), at: scheduler.now)
      watches = [radio.onStatus { [weak self] _ in self?.radioChanged() }]
      listen()
      Log.shared.notice("Receiving the local broadcast channel", id: .broadcastStarted, .protocolName("pblec"))
      changed()
      then()
    }
    changed()
  }

  private func ledger(_ found: NotificationStore.Found) -> NotificationRecord {
    switch found {
    case .noDirectory, .nothing: return NotificationRecord(limit: settings.notifyLimit)
    case .kept(let kept):
      isLimitChosen = kept.isLimitChosen
      var ledger = kept.ledger
      if !isLimitChosen { ledger.limit = settings.notifyLimit }
      return ledger
    case .damaged(let error, let before):
      trouble = error
      Log.shared.error(
        "Today's notification counts cannot be read and are treated as used up: \(error)", id: .broadcastStoreDegraded,
        .error(error), .protocolName("pblec"))
      isLimitChosen = before?.isLimitChosen ?? false
      let limit = before.flatMap { $0.isLimitChosen ? $0.ledger.limit : nil } ?? settings.notifyLimit
      return .spent(on: time, limit: limit)
    }
  }

  /// Stops broadcasting and scanning. Waiting messages are dropped.
  public func stop() {
    guard isStarted else { return }
    isStarted = false
    handle(.stop)
    engine = nil
    (listening, deafness, watches) = (nil, nil, [])
    timer.set(nil)
    Log.shared.notice("No longer receiving the local broadcast channel", id: .broadcastStopped, .protocolName("pblec"))
    changed()
  }

  /// Applies settings that can change at run time.
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

  /// Time of this machine's clock.
  var time: CalendarTime {
    let milliseconds = clock.milliseconds
    return CalendarTime(milliseconds: milliseconds, day: localDay(milliseconds))
  }

  func handle(_ event: BroadcastEngine.Event) {
    guard let actions = engine?.handle(event, at: scheduler.now) else { return }
    perform(actions)
  }

  /// Handles a received advertising packet.
  func hear(_ packet: AdvertisingPacket) {
    let refused = engine?.counters.refusedByCaps
    let actions = engine?.hear(
      packet.data, from: AdvertiserID(packet), rssi: packet.rssi, at: scheduler.now, time: time)
    // Most packets are copies, which cause no actions.
    if let actions, !actions.isEmpty { perform(actions) }
    if engine?.counters.refusedByCaps != refused { noteFlood() }
  }

  /// Performs the actions in order, and sets the timer.
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
        "A message was not broadcast for its whole time: \(error)", id: .broadcastUnsent, .error(error),
        .protocolName("pblec"))
    }
    outcomes.call((number, error))
  }

  private func notified() {
    if told.allow(.notified, at: scheduler.now) {
      Log.shared.notice("Somebody nearby wants to talk", id: .broadcastNotified, .protocolName("pblec"))
    }
    notifications.call()
  }

  /// Logs dropped reports, at most once a minute.
  private func noteFlood() {
    guard let counters = engine?.counters, told.allow(.flood, at: scheduler.now) else { return }
    let count = counters.refusedByCaps - refusedBefore
    refusedBefore = counters.refusedByCaps
    Log.shared.warning(
      """
      More messages arrive nearby than the limits allow: \(count) scan results were dropped since the last such entry \
      (in all \(counters[.noRoom]) of new peers while the peer table was full, \(counters[.tooManyNew]) of new peers \
      over the rate limit, \(counters[.tooFast]) of peers that send too fast)
      """, id: .broadcastFlooded, .protocolName("pblec"))
  }

  /// Notifies observers if a shown value has changed.
  func changed() {
    let now = Shown(
      state: state, reason: reason, peers: peersNearby, limit: notifyLimit, left: notificationsLeft)
    guard now != shown else { return }
    shown = now
    changes.call()
  }

  // MARK: State

  public enum State: String, Sendable {
    case stopped
    /// The record of notifications is being loaded, or there is no radio.
    case waiting
    /// The channel is received, and messages can be sent.
    case listening
    /// Some functions are missing; `reason` names them.
    case degraded
  }

  public var state: State {
    guard isStarted else { return .stopped }
    guard engine != nil, radio.status.state != .waiting else { return .waiting }
    return shortfalls.isEmpty ? .listening : .degraded
  }

  /// Cause and remedy of a problem, for people; empty if there is none.
  public var reason: String {
    guard isStarted else { return "" }
    guard engine != nil else { return "Reading today's notification counts from the disk." }
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

  /// Number of notifications that may still be reported today.
  var notificationsLeft: Int { engine?.notificationsLeft(at: scheduler.now, time: time) ?? 0 }

  /// Counters since the start.
  var tallies: [Tally] {
    (engine?.counters ?? BroadcastEngine.Counters()).tallies + [Tally("LinesLeftOut", told.total)]
  }
}

extension BroadcastService {
  /// Settings of section `[Broadcast]`.
  public struct Settings: SettingsSection {
    public var enabled = false
    /// Maximum notifications in a day, unless a program has set another number.
    public var notifyLimit = Limits.notifications
    public var followsAddresses = false
    public var degraded = false

    public init() {}

    var engine: BroadcastEngine.Configuration {
      var configuration = BroadcastEngine.Configuration()
      configuration.followsAddresses = followsAddresses
      return configuration
    }
  }
}

extension BroadcastService.Settings {
  public static let section = "Broadcast"

  /// Memory of messages, peers, and reports that wait for the loop: 2 MiB if enabled.
  public var memory: Int { enabled ? 2 << 20 : 0 }

  public static let keys: [Setting<BroadcastService.Settings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether this machine receives the local broadcast channel (PBLEC), and broadcasts messages for programs. All "
        + "messages are in clear, for everybody, and unsigned."),
    Setting(
      "NotifyLimit", \.notifyLimit, .number(0...Limits.mostNotifications), .onReload,
      "How many times a day local programs are notified that somebody nearby wants to talk. 0 is never. A number that "
        + "was set over D-Bus takes precedence."),
    Setting(
      "FollowAddresses", \.followsAddresses, .bool, .onReload,
      "Whether the same message from a new address, within 4s and with a similar signal strength, is treated as one "
        + "message: phones change their addresses now and then, also during a message. Two people who send the same "
        + "text at the same time are then shown once."
    ),
    Setting(
      "Degraded", \.degraded, .bool, .onRestart,
      "Whether to send and receive by bluetoothd if the service has no access to the management socket: names go into "
        + "the scan response, and received messages may be incomplete. The state is then degraded."),
  ]
}

/// Local calendar of this machine.
public enum LocalDay {
  /// Returns the local day of a time.
  ///
  /// - Parameter milliseconds: the time, in milliseconds since 1970.
  public static func day(_ milliseconds: Int64) -> CalendarDay {
    let offset = LocalTime.parts(milliseconds).map { Int64($0.tm_gmtoff) } ?? 0
    return CalendarDay(Int(clamping: (milliseconds / 1000 + offset) / 86_400))
  }
}

extension BroadcastService: Service {
  public nonisolated static let name = "Broadcast"
  public nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  /// The local broadcast channel uses advertisements only, and no links.
  public nonisolated static let linkShare = LinkShare.nothing
  public nonisolated static let messages = Journal.MessageID.broadcast

  public nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool {
    let settings = configuration[Settings.self]
    return settings.enabled && settings.degraded
  }

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let keeper = NotificationStore(directory: "", scheduler: scheduler, disk: scheduler)
    let service = BroadcastService(radio: radio, scheduler: scheduler, settings: Settings(), keeper: keeper)
    return [DescribedObject(BroadcastAdaptor.path.string, BroadcastAdaptor.interface(service))]
  }

  public static func make(_ context: ServiceContext) -> BroadcastService? {
    let settings = context.configuration[Settings.self]
    guard settings.enabled else { return nil }
    let keeper = NotificationStore(
      directory: context.stateDirectory, scheduler: context.scheduler, disk: context.makeWorker())
    let service = BroadcastService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, keeper: keeper)
    service.changes.addForGood { context.statusChanged() }
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    [BroadcastAdaptor(self, on: tree, manager: manager)]
  }

  public func begin() { start() }

  public func apply(_ configuration: Configuration) { apply(configuration[Settings.self]) }

  public var statusLine: String {
    switch state {
    case .stopped: ""
    case .waiting, .degraded: reason
    // Every user can read the status line, so it does not state whether peers are nearby.
    case .listening: "The local broadcast channel receives."
    }
  }

  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    keeper.whenIdle(within: limit, then: then)
  }

  // MARK: For the D-Bus adaptor

  /// Received messages with a number above `number`, oldest first, at most `limit`.
  func messages(after number: UInt64, limit: Int) -> [ReceivedBroadcast] {
    engine?.messages(after: number, limit: limit) ?? []
  }

  var peersNearby: Int { engine?.peersNearby ?? 0 }
  var notifyLimit: Int { engine?.notifyLimit ?? settings.notifyLimit }
}
