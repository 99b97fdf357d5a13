import Bitchat
import BitchatWire
import Common
import Crypto
import DBus
import Hosting
import Journal
import Loop
import MeshStore
import Radio
import Store

/// Node of the mesh: wires the engine, the store and the radio to the parts that own links, peers, messages and files.
@LoopActor
public final class MeshService {
  let node: MeshNode
  let peers: MeshPeers
  let pings: MeshPings
  let links: MeshLinks
  let messages: MeshMessages
  let files: SharedFiles
  let uplink: MeshUplink
  let clockWatch: ClockWatch
  /// Whether the last wipe has failed, and no data was stored or read since.
  private var isWipeOwed = false
  /// Called when the persistent data is loaded.
  private var whenRestored: (@LoopActor () -> Void)?
  private var restoreTimer: Registration?
  /// The connection to the bus of the program that carries packets outside of the mesh; nil without D-Bus.
  private weak var bus: BusConnection?

  /// - Parameters:
  ///   - keeper: the persistent store.
  ///   - random: makes random sources for keys and nonces.
  public init(
    radio: any Radio, scheduler: any Scheduler, settings: MeshSettings, keeper: NodeStore,
    clock: any WallClock = SystemWallClock(),
    random: @escaping @LoopActor () -> any RandomSource & Sendable = { SystemRandom() }
  ) {
    node = MeshNode(
      radio: radio, scheduler: scheduler, settings: settings, keeper: keeper, clock: clock, random: random)
    peers = MeshPeers(node)
    pings = MeshPings(node, peers)
    links = MeshLinks(node, peers)
    messages = MeshMessages(node, peers, links)
    files = SharedFiles(node, peers, messages)
    uplink = MeshUplink(node, peers, messages)
    clockWatch = ClockWatch(node)
    node.onAction = { [weak self] in self?.carryOut($0) }
    keeper.onChange = { [weak self] in self?.keeperChanged() }
    keeper.onRemoved = { [weak self] in self?.messages.removed($0) }
    keeper.onFilesRemoved = { [weak self] in self?.files.removed($0) }
  }

  // MARK: Start and stop

  /// Loads the identity of the node, and joins the mesh.
  ///
  /// - Parameter then: called once, when the persistent data is loaded.
  public func start(then: @escaping @LoopActor () -> Void = {}) {
    guard !node.isStarted else { return then() }
    node.isStarted = true
    node.keeper.open { [weak self] found in
      guard let self, node.isStarted else { return then() }
      switch found {
      case .success(let kept):
        restore(kept)
        if let warning = kept.warning {
          Log.shared.warning("\(warning)", id: .meshStoreDegraded, .protocolName("bitchat"))
        }
      case .failure(let error) where error.reason == .keyMissing:
        // A node with another identity is useless to its peers, and the key may be restored.
        Log.shared.error("The mesh cannot start: \(error)", id: .meshLocked, .error(error), .protocolName("bitchat"))
        node.changed()
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

  private func newIdentity() -> StoredNode {
    var random = node.makeRandom()
    return StoredNode(identity: MeshEngine.Identity(randomFrom: &random))
  }

  private func restore(_ kept: StoredNode) {
    isWipeOwed = false
    var engine = node.makeEngine(from: kept)
    peers.restore(kept.peers, in: &engine)
    files.restore(kept)
    messages.restore(kept, in: &engine)
    let superfluous = kept.carried.filter { !engine.restore($0) }
    node.engine = engine
    links.search.setOwnID(engine.identity.id)
    uplink.reopen()
    node.keep(superfluous.map { .carriedNoMore($0.id) })
  }

  /// Begins to take part in the mesh, once the identity of the node is known: advertises, scans and announces.
  private func join() {
    clockWatch.start()
    node.handle(.start)
    links.join()
    Log.shared.notice(
      "Joined the mesh as \(PrintableText.clean(nickname))", id: .meshStarted, .protocolName("bitchat"))
    node.changed()
  }

  /// Sends a leave and leaves the mesh.
  public func stop() {
    guard node.isStarted else { return }
    node.isStarted = false
    node.handle(.stop)
    files.endArrivals()
    links.leave()
    clockWatch.stop()
    Log.shared.notice("Left the mesh", id: .meshStopped, .protocolName("bitchat"))
    node.changed()
  }

  /// Erases all persistent data, leaves the mesh, and begins with a new identity.
  ///
  /// - Parameter then: called when nothing is left on the disk, or with the error that prevents it.
  public func wipe(then: @escaping @LoopActor ((any CodedError)?) -> Void) {
    node.handle(.stop)
    let survivors = survivors()
    node.forgetIdentity(erased: survivors.erased)
    messages.forgetAll(after: survivors.highestNumber)
    peers.forgetAll()
    files.forgetAll()
    links.forgetAddresses()
    node.changed()
    let answer = WipeAnswer(then)
    uplink.wipe { answer.uplink = $0 ? .some(nil) : StoreError(.failed, Self.keptKey) }
    links.leave { [weak self] in
      self?.node.keeper.wipe(keeping: survivors) { [weak self] in self?.wiped($0) { answer.disk = .some($0) } }
    }
  }

  /// Answers a wipe when the disk and the uplink are erased.
  @LoopActor
  private final class WipeAnswer {
    /// Result of the wipe on the disk: nil until the disk has ended, then the error, or nil inside if there is none.
    var disk: (any CodedError)?? { didSet { answer() } }
    /// Result of the wipe at the uplink, in the same form.
    var uplink: (any CodedError)?? { didSet { answer() } }
    private var then: (@LoopActor ((any CodedError)?) -> Void)?

    init(_ then: @escaping @LoopActor ((any CodedError)?) -> Void) { self.then = then }

    private func answer() {
      guard let disk, let uplink, let then else { return }
      self.then = nil
      then(disk ?? uplink)
    }
  }

  /// Data that survives a wipe. Neighbours still send the erased packets, which must not be accepted again.
  private func survivors() -> WipeSurvivors {
    var random = node.makeRandom()
    var traces = node.erased ?? ErasedTraces(randomFrom: &random)
    let listed = messages.log.messages.compactMap(\.packet) + files.log.packets
    traces.add((node.engine?.publicPackets ?? []) + listed, own: node.engine?.identity.id, at: node.time)
    return WipeSurvivors(highestNumber: messages.log.nextNumber &- 1, erased: traces)
  }

  private func wiped(
    _ result: Result<NodeStore.Wiped, StoreError>, _ then: @LoopActor ((any CodedError)?) -> Void
  ) {
    switch result {
    case .success(let wiped):
      isWipeOwed = false
      Log.shared.notice("The mesh's identity and messages are erased", id: .meshWiped, .protocolName("bitchat"))
      if let advice = wiped.advice {
        Log.shared.warning("\(advice)", id: .meshStoreDegraded, .protocolName("bitchat"))
      }
      if node.isStarted {
        restore(wiped.kept)
        join()
      }
      then(nil)
    case .failure(let error):
      Log.shared.error(
        "The mesh's identity and messages cannot be erased: \(error)", id: .meshStoreDegraded, .error(error),
        .protocolName("bitchat"))
      isWipeOwed = true
      node.changed()
      then(error)
    }
  }

  /// Applies settings that can change at run time.
  public func apply(_ settings: MeshSettings) {
    let power = node.settings.power
    node.apply(settings)
    clockWatch.look()
    node.handle(.timer)
    if settings.power != power { links.powerChanged() }
    node.changed()
  }

  /// Sets the connection to the bus. The program that carries packets outside of the mesh is on it.
  func use(_ bus: BusConnection?) { self.bus = bus }

  /// The connection to the bus; nil without D-Bus.
  var connection: BusConnection? { bus }

  public func setNickname(_ nickname: String) { node.setNickname(nickname) }

  /// Sends an announce of this node to its neighbours at once.
  public func announce() { node.handle(.announce) }

  /// Blocks or unblocks a peer. Earlier messages of a blocked peer are marked as seen without receipts.
  func block(_ peer: PeerID, _ isBlocked: Bool) throws(DBusError) {
    try peers.block(peer, isBlocked)
    if isBlocked { messages.markSeen(from: peer) }
  }

  /// Asks the owner of a verification code for a proof.
  ///
  /// - Returns: the peer.
  func verify(code text: String) throws(DBusError) -> PeerID { try peers.verify(code: text, reason: reason) }

  // MARK: Actions of the engine

  /// Passes an action to the part of the service that handles it.
  ///
  /// - Returns: a change that is stored together with those of the other actions of an event.
  private func carryOut(_ action: MeshEngine.Action) -> MeshChange? {
    switch action {
    case .send(let bytes, let link, let kind): links.send(bytes, on: link, kind)
    case .cut(let link, let reason): links.cut(link, reason)
    case .bound(let link, let peer): links.bound(link, peer)
    case .peer(let peer): peers.met(peer)
    case .gone(let peer):
      peers.gone(peer)
      links.gone(peer)
    case .heard(let message):
      links.search.noteTraffic()
      messages.heard(message)
    case .told(let message, let peer, let time):
      links.search.noteTraffic()
      messages.told(message, from: peer, at: time)
    case .toldAgain(let id, let peer): messages.toldAgain(id, from: peer)
    case .favourited(let peer, let notice, let id): peers.favourited(peer, notice, id)
    case .file(let file): files.received(file)
    case .arriving(let file): files.arriving(file)
    case .arrivalEnded(let id): files.arrivalEnded(id)
    case .fileState(let number, let state): files.stateChanged(number, state)
    case .fileProgress(let number, let percent): files.progressed(number, percent: percent)
    case .withdraw(let packets): links.withdraw(packets)
    case .uplink(let packet): uplink.send(packet)
    case .uplinkDone(let id): uplink.done(id)
    case .wentByUplink(let number): messages.wentByUplink(number)
    case .pong(let number, let milliseconds, let hops):
      pings.ended(number, .answered(milliseconds: milliseconds, hops: hops))
    case .pingLost(let number): pings.ended(number, .lost)
    case .progress(let number, let state): messages.progressed(number, state)
    case .dated(let number, let time): messages.dated(number, time)
    case .proof(let peer, let outcome): peers.proved(peer, outcome)
    case .trouble(let peer, let nickname, let trouble): peers.note(.engine(trouble), of: peer, nickname: nickname)
    case .noticeSettled(let peer): peers.noticeSettled(peer)
    case .receiptSettled(let id, let peer): return messages.receiptSettled(id, peer)
    case .session(let peer): peers.changes.call(peer)
    // The node stores these itself.
    case .keep: break
    case .state(let state): entered(state)
    }
    return nil
  }

  private func entered(_ state: MeshEngine.State) {
    // Peers that received nothing from this node have made no link, and may now.
    if clockWatch.entered(state) { links.search.forgive() }
    node.changed()
  }

  /// Handles a changed state of the store. After a recovery, senders get the receipts that are due.
  private func keeperChanged() {
    if node.keeper.trouble == nil, messages.unkeptCount > 0 || !peers.unkeptNotices.isEmpty {
      node.scheduler.soon { [weak self] in
        self?.messages.acknowledgeUnkept()
        self?.peers.acknowledgeUnkept()
      }
    }
    node.changed()
  }

  // MARK: For the host

  public var settings: MeshSettings { node.settings }

  public var state: MeshEngine.State { node.state }

  public var nickname: String { node.nickname }

  /// Number of neighbours that have announced themselves over a link.
  public var neighbours: Int { node.engine?.neighbours.count ?? 0 }

  /// Number of envelopes carried for others.
  public var carried: Int { node.engine?.carried ?? 0 }

  /// Word that confirms a wipe; nil if there is nothing to wipe.
  var wipeWord: String? {
    let isLocked = isWipeOwed || node.keeper.error?.reason == .keyMissing
    return node.engine?.identity.id.description ?? (isLocked ? "unknown" : nil)
  }

  /// Counters of the mesh since the service was started, for D-Bus.
  var tallies: [Tally] {
    let engine = (node.engine?.counters.tallies ?? []) + (node.engine?.noiseTallies ?? [])
    return engine + links.tallies + [Tally("LinesLeftOut", node.linesLeftOut)] + files.tallies
  }

  /// Sentence about a problem, or advice for people; empty if there is none.
  public var reason: String {
    if isWipeOwed { return "\(node.keeper.trouble.map { "\($0) " } ?? "")\(Self.owedWipe)" }
    return node.keeper.trouble ?? node.hindrance ?? advice
  }

  private static let keptKey =
    "The mesh is erased. earshot-nostrd did not confirm that its key is erased; it erases the key when it connects to "
    + "earshotd again. To be sure: systemctl restart earshot-nostrd"

  private static let owedWipe =
    "The mesh store is not completely erased. To try again: earshot mesh wipe. The mesh is stopped until then."

  /// Sentences about limits of the radio for the mesh, and about privacy.
  private var advice: String {
    let traits = node.radio.status.traits
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
    let troubles = peers.troubleSummary.map { [$0] } ?? []
    return (troubles + hidden + lost + overheard + traits.disclosures).joined(separator: " ")
  }

  /// Calls `then` when the persistent data is loaded, or after the limit.
  public func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    guard node.engine == nil else { return then() }
    whenRestored = then
    restoreTimer = node.scheduler.schedule(after: limit) { [weak self] in self?.reportRestored() }
  }

  /// Calls the closure that was passed to `whenRestored`, once.
  func reportRestored() {
    let then = whenRestored
    (whenRestored, restoreTimer) = (nil, nil)
    then?()
  }

  /// Calls `then` when the links have ended and nothing waits for the disk, or after the limit.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let keeper = node.keeper
    let end = node.now.advanced(by: limit)
    guard links.isLeaving else { return keeper.whenIdle(within: limit, then: then) }
    links.whenLeft { [weak self] in
      guard let self else { return then() }
      keeper.whenIdle(within: max(.zero, node.now.duration(to: end)), then: then)
    }
  }
}
