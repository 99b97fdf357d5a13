import Bitchat
import Common
import Crypto
import Journal
import Loop
import MeshStore
import Radio
import Store

/// Node of the mesh: an engine, its links at the radio, and persistent data.
@LoopActor
public final class MeshService {
  public internal(set) var settings: MeshSettings
  let radio: any Radio
  let scheduler: any Scheduler
  let clock: any WallClock
  let keeper: MeshKeeper
  let makeRandom: @LoopActor () -> any RandomSource & Sendable

  /// Nil until the identity of the node is known.
  var engine: MeshEngine?
  var isStarted = false
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.handle(.timer) }

  /// Peers with changes that are not stored yet: MeshService+Peers.
  var unkeptNews: Set<PeerID> = []
  lazy var newsTimer = Deadline(scheduler) { [weak self] in self?.keepNews() }
  lazy var troubleTimer = Deadline(scheduler) { [weak self] in self?.dropTroubles() }

  // The clock.
  var clockWatch: Registration?
  lazy var clockTimer = Deadline(scheduler) { [weak self] in self?.lookAtClock() }
  var isClockTrusted = false
  private var wasWaitingForClock = false
  lazy var ageTimer = Deadline(scheduler) { [weak self] in self?.age() }

  // Links: MeshService+Links, MeshService+Finding.
  var ports: [LinkID: MeshPort] = [:] {
    didSet { if ports.count != oldValue.count { use.connect(ports.count, at: scheduler.now) } }
  }
  var server: (any GATTServer)?
  var overheard = OverheardFrames()
  /// Timer while the last packets are sent.
  var leaving: Registration?
  var advertisement: Registration? { didSet { use.advertise(advertisement != nil, at: scheduler.now) } }
  var scan: Registration? { didSet { use.scan(scan != nil, at: scheduler.now) } }
  var watches: [Registration] = []
  var finder = NeighbourFinder()
  var attempt: Attempt?
  /// End of the pause in connecting while another service expects a person.
  var restsUntil = Instant.zero
  lazy var findTimer = Deadline(scheduler) { [weak self] in self?.find() }
  /// Addresses that get no link, with the end of the ban.
  var refused: [BluetoothAddress: Instant] = [:]

  // Radio usage.
  var use = RadioUse()
  var duty = ScanDuty()
  lazy var dutyTimer = Deadline(scheduler) { [weak self] in self?.listen() }

  // Messages and peers: MeshService+Messages, MeshService+Peers.
  var log = MessageLog()
  /// Messages that are not stored yet, by number, and favourite notices.
  var unkept: [UInt32: MessageLog.Received] = [:]
  var unkeptNotices: [PeerID: [Bitchat.MessageID]] = [:]
  var marks: [PeerID: PeerMarks] = [:]
  /// Reasons why things from peers are rejected.
  var troubles = PeerTroubles()
  /// Limits how many peers per minute are newly stored because of public messages: MeshService+Names.
  var writersNoted = RateLimiter<Bool>(perMinute: MeshService.writersPerMinute, capacity: 1)
  /// Limits the reported renames per peer: MeshService+Names.
  var renamesTold = RateLimiter<PeerID>(perMinute: MeshService.renamesPerMinute, capacity: 256)
  /// Results of requested proofs: MeshService+Proofs.
  var proofs = ProofBoard()
  /// Hashes of what wipes have erased; nil without a wipe in the last day.
  var erased: ErasedTraces?
  /// Whether a wipe has failed, and nothing was stored or read since.
  private var isWipeOwed = false
  /// Nickname set over D-Bus; nil for that of the settings.
  var chosenNickname: String?
  var dropped: [PacketClass: UInt64] = [:]
  /// Number of frames accepted by the radio.
  var sent: UInt64 = 0
  /// Number of frames that a link rejected: its peer is gone, or never subscribed.
  var unreachable: UInt64 = 0
  var told: RateLimiter<Line>

  // Observers: the D-Bus adaptors, and the host.
  let changes = Observers<Void>()
  /// Called in order when all links have ended; a wipe continues then.
  var whenLeft: [@LoopActor () -> Void] = []
  /// Called when the persistent data is loaded.
  var whenRestored: (@LoopActor () -> Void)?
  var restoreTimer: Registration?
  let peerChanges = Observers<PeerID>()
  /// Notifies of new nicknames of favourite and verified peers.
  let renames = Observers<(peer: PeerID, before: String, now: String)>()
  let arrivals = Observers<UInt32>()
  let progress = Observers<(number: UInt32, state: MeshMessage.State)>()

  // Files and pings: MeshService+Files.
  var files = FileLog()
  /// Received files that are not stored yet.
  var intake = FileIntake()
  /// Numbers of incoming files.
  var fileArrivalNumbers = FileArrivals()
  lazy var intakeTimer = Deadline(scheduler) { [weak self] in self?.keepWaitingFiles() }
  var pings: [UInt32: @LoopActor (Pong) -> Void] = [:]
  var lastPing: UInt32 = 0
  /// Notifies of added, changed and removed files.
  let fileChanges = Observers<UInt32>()
  let fileArrivals = Observers<UInt32>()
  let fileProgress = Observers<(number: UInt32, state: String)>()

  /// Kinds of journal lines that peers can cause.
  enum Line: Hashable, Sendable {
    case cut(MeshEngine.CutReason)
    case link
    case proof
    case file
  }

  /// - Parameters:
  ///   - keeper: persistent store.
  ///   - random: makes random sources for keys and nonces.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: MeshSettings, keeper: MeshKeeper,
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

  // MARK: Start and stop

  /// Loads the identity of the node, and joins the mesh.
  ///
  /// - Parameter then: called once, when the persistent data is loaded.
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
        // A node with another identity is useless to its peers, and the key may be restored.
        Log.shared.error("The mesh cannot start: \(error)", id: .meshLocked, .error(error), .protocolName("bitchat"))
        changed()
        return then()
      case .failure(let error):
        Log.shared.error(
          "The mesh stores nothing on disk: \(error)", id: .meshStoreDegraded, .error(error), .protocolName("bitchat"))
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

  /// Configuration of the engine, from the settings and the radio.
  private var engineConfiguration: MeshEngine.Configuration {
    var configuration = settings.engine(nickname: nickname)
    configuration.longestWrite = longestWrite
    return configuration
  }

  /// Longest write, in bytes, that is announced to neighbours, because longer ones are lost here; nil without a limit.
  private var longestWrite: UInt16? {
    let longest = radio.status.traits.longestWrite
    return longest < ATT.valueLimit ? UInt16(longest) : nil
  }

  /// Updates the limit on writes after a change of the radio or its release.
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
    // The pins are in order of the last contact.
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

  /// Joins the mesh.
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
      "Joined the mesh as \(PrintableText.clean(nickname))", id: .meshStarted, .protocolName("bitchat"))
    changed()
  }

  /// Sends a leave and leaves the mesh.
  public func stop() {
    guard isStarted else { return }
    isStarted = false
    handle(.stop)
    for number in fileArrivalNumbers.endAll() { removeFile(number) }
    leaveLinks()
    clockWatch = nil
    clockTimer.set(nil)
    ageTimer.set(nil)
    Log.shared.notice("Left the mesh", id: .meshStopped, .protocolName("bitchat"))
    changed()
  }

  /// Erases all persistent data, leaves the mesh, and begins with a new identity.
  ///
  /// - Parameter then: called when nothing is left on the disk, or with the error that prevents it.
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

  /// Data that survives a wipe. Neighbours still send the erased packets, which must not come back.
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
        "The mesh's identity and messages cannot be erased: \(error)", id: .meshStoreDegraded, .error(error),
        .protocolName("bitchat"))
      isWipeOwed = true
      changed()
      then(error)
    }
  }

  /// Applies settings that can change at run time.
  public func apply(_ settings: MeshSettings) {
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

  /// Performs the actions in order, and sets the timer.
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
    // Peers that received nothing from this node have made no link, and may now.
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

  /// Handles a changed state of the store. After a recovery, senders get the receipts that are due.
  private func keeperChanged() {
    if keeper.trouble == nil, !unkept.isEmpty || !unkeptNotices.isEmpty {
      scheduler.soon { [weak self] in self?.acknowledgeUnkept() }
    }
    changed()
  }

  // MARK: For the host

  public var state: MeshEngine.State { engine?.state ?? .stopped }

  /// Problem or advice for people; empty if there is none.
  public var reason: String {
    if isWipeOwed { return "\(keeper.trouble.map { "\($0) " } ?? "")\(Self.owedWipe)" }
    return keeper.trouble ?? hindrance ?? advice
  }

  private static let owedWipe =
    "The mesh store is not completely erased. To try again: earshot mesh wipe. The mesh is stopped until then."

  /// Reason why nothing can be sent now, in a sentence; nil if sending is possible.
  var hindrance: String? {
    switch state {
    case .stopped: keeper.trouble ?? (isStarted ? "The mesh is starting." : "The mesh is stopped.")
    case .waitingForClock: clockReason
    case .alone, .connected: radio.status.state == .waiting ? radio.status.reason : nil
    }
  }

  /// Word that confirms a wipe; nil if there is nothing to wipe.
  var wipeWord: String? {
    engine?.identity.id.description ?? (isWipeOwed || keeper.error?.reason == .keyMissing ? "unknown" : nil)
  }

  /// Number of envelopes carried for others.
  public var carried: Int { engine?.carried ?? 0 }

  /// Limits of the radio for the mesh, and facts about privacy.
  private var advice: String {
    let traits = radio.status.traits
    let lost =
      traits.longestWrite < ATT.valueLimit
      ? [
        "Private texts of 166 bytes and more, and private files, from iPhones that connect to this node are lost, "
          + "because this machine's BlueZ loses writes of 511 and 512 bytes. BlueZ of Debian 13 loses none."
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
        "Packets for one neighbour that has connected to this node also reach the others that have, because this "
          + "machine's BlueZ notifies all of them at once. From BlueZ 5.76 on, each is notified separately."
      ]
    let troubles = troubles.summary(at: scheduler.now).map { [$0] } ?? []
    return (troubles + hidden + lost + overheard + traits.disclosures).joined(separator: " ")
  }

  public var nickname: String { chosenNickname ?? settings.nickname }

  /// Number of neighbours.
  public var neighbours: Int { engine?.neighbours.count ?? 0 }
}

extension MeshService {
  /// Counters since the start.
  var tallies: [Tally] {
    let lost = dropped.reduce(0) { $0 + $1.value }
    return (engine?.counters.tallies ?? []) + (engine?.noiseTallies ?? []) + use.tallies(at: scheduler.now) + [
      Tally("SentFrames", sent), Tally("DroppedFrames", lost), Tally("UnreachableFrames", unreachable),
      Tally("LinesLeftOut", told.total), Tally("TooManyFiles", intake.refused), Tally("FilesNotKept", intake.lost),
    ]
  }
}

/// Power settings: on mains the node scans continuously, on battery a fifteenth of the time.
extension MeshService {
  /// Whether to scan now. On battery, schedules the next check.
  func isScanDue() -> Bool {
    guard settings.power == .battery else {
      dutyTimer.set(nil)
      return true
    }
    let duty = self.duty.look(at: scheduler.now)
    dutyTimer.set(duty.next)
    return duty.isListening
  }

  /// Records a sent packet. A message may begin a conversation, so a node on battery scans. Announces and sync do not
  /// have this effect.
  func note(sent bytes: [UInt8], _ kind: PacketClass) {
    guard settings.power == .battery, kind != .announce, kind != .syncAnswer,
      bytes.count > 1, bytes[1] != MessageType.requestSync.rawValue
    else { return }
    noteTraffic()
  }

  /// Records traffic, and scans if the node is on battery.
  func noteTraffic() {
    guard settings.power == .battery else { return }
    duty.traffic(at: scheduler.now)
    if scan == nil { listen() }
  }

  /// Applies a changed power source.
  func powerChanged(from old: MeshSettings.Power) {
    guard settings.power != old, isStarted, engine != nil, server != nil else { return }
    duty = ScanDuty()
    advertise()
    listen()
  }
}

/// Time of day. Phones drop packets that deviate by two minutes, so the node sends none before the clock is known to be
/// right. Facts: bitchat.md section 16.
extension MeshService {
  /// 2026-01-01, in milliseconds since 1970: earlier clocks are wrong.
  private static let earliest: Int64 = 1_767_225_600_000
  /// Interval between checks for a time service, until there is one.
  private static let pause = Duration.seconds(10)

  /// Interval between removals of expired items.
  private static let ageing = Duration.seconds(600)

  func watchClock() {
    clockWatch = clock.onSet { [weak self] in
      self?.handle(.clockSet)
      self?.lookAtClock()
    }
    lookAtClock()
  }

  func lookAtClock() {
    guard isStarted, engine != nil else { return }
    let isTrusted = clock.milliseconds >= Self.earliest && (settings.trustsClock || clock.isSynchronised)
    clockTimer.set(isTrusted ? nil : scheduler.now.advanced(by: Self.pause))
    guard isTrusted != isClockTrusted || state == .stopped else { return }
    isClockTrusted = isTrusted
    handle(.clock(isTrusted: isTrusted))
    age()
  }

  /// Removes expired items from the store. Nothing expires while the clock may be wrong.
  func age() {
    guard isStarted, isClockTrusted else { return ageTimer.set(nil) }
    keeper.age(at: time)
    if erased?.isOver(at: time) == true {
      erased = nil
      engine?.erased = nil
      keeper.forgetErased()
    }
    ageTimer.set(scheduler.now.advanced(by: Self.ageing))
  }

  var clockReason: String {
    clock.milliseconds < Self.earliest
      ? "This machine's clock shows a time before 2026, so phones would drop the node's packets. Set the clock."
      : "This machine's clock is not known to be right: no time service has set it, and no two neighbours' clocks "
        + "agree with it. Start a time service (systemd-timesyncd), or set TrustClock=yes in [Mesh]."
  }
}

extension MeshService {
  /// Result of a ping.
  enum Pong: Sendable {
    case answered(milliseconds: UInt32, hops: Int)
    case lost
  }

  /// Pings a peer.
  ///
  /// - Parameters:
  ///   - name: name of the peer for ``MeshNameBook/peer(_:)``.
  ///   - then: called once, within 10 s.
  func ping(_ name: String, then: @escaping @LoopActor (Pong) -> Void) throws(MeshRefusal) {
    let peer = try peer(called: name)
    lastPing &+= 1
    let number = lastPing
    let actions: [MeshEngine.Action]
    do throws(MeshEngine.PingError) {
      actions = try engine?.ping(peer, as: number, at: scheduler.now, time: time) ?? []
    } catch {
      switch error {
      case .notReady: throw .notReady(hindrance ?? "No peer is in range.")
      case .ourselves: throw .ourselves
      case .tooMany: throw .tooManyPings
      }
    }
    guard engine != nil else { throw .notReady(hindrance ?? "The mesh is not ready.") }
    pings[number] = then
    perform(actions)
  }

  func pinged(_ number: UInt32, _ pong: Pong) { pings.removeValue(forKey: number)?(pong) }
}
