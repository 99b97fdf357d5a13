import Bitchat
import BitchatWire
import Common
import Crypto
import Journal
import Loop
import MeshStore
import Radio
import Store

/// The engine of the node with its clock, settings and store. The parts of the service share one node: they pass events
/// to the engine, and get its actions through `onAction`.
@LoopActor
final class MeshNode {
  let radio: any Radio
  let scheduler: any Scheduler
  let clock: any WallClock
  let keeper: NodeStore
  let makeRandom: @LoopActor () -> any RandomSource & Sendable
  /// Notifies of changed properties of the node.
  let changes = Observers<Void>()
  /// Carries out an action of the engine.
  ///
  /// - Returns: a change that is stored together with those of the other actions of an event.
  var onAction: @LoopActor (MeshEngine.Action) -> MeshChange? = { _ in nil }

  /// The engine; nil until the identity of the node is known.
  var engine: MeshEngine?
  /// Whether the node takes part in the mesh, or is about to.
  var isStarted = false
  private(set) var settings: MeshSettings
  /// Nickname set over D-Bus; nil for that of the settings.
  private var chosenNickname: String?
  /// Hashes of the packets that wipes have erased, so that this node does not accept them again; nil without a wipe
  /// in the last day.
  private(set) var erased: ErasedTraces?
  /// Limits the journal entries that peers can cause.
  private var lines: RateLimiter<JournalLine>
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// Kinds of journal entries that peers can cause.
  enum JournalLine: Hashable, Sendable {
    case cut(MeshEngine.CutReason)
    case link
    case proof
    case file
  }

  init(
    radio: any Radio, scheduler: any Scheduler, settings: MeshSettings, keeper: NodeStore, clock: any WallClock,
    random: @escaping @LoopActor () -> any RandomSource & Sendable
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    self.keeper = keeper
    self.clock = clock
    makeRandom = random
    lines = RateLimiter(perMinute: settings.linesPerPeer, capacity: 64)
  }

  // MARK: Time

  var now: Instant { scheduler.now }

  /// Time of this machine's clock, in milliseconds since 1970.
  var time: UInt64 { UInt64(max(0, clock.milliseconds)) }

  // MARK: The engine

  var state: MeshEngine.State { engine?.state ?? .stopped }

  var ownID: PeerID { engine?.identity.id ?? PeerID(rawValue: 0) }

  /// Returns an engine with the stored identity, pinned keys and public messages.
  func makeEngine(from kept: StoredNode) -> MeshEngine {
    chosenNickname = kept.nickname
    erased = kept.erased
    var engine = MeshEngine(identity: kept.identity, configuration: configuration, random: makeRandom())
    engine.erased = erased
    // The pins are in order of the last contact.
    for (place, pin) in kept.pins.enumerated() {
      engine.restorePin(
        of: pin.peer, pin.key, isProven: pin.isProven, at: now.advanced(by: .nanoseconds(place - kept.pins.count)))
    }
    for item in kept.gossip { engine.restore(item) }
    if let key = kept.uplinkKey { engine.restore(uplinkKey: key) }
    return engine
  }

  func handle(_ event: MeshEngine.Event) {
    guard let actions = engine?.handle(event, at: now, time: time) else { return }
    perform(actions)
  }

  /// Performs the actions in order, and sets the timer.
  func perform(_ actions: [MeshEngine.Action]) {
    var changes: [MeshChange] = []
    for action in actions {
      switch action {
      case .keep(.gossip(let item)) where erased?.contains(item.id) == true: break
      case .keep(let keepsake): changes.append(MeshChange(keepsake))
      default: if let change = onAction(action) { changes.append(change) }
      }
    }
    keep(changes, isUrgent: !changes.allSatisfy(\.isGossip))
    timer.set(engine?.nextDeadline())
  }

  /// Configuration of the engine, from the settings and the radio.
  private var configuration: MeshEngine.Configuration {
    var configuration = settings.engine(nickname: nickname)
    configuration.longestWrite = longestWrite
    return configuration
  }

  /// Maximum length of writes, in bytes, that this node announces to its neighbours because its BlueZ loses longer
  /// ones; nil without a limit.
  private var longestWrite: UInt16? {
    let longest = radio.status.traits.longestWrite
    return longest < ATT.valueLimit ? UInt16(longest) : nil
  }

  /// Updates the limit on writes after a change of the radio or its release.
  func updateLongestWrite() {
    guard let engine, engine.configuration.longestWrite != longestWrite else { return }
    self.engine?.configuration.longestWrite = longestWrite
    handle(.timer)
  }

  // MARK: Settings

  /// Applies settings that can change at run time. The role cannot.
  func apply(_ new: MeshSettings) {
    if new.nickname != settings.nickname, chosenNickname != nil {
      Log.shared.notice(
        "Mesh.Nickname has no effect: a nickname that was set over D-Bus takes precedence", .protocolName("bitchat"))
    }
    let role = settings.role
    settings = new
    settings.role = role
    engine?.configuration = configuration
    keeper.settings = settings.kept
    lines.perMinute = settings.linesPerPeer
  }

  var nickname: String { chosenNickname ?? settings.nickname }

  func setNickname(_ nickname: String) {
    chosenNickname = nickname
    engine?.configuration.nickname = nickname
    keep([.nickname(nickname)])
    handle(.timer)
    changed()
  }

  // MARK: The store

  /// Stores changes.
  ///
  /// - Parameters:
  ///   - isUrgent: whether a commit begins at once. Public messages of others wait for the next commit.
  ///   - then: called when the changes are committed to disk, or the store fails.
  func keep(
    _ changes: [MeshChange], isUrgent: Bool = true, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }
  ) {
    guard !changes.isEmpty else { return }
    let stored = settings.role.storesMessages ? changes : changes.filter(\.isOfRelay)
    keeper.keep(stored, isUrgent: isUrgent) { [weak self] error in
      then(error)
      if error != nil { self?.changed() }
    }
  }

  /// Whether a wipe has erased a public packet, or the packet predates the wipe.
  ///
  /// - Parameter isLate: whether the packet was received late. Its own time then decides, even if clocks differ.
  func isErased(_ packet: PacketID, from time: UInt64, isLate: Bool = false) -> Bool {
    guard let erased else { return false }
    return erased.contains(packet) || isLate && erased.predatesWipe(time) || erased.surelyPredatesWipe(time)
  }

  /// Drops the identity, the engine and the nickname for a wipe.
  ///
  /// - Parameter erased: hashes of what this wipe and earlier ones have erased.
  func forgetIdentity(erased: ErasedTraces?) {
    self.erased = erased
    engine = nil
    chosenNickname = nil
  }

  /// Forgets the hashes of erased packets, a day after the last wipe.
  func forgetErased() {
    guard erased?.isOver(at: time) == true else { return }
    erased = nil
    engine?.erased = nil
    keeper.forgetErased()
  }

  // MARK: Reports

  func changed() { changes.call() }

  /// Whether a journal entry may be written now.
  func mayLog(_ line: JournalLine) -> Bool { lines.allow(line, at: now) }

  /// Number of journal entries that were not written because of the limit.
  var linesLeftOut: UInt64 { lines.total }

  /// Whether the radio can be used: it is present, and no other service needs it.
  var isRadioFree: Bool { !radio.isQuietWanted && radio.status.state != .waiting }

  /// Reason why nothing can be sent at present, in a sentence; nil if sending is possible.
  var hindrance: String? {
    switch state {
    case .stopped: keeper.trouble ?? (isStarted ? "The mesh is starting." : "The mesh is stopped.")
    case .waitingForClock: ClockWatch.reason(clock)
    case .alone, .connected: radio.status.state == .waiting ? radio.status.reason : nil
    }
  }

  /// Refusal of a command while nothing can be sent.
  ///
  /// - Parameter otherwise: reason if the node has no hindrance.
  func notReady(_ otherwise: String = "The mesh is not ready.") -> MeshRefusal { .notReady(hindrance ?? otherwise) }
}

extension MeshChange {
  /// Whether a relay stores the change. A relay stores no messages, but erases what it stored in another role.
  fileprivate var isOfRelay: Bool {
    switch self {
    case .pin, .peer, .forget, .nickname, .uplinkKey, .settled, .carriedNoMore, .fileGone, .deleted: true
    case .gossip, .message, .outgoing, .carried, .number, .file: false
    }
  }
}
