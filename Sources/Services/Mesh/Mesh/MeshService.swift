import Bitchat
import Common
import Crypto
import Journal
import Loop
import MeshStore
import Radio
import Store

/// A node of the mesh: an engine, the links that a radio has for it, and what is kept for the next run.
@LoopActor
public final class MeshService {
  public internal(set) var settings: Settings
  let radio: any Radio
  let scheduler: any Scheduler
  let clock: any WallClock
  let keeper: MeshKeeper
  let makeRandom: @LoopActor () -> any RandomSource & Sendable

  /// Nil until it is known who the node is.
  var engine: MeshEngine?
  var isStarted = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// Peers whose news the disk has not got yet: MeshService+Peers.
  var unkeptNews: Set<PeerID> = []
  lazy var newsTimer = Deadline(scheduler) { [weak self] in self?.keepNews() }

  // The clock: MeshService+Clock.
  var clockWatch: Registration?
  lazy var clockTimer = Deadline(scheduler) { [weak self] in self?.lookAtClock() }
  var isClockTrusted = false
  private var wasWaitingForClock = false
  lazy var ageTimer = Deadline(scheduler) { [weak self] in self?.age() }

  // Links: MeshService+Links, MeshService+Serving, MeshService+Finding.
  var ports: [LinkID: MeshPort] = [:] {
    didSet { if ports.count != oldValue.count { use.connect(ports.count, at: scheduler.now) } }
  }
  var server: (any GATTServer)?
  var overheard = OverheardFrames()
  /// While the last words go out.
  var leaving: Registration?
  var advertisement: Registration? { didSet { use.advertise(advertisement != nil, at: scheduler.now) } }
  var scan: Registration? { didSet { use.scan(scan != nil, at: scheduler.now) } }
  var watches: [Registration] = []
  var finder = NeighbourFinder()
  var attempt: Attempt?
  /// While another service awaits a person, the mesh connects to nobody before this.
  var restsUntil = Instant.zero
  lazy var findTimer = Deadline(scheduler) { [weak self] in self?.find() }
  /// Addresses that get no link for a while, with the time.
  var refused: [BluetoothAddress: Instant] = [:]

  // What the radio is asked for: MeshService+Power.
  var use = RadioUse()
  var duty = ScanDuty()
  lazy var dutyTimer = Deadline(scheduler) { [weak self] in self?.listen() }

  // Messages and peers: MeshService+Messages, MeshService+Peers.
  var log = MessageLog()
  /// Messages that the disk has not taken yet, by their numbers, and notices of favour.
  var unkept: [UInt32: MessageLog.Received] = [:]
  var unkeptNotices: [PeerID: [Bitchat.MessageID]] = [:]
  var marks: [PeerID: PeerMarks] = [:]
  /// Why things of peers are not taken.
  var troubles = PeerTroubles()
  /// Limits how many peers are newly stored because they sent something to everybody: MeshService+Contacts.
  var writersNoted = RateLimiter<Bool>(perMinute: MeshService.writersPerMinute, capacity: 1)
  /// Limits how many renames of a peer are reported: MeshService+Names.
  var renamesTold = RateLimiter<PeerID>(perMinute: MeshService.renamesPerMinute, capacity: 256)
  /// What became of proofs that peers were asked for: MeshService+Proofs.
  var proofs = ProofBoard()
  /// Traces of what wipes have erased; nil without a wipe in the last day.
  var erased: ErasedTraces?
  /// Whether the disk has refused a wipe, and nothing was kept or read since.
  private var isWipeOwed = false
  /// The nickname that was set over the bus; nil for that of the settings.
  var chosenNickname: String?
  var dropped: [PacketClass: UInt64] = [:]
  /// Frames that the radio has taken.
  var sent: UInt64 = 0
  /// Frames that a link did not take: its peer is gone, or never subscribed.
  var unreachable: UInt64 = 0
  var told: RateLimiter<Line>

  // Observers: the faces, and the house.
  let changes = Observers<Void>()
  /// Called once the links are left, in this order: a wipe goes on then.
  var whenLeft: [@LoopActor () -> Void] = []
  /// Called when it is known what an earlier run kept.
  var whenRestored: (@LoopActor () -> Void)?
  var restoreTimer: Registration?
  let peerChanges = Observers<PeerID>()
  /// A favourite or verified peer has another nickname.
  let renames = Observers<(peer: PeerID, before: String, now: String)>()
  let arrivals = Observers<UInt32>()
  let progress = Observers<(number: UInt32, state: MeshMessage.State)>()

  // Files and pings: MeshService+Files, MeshService+Ping.
  var files = FileLog()
  /// Files that came and that the disk does not have yet.
  var intake = FileIntake()
  /// The numbers of files that are arriving.
  var fileArrivalNumbers = FileArrivals()
  lazy var intakeTimer = Deadline(scheduler) { [weak self] in self?.keepWaitingFiles() }
  var pings: [UInt32: @LoopActor (Pong) -> Void] = [:]
  var lastPing: UInt32 = 0
  /// A file is there, or no longer.
  let fileChanges = Observers<UInt32>()
  let fileArrivals = Observers<UInt32>()
  let fileProgress = Observers<(number: UInt32, state: String)>()

  /// Kinds of lines in the journal that peers can bring about.
  enum Line: Hashable, Sendable {
    case cut(MeshEngine.CutReason)
    case link
    case proof
    case file
  }

  /// - Parameters:
  ///   - keeper: what outlives the run.
  ///   - random: makes the sources of keys and nonces.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: Settings, keeper: MeshKeeper,
    clock: any WallClock = SystemWallClock(),
    random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() }
  ) {
    self.radio = radio
    self.scheduler = scheduler
    self.settings = settings
    self.keeper = keeper
    self.clock = clock
    makeRandom = random
    told = RateLimiter(perMinute: settings.linesPerPeer, capacity: 64)
    radio.onLinkWanted { [weak self] in self?.giveUp($0) }
    keeper.onChange = { [weak self] in self?.keeperChanged() }
    keeper.onRemoved = { [weak self] in self?.removed($0) }
    keeper.onFilesRemoved = { [weak self] in self?.filesGone($0) }
  }

  // MARK: Beginning and end

  /// Finds out who the node is, and takes part in the mesh from then on.
  ///
  /// - Parameter then: called once, when it is known what an earlier run kept.
  public func start(then: @escaping @LoopActor () -> Void = {}) {
    guard !isStarted else { return then() }
    isStarted = true
    keeper.open { [weak self] found in
      guard let self, isStarted else { return then() }
      switch found {
      case .success(let kept):
        restore(kept)
        if let warning = kept.warning {
          Log.shared.warning("\(warning)", id: .meshStoreDegraded, .protocolName("bitchat"))
        }
      case .failure(let error) where error.reason == .keyMissing:
        // As somebody else it would be of no use to those who know it, and what it is may come back with the key.
        Log.shared.error("The mesh does not start: \(error)", id: .meshLocked, .error(error), .protocolName("bitchat"))
        changed()
        return then()
      case .failure(let error):
        Log.shared.error(
          "The mesh keeps nothing: \(error)", id: .meshStoreDegraded, .error(error), .protocolName("bitchat"))
        restore(newIdentity())
      }
      join()
      then()
    }
  }

  private func newIdentity() -> KeptMesh {
    var random = makeRandom()
    return KeptMesh(identity: MeshEngine.Identity(randomFrom: &random))
  }

  /// What governs the engine, by the settings and the radio.
  private var engineConfiguration: MeshEngine.Configuration {
    var configuration = settings.engine(nickname: nickname)
    configuration.longestWrite = longestWrite
    return configuration
  }

  /// What neighbours are told, lest they write what is lost here.
  private var longestWrite: UInt16? {
    let longest = radio.status.traits.longestWrite
    return longest < ATT.valueLimit ? UInt16(longest) : nil
  }

  /// The radio may be another one, or another release.
  func lookAtWrites() {
    guard let engine, engine.configuration.longestWrite != longestWrite else { return }
    self.engine?.configuration.longestWrite = longestWrite
    handle(.timer)
  }

  private func restore(_ kept: KeptMesh) {
    isWipeOwed = false
    chosenNickname = kept.nickname
    erased = kept.erased
    var engine = MeshEngine(
      identity: kept.identity, configuration: engineConfiguration, random: makeRandom())
    let (now, time) = (scheduler.now, time)
    engine.erased = erased
    // They come in the order in which they were met last.
    for (place, pin) in kept.pins.enumerated() {
      engine.restorePin(
        of: pin.peer, pin.key, isProven: pin.isProven, at: now.advanced(by: .nanoseconds(place - kept.pins.count)))
    }
    for item in kept.gossip { engine.restore(item) }
    for marks in kept.peers where marks.isMarked {
      // Earlier releases did not store the name that a peer had when it was verified.
      var marks = marks
      if marks.isVerified, marks.verifiedName.isEmpty { marks.verifiedName = marks.nickname }
      marks.holdName()
      self.marks[marks.peer] = marks
      if let key = marks.noiseKey { engine.restoreNoiseKey(of: marks.peer, key) }
      engine.restore(favourite: marks.peer, marks.isFavourite, isNoticed: !marks.isNoticeOwed, at: now)
      if marks.isBlocked { _ = engine.handle(.block(marks.peer, true), at: now, time: time) }
      if marks.isVerified { _ = engine.handle(.verified(marks.peer, true), at: now, time: time) }
      if marks.isFavouriteOfPeer { engine.favour(by: marks.peer, true) }
    }
    log.restore(kept.messages, highest: kept.highestNumber)
    for file in kept.files { files.add(file) }
    for file in kept.deletedFiles { files.note(file) }
    for message in kept.messages where message.state == .delivered && !message.messageIDs.isEmpty {
      guard let peer = message.conversation else { continue }
      engine.restore(delivered: message.number, message.messageIDs, to: peer, createdAt: message.time, at: now)
    }
    for message in kept.messages where message.conversation != nil && message.origin != nil {
      for id in message.messageIDs {
        engine.restoreReceived(id, from: message.sender, at: now)
        if message.isReceiptOwed { engine.restoreReceipt(for: id, to: message.sender, at: now) }
      }
    }
    for message in kept.outgoing { _ = try? engine.restore(message, at: now, time: time) }
    let superfluous = kept.carried.filter { !engine.restore($0) }
    self.engine = engine
    finder.own = engine.identity.id
    keep(superfluous.map { .carriedNoMore($0.id) })
  }

  /// Begins to be a neighbour.
  private func join() {
    watchClock()
    handle(.start)
    server = radio.serve(BitchatGATT.application, delegate: self)
    advertise()
    watches = [
      radio.onStatus { [weak self] in self?.radioChanged($0) },
      radio.onQuiet { [weak self] _ in self?.quietChanged() },
    ]
    quietChanged()
    Log.shared.notice(
      "Part of the mesh as \(PrintableText.clean(nickname))", id: .meshStarted, .protocolName("bitchat"))
    changed()
  }

  /// Says that it leaves, and leaves.
  public func stop() {
    guard isStarted else { return }
    isStarted = false
    handle(.stop)
    for number in fileArrivalNumbers.endAll() { removeFile(number) }
    leaveLinks()
    clockWatch = nil
    clockTimer.set(nil)
    ageTimer.set(nil)
    Log.shared.notice("No longer part of the mesh", id: .meshStopped, .protocolName("bitchat"))
    changed()
  }

  /// Destroys all that is kept, leaves the mesh, and begins with a new identity.
  ///
  /// - Parameter then: called when nothing of it is left on the disk, or with what keeps it there.
  public func wipe(then: @escaping @LoopActor ((any CodedError)?) -> Void) {
    handle(.stop)
    let survivors = survivors()
    erased = survivors.erased
    engine = nil
    (log, marks, unkept, unkeptNotices) = (MessageLog(after: survivors.highestNumber), [:], [:], [:])
    chosenNickname = nil
    (finder, refused, proofs, troubles) = (NeighbourFinder(), [:], ProofBoard(), PeerTroubles())
    (files, intake, fileArrivalNumbers) = (FileLog(), FileIntake(), FileArrivals())
    intakeTimer.set(nil)
    changed()
    leaveLinks { [weak self] in
      self?.keeper.wipe(keeping: survivors) { [weak self] in self?.wiped($0, then) }
    }
  }

  /// What outlives a wipe. Neighbours go on giving what is erased now, and must not bring it back.
  private func survivors() -> WipeSurvivors {
    var random = makeRandom()
    var traces = erased ?? ErasedTraces(randomFrom: &random)
    let listed = log.messages.compactMap(\.packet) + files.packets
    traces.add((engine?.publicPackets ?? []) + listed, own: engine?.identity.id, at: time)
    return WipeSurvivors(highestNumber: log.nextNumber &- 1, erased: traces)
  }

  private func wiped(
    _ result: Result<MeshKeeper.Wiped, StoreError>, _ then: @LoopActor ((any CodedError)?) -> Void
  ) {
    switch result {
    case .success(let wiped):
      isWipeOwed = false
      Log.shared.notice("The mesh's identity and messages are erased", id: .meshWiped, .protocolName("bitchat"))
      if let advice = wiped.advice {
        Log.shared.warning("\(advice)", id: .meshStoreDegraded, .protocolName("bitchat"))
      }
      if isStarted {
        restore(wiped.kept)
        join()
      }
      then(nil)
    case .failure(let error):
      Log.shared.error(
        "The mesh cannot be erased: \(error)", id: .meshStoreDegraded, .error(error), .protocolName("bitchat"))
      isWipeOwed = true
      changed()
      then(error)
    }
  }

  /// Takes on what can change while it runs.
  public func apply(_ settings: Settings) {
    var settings = settings
    settings.role = self.settings.role
    let power = self.settings.power
    if settings.nickname != self.settings.nickname, chosenNickname != nil {
      Log.shared.notice(
        "Mesh.Nickname has no effect: a nickname that was set over D-Bus takes precedence", .protocolName("bitchat"))
    }
    self.settings = settings
    engine?.configuration = engineConfiguration
    keeper.settings = settings.kept
    told.perMinute = settings.linesPerPeer
    lookAtClock()
    handle(.timer)
    powerChanged(from: power)
    changed()
  }

  // MARK: The engine

  /// Milliseconds since 1970, by this machine's clock.
  var time: UInt64 { UInt64(max(0, clock.milliseconds)) }

  func handle(_ event: MeshEngine.Event) {
    guard let actions = engine?.handle(event, at: scheduler.now, time: time) else { return }
    perform(actions)
  }

  /// Carries the actions out, in order, and sets the timer.
  func perform(_ actions: [MeshEngine.Action]) {
    var changes: [MeshChange] = []
    for action in actions {
      switch action {
      case .send(let bytes, let link, let kind): send(bytes, on: link, kind)
      case .cut(let link, let reason): cut(link, reason)
      case .bound(let link, let peer): bound(link, peer)
      case .peer(let peer): met(peer)
      case .gone(let peer): gone(peer)
      case .heard(let message):
        noteTraffic()
        heard(message)
      case .told(let message, let peer, let time):
        noteTraffic()
        told(message, from: peer, at: time)
      case .toldAgain(let id, let peer): toldAgain(id, from: peer)
      case .favourited(let peer, let notice, let id): favourited(peer, notice, id)
      case .file(let file): received(file)
      case .arriving(let file): arriving(file)
      case .arrivalEnded(let id): arrivalEnded(id)
      case .fileState(let number, let state): fileBecame(state, number)
      case .fileProgress(let number, let percent):
        files.note(percent: percent, of: number)
        fileChanges.call(number)
      case .withdraw(let packets): withdraw(packets)
      case .pong(let number, let milliseconds, let hops):
        pinged(number, .answered(milliseconds: milliseconds, hops: hops))
      case .pingLost(let number): pinged(number, .lost)
      case .progress(let number, let state): progressed(number, state)
      case .dated(let number, let time): if let message = log.date(number, time) { keep([.message(message)]) }
      case .proof(let peer, let outcome): proved(peer, outcome)
      case .trouble(let peer, let nickname, let trouble): note(.engine(trouble), of: peer, nickname: nickname)
      case .noticeSettled(let peer): noticeSettled(peer)
      case .receiptSettled(let id, let peer):
        if let message = log.settleReceipt(for: id, from: peer) { changes.append(.message(message)) }
      case .session(let peer): peerChanges.call(peer)
      case .keep(.gossip(let item)) where erased?.contains(item.id) == true: break
      case .keep(let keepsake): changes.append(MeshChange(keepsake))
      case .state(let state): entered(state)
      }
    }
    keep(changes, isUrgent: !changes.allSatisfy(\.isGossip))
    timer.set(engine?.nextDeadline())
  }

  private func entered(_ state: MeshEngine.State) {
    // Those that heard nothing from this node have made no link, and may now.
    if wasWaitingForClock, state != .waitingForClock {
      finder.forgive()
      find()
    }
    wasWaitingForClock = state == .waitingForClock
    if state == .waitingForClock, isStarted {
      Log.shared.warning("\(clockReason)", id: .meshClock, .protocolName("bitchat"))
    }
    changed()
  }

  func changed() { changes.call() }

  /// The disk is in trouble, or no longer: then it has what senders were not told of.
  private func keeperChanged() {
    if keeper.trouble == nil, !unkept.isEmpty || !unkeptNotices.isEmpty {
      scheduler.soon { [weak self] in self?.acknowledgeUnkept() }
    }
    changed()
  }

  // MARK: For the house

  public var state: MeshEngine.State { engine?.state ?? .stopped }

  /// What is wrong, or what this machine gives away, and what to do, for a person; empty where nothing is.
  public var reason: String {
    if isWipeOwed { return "\(keeper.trouble.map { "\($0) " } ?? "")\(Self.owedWipe)" }
    return keeper.trouble ?? hindrance ?? advice
  }

  private static let owedWipe =
    "Not all of what the mesh has kept is erased. To try it again: earshot mesh wipe. The node is off the air until then."

  /// Why nothing can be said now, in a sentence; nil where nothing is in the way.
  var hindrance: String? {
    switch state {
    case .stopped: keeper.trouble ?? (isStarted ? "The mesh is starting." : "The mesh is stopped.")
    case .waitingForClock: clockReason
    case .alone, .connected: radio.status.state == .waiting ? radio.status.reason : nil
    }
  }

  /// What confirms a wipe; nil where there is nothing to wipe yet.
  var wipeWord: String? {
    engine?.identity.id.description ?? (isWipeOwed || keeper.error?.reason == .keyMissing ? "unknown" : nil)
  }

  /// How many envelopes it carries for others.
  public var carried: Int { engine?.carried ?? 0 }

  /// What the radio costs the mesh, and what the machine tells about itself.
  private var advice: String {
    let traits = radio.status.traits
    let lost =
      traits.longestWrite < ATT.valueLimit
      ? [
        "Private texts of 166 bytes and more, and private files, from iPhones that connect to this node are lost here, for this "
          + "machine's BlueZ loses writes of 511 and 512 bytes: Debian 13 has none of this."
      ] : []
    let hidden =
      traits.advertisesAll
      ? []
      : [
        "The adapter has too few advertising slots: this node takes turns with other services, and"
          + " neighbours may find it late."
      ]
    let overheard =
      traits.keepsClientsApart
      ? []
      : [
        "What goes to one neighbour that has connected to this node is heard by the others that have, for this machine's BlueZ has "
          + "one way for all of them; from BlueZ 5.76 on each has its own."
      ]
    let troubles = troubles.summary(at: scheduler.now).map { [$0] } ?? []
    return (troubles + hidden + lost + overheard + traits.disclosures).joined(separator: " ")
  }

  var isRelay: Bool { settings.role == .relay }

  public var nickname: String { chosenNickname ?? settings.nickname }

  /// The peers that it has links with.
  public var neighbours: Int { engine?.neighbours.count ?? 0 }
}
