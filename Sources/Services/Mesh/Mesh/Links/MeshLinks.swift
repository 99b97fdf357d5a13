import Bitchat
import BitchatWire
import Common
import Journal
import Loop
import Radio

/// Links of the mesh: opens, explores and cuts them, gives them slots, and advertises the node.
@LoopActor
final class MeshLinks {
  /// Time for which an address gets no link after its malformed packets have ended one.
  private static let refusalTime = Duration.seconds(300)
  private static let refusedLimit = 256
  /// Time from a client's subscription to the first notification. The apps wait as long.
  private static let listeningTime = Duration.milliseconds(100)
  /// Time that the links have to send the leave before they are cut.
  private static let lastWordsTime = Duration.milliseconds(500)
  /// Time that the radio gets for its queued notifications, whose sending it does not report.
  private static let notifyingTime = Duration.milliseconds(100)

  private let node: MeshNode
  private let peers: MeshPeers
  private(set) var ports: [LinkID: MeshPort] = [:] {
    didSet { if ports.count != oldValue.count { use.connect(ports.count, at: node.now) } }
  }
  /// Registrations for changes of the radio, while the node takes part in the mesh.
  private var watches: [Registration] = []
  private(set) var advertisement: Registration? {
    didSet { use.advertise(advertisement != nil, at: node.now) }
  }
  /// Timer that runs while the leave and other last packets are sent; nil at other times.
  private var leaving: Registration?
  /// Callbacks for the time when all links have ended, in order. A wipe continues then.
  private var whenLeft: [@LoopActor () -> Void] = []
  /// Addresses that get no link, with the end of the ban.
  private var refused: [BluetoothAddress: Instant] = [:]
  private(set) var use = RadioUse()
  private(set) lazy var search = NeighbourSearch(node, delegate: self)
  private(set) lazy var sender = FrameSender(node) { [weak self] in self?.ports[$0] }

  init(_ node: MeshNode, _ peers: MeshPeers) {
    (self.node, self.peers) = (node, peers)
    node.radio.onLinkWanted { [weak self] in self?.giveUp($0) }
  }

  // MARK: Joining and leaving

  /// Serves the node's application, advertises, and scans.
  func join() {
    sender.server = node.radio.serve(BitchatGATT.application, delegate: self)
    advertise()
    watches = [
      node.radio.onStatus { [weak self] in self?.radioChanged($0) },
      node.radio.onQuiet { [weak self] _ in self?.quietChanged() },
    ]
    quietChanged()
  }

  private func advertise() {
    guard let engine = node.engine else { return }
    do throws(RadioError) {
      advertisement = try node.radio.advertise(
        BitchatGATT.advertisement(of: engine.identity.id, every: node.settings.advertisingInterval),
        BitchatGATT.advertisingTerms, for: sender.server)
    } catch {
      Log.shared.error("The mesh cannot advertise: \(error)", .error(error), .protocolName("bitchat"))
    }
  }

  private func radioChanged(_ status: RadioStatus) {
    if status.state == .waiting { search.loseAll() }
    node.updateLongestWrite()
    search.listen()
    node.changed()
  }

  /// Handles the start and the end of another service's radio inhibit.
  private func quietChanged() {
    search.listen()
    node.handle(.quiet(node.radio.isQuietWanted))
    for port in ports.values { sender.pump(port) }
  }

  /// Applies a changed power source to scanning and advertising.
  func powerChanged() {
    guard node.isStarted, node.engine != nil, isServing else { return }
    advertise()
    search.restartDuty()
  }

  /// Whether the node stops, and the leave and other last packets are being sent.
  var isLeaving: Bool { leaving != nil }

  /// Leaves the mesh: stops advertising and scanning, and ends all links after queued packets are sent or time is up.
  ///
  /// - Parameter then: called when no link is left, or after the timeout. Several calls are answered in order.
  func leave(then: @escaping @LoopActor () -> Void = {}) {
    whenLeft.append(then)
    advertisement = nil
    search.stop()
    watches = []
    // If the node is already leaving, its last packets are being sent.
    guard leaving == nil else { return }
    let now = node.now
    let isNotifying = ports.values.contains { $0.isServed && !$0.isClientReady }
    leave(from: isNotifying ? now.advanced(by: Self.notifyingTime) : now, by: now.advanced(by: Self.lastWordsTime))
  }

  /// Calls `then` when the links have ended.
  func whenLeft(then: @escaping @LoopActor () -> Void) { whenLeft.append(then) }

  private func leave(from begin: Instant, by end: Instant) {
    let areAllSaid = ports.values.allSatisfy { $0.isCut || $0.queue.isEmpty && !$0.isBusy }
    guard areAllSaid && node.now >= begin || node.now >= end else {
      leaving = node.scheduler.schedule(after: .milliseconds(20)) { [weak self] in self?.leave(from: begin, by: end) }
      return
    }
    leaving = nil
    for port in ports.values {
      port.client?.disconnect()
      port.exploring?.disconnect()
    }
    // Closing the application ends the incoming links.
    sender.server?.close()
    sender.server = nil
    ports = [:]
    let waiting = whenLeft
    whenLeft = []
    for body in waiting { body() }
  }

  /// Forgets all peer addresses for a wipe.
  func forgetAddresses() {
    search.forgetAll()
    refused = [:]
  }

  var tallies: [Tally] { use.tallies(at: node.now) + sender.tallies }

  /// Signal strength of a peer in dBm; nil if unknown.
  func rssi(of peer: PeerID) -> Int? {
    let port = ports.values.first { $0.peer == peer }
    return port.flatMap { search.rssi(of: $0.address) } ?? search.rssi(of: peer)
  }

  // MARK: Opening and closing

  func add(_ port: MeshPort) { ports[port.id] = port }

  /// Returns the link of the mesh; creates it for the first of its two roles.
  private func port(_ link: LinkID, _ address: BluetoothAddress) -> MeshPort {
    if let port = ports[link] { return port }
    let port = MeshPort(link, address, since: node.now)
    add(port)
    return port
  }

  /// Reports a link to the engine once its peer takes part in the mesh, unless it is being cut.
  private func open(_ port: MeshPort) {
    guard !port.isCut else { return }
    if !port.isOpen {
      (port.isOpen, port.opening, port.frameLimit) = (true, nil, frameLimit(of: port))
      node.handle(
        .linkOpened(
          port.id, frameLimit: port.frameLimit, isOurs: port.isOurs, from: DeviceOrigin(address: port.address.value)))
      node.changed()
    }
    limitChanged(port)
  }

  /// Maximum frame to a neighbour, in bytes: the longest that arrives completely as write or notification.
  ///
  /// A radio that cannot notify its clients individually truncates a notification to the MTU of each receiver. The
  /// limit is then the smallest among receivers at least as wide as iPhones. Otherwise one client at the minimum MTU
  /// would cut off all others.
  func frameLimit(of port: MeshPort) -> Int {
    if port.isClientReady { return min(ATT.valueLimit(mtu: port.mtu), port.writeLimit, peerLimit(of: port)) }
    let receivers = node.radio.status.traits.keepsClientsApart ? [port] : ports.values.filter(\.isServed)
    let narrowest = receivers.map(\.mtu).filter { ATT.valueLimit(mtu: $0) >= Limits.commonFrameBytes }.min()
    return min(ATT.valueLimit(mtu: min(narrowest ?? port.mtu, port.mtu)), Limits.frameBytes)
  }

  /// Longest frame that the peer announces to receive by writes, because its BlueZ may lose longer ones. Announcements
  /// below an iPhone's frame size are ignored.
  private func peerLimit(of port: MeshPort) -> Int {
    let announced = port.peer.flatMap { node.engine?.peer($0)?.longestWrite }.map { Int($0) } ?? Limits.frameBytes
    return min(max(announced, Limits.commonFrameBytes), Limits.frameBytes)
  }

  /// Reports changed frame limits: of this link, or of all links if the radio cannot notify its clients individually.
  private func limitChanged(_ port: MeshPort) {
    let changed = node.radio.status.traits.keepsClientsApart ? [port] : Array(ports.values)
    for port in changed.sorted(by: { $0.id.number < $1.id.number }) where port.isOpen {
      let limit = frameLimit(of: port)
      guard limit != port.frameLimit else { continue }
      port.frameLimit = limit
      node.handle(.linkChanged(port.id, frameLimit: limit))
    }
  }

  /// Closes a link when both of its roles have ended.
  private func closeIfUnused(_ port: MeshPort) {
    guard port.client == nil, !port.isServed, ports[port.id] === port else { return }
    ports[port.id] = nil
    // While the radio is inhibited or unavailable, the end of a link does not indicate a problem of the peer.
    if port.isOurs, !port.isMet, node.isRadioFree {
      search.failed(port.address, first: NeighbourFinder.pauseAfterLoss)
    } else {
      search.ended(port.address)
    }
    if port.isOpen { node.handle(.linkClosed(port.id)) }
    if let peer = port.peer { peers.changes.call(peer) }
    node.changed()
    search.find()
  }

  // MARK: Actions of the engine

  func send(_ bytes: [UInt8], on link: LinkID, _ kind: PacketClass) {
    guard let port = ports[link], !port.isCut else { return }
    search.note(sent: bytes, kind)
    sender.send(bytes, on: port, kind)
  }

  /// Removes the packets of a stopped file from all queues.
  func withdraw(_ packets: FilePackets) {
    for port in ports.values { sender.withdraw(packets, from: port) }
  }

  func bound(_ link: LinkID, _ peer: PeerID) {
    if let port = ports[link] {
      (port.peer, port.isMet) = (peer, true)
      search.met(port.address)
      limitChanged(port)
      // The peer may now be known as an Earshot peer; if exploring failed before, it is retried.
      explore(port)
      expectStream(port)
    }
    peers.changes.call(peer)
    node.changed()
    search.find()
  }

  /// Handles that a peer has left. The peer has no mesh link any more, even if it is still connected.
  func gone(_ peer: PeerID) {
    let itsPorts = ports.values.filter { $0.peer == peer }
    // An evicted peer still has its links.
    guard !itsPorts.isEmpty, node.engine?.isNeighbour(peer) == false else { return }
    for port in itsPorts { port.peer = nil }
    node.changed()
  }

  func cut(_ link: LinkID, _ reason: MeshEngine.CutReason) {
    guard let port = ports[link] else { return }
    switch reason {
    case .garbage: refuse(port.address)
    // This reason lasts longer than a pause.
    case .noAnnounce:
      if let peer = search.peer(at: port.address) {
        peers.note(.notAnnounced, of: peer, nickname: peers.name(of: peer))
      } else {
        peers.noteUnknownCut()
      }
    case .incompatible: search.avoid(port.address, for: Self.refusalTime)
    default: break
    }
    if node.mayLog(.cut(reason)) {
      Log.shared.info(
        "The mesh closed a link: \(reason.sentence)", id: .meshLinkCut, .link(link), .protocolName("bitchat"))
    }
    release(port)
  }

  /// Cuts a link and drops its queue; the radio reports when it has ended.
  private func release(_ port: MeshPort) {
    (port.isCut, port.isOpen, port.opening, port.queue) = (true, false, nil, LinkQueue())
    search.abandon(port.id)
    port.client?.disconnect()
    port.exploring?.disconnect()
    if port.isServed { sender.server?.disconnect(port.id) }
  }

  private func refuse(_ address: BluetoothAddress) {
    let now = node.now
    search.avoid(address, for: Self.refusalTime)
    refused = refused.filter { $0.value > now }
    while refused.count >= Self.refusedLimit, let first = refused.min(by: { $0.value < $1.value }) {
      refused[first.key] = nil
    }
    refused[address] = now.advanced(by: Self.refusalTime)
  }

  private func isRefused(_ address: BluetoothAddress) -> Bool { refused[address].map { $0 > node.now } ?? false }

  /// Whether no link has buffer space for another message of this node. Neighbours on slow links get the messages
  /// that they miss by gossip sync.
  var areFull: Bool {
    let open = ports.values.filter { $0.isOpen && !$0.isCut }
    return !open.isEmpty && open.allSatisfy { $0.queue.isOwnFull || node.engine?.isFullOfFragments($0.id) == true }
  }

  // MARK: Slots

  /// Selects a link that the radio may disconnect to free a slot: the newest with an unknown peer, else the newest.
  private func giveUp(_ links: [LinkID]) -> LinkID? {
    let chosen = links.last { ports[$0]?.peer == nil } ?? links.last
    if let chosen, let port = ports[chosen] {
      // Delays this node's next attempt, so that it does not take the slot again.
      search.failed(port.address)
    }
    return chosen
  }

  /// Finds a slot for a link whose peer uses this node's application, and evicts another link if necessary.
  ///
  /// - Returns: whether the link has a slot.
  private func makePlace(for link: LinkID) -> Bool {
    guard !isOurs(link) else { return true }
    // A link that is being cut counts as closed.
    let holders = ports.values.filter { $0.id != link && !$0.isCut }.map { holder(of: $0) }
    switch LinkSlots(node.settings.links, holders).outcome(at: node.now) {
    case .free: return true
    case .full: return false
    case .insteadOf(let other):
      if let port = ports[other] { evict(port) }
      return true
    }
  }

  /// Whether this node has initiated a link, or is about to initiate it.
  private func isOurs(_ link: LinkID) -> Bool { ports[link]?.isOurs == true || search.attempt?.link.id == link }

  private func holder(of port: MeshPort) -> LinkSlots.Holder {
    LinkSlots.Holder(
      link: port.id, isOurs: isOurs(port.id), isAttempt: search.attempt?.link.id == port.id, since: port.since,
      peer: relation(to: port))
  }

  private func relation(to port: MeshPort) -> LinkSlots.Holder.Peer {
    guard let peer = port.peer else { return .unknown }
    // A favourite's announce can be replayed by anybody.
    guard let marks = peers.marks[peer], node.engine?.hasBroughtItsPeer(port.id) == true else { return .known }
    return marks.isFavourite || peers.isVerified(peer) ? .chosen : .known
  }

  /// Cuts a link because another one needs its slot. Its peer may connect again.
  private func evict(_ port: MeshPort) {
    if node.mayLog(.link) {
      Log.shared.debug(
        "The mesh closes a link because another one needs its slot", .link(port.id), .protocolName("bitchat"))
    }
    let wasOpen = port.isOpen
    release(port)
    if wasOpen { node.handle(.linkClosed(port.id)) }
  }

  // MARK: Events of a link as client

  private func handle(_ event: LinkEvent, _ port: MeshPort) {
    switch event {
    case .notified(_, let value):
      guard port.isOpen else { return }
      node.handle(.received(value, on: port.id))
    case .written(_, let error): sender.wrote(port, error)
    case .mtuChanged(let mtu): linkChanged(port.id, mtu: mtu)
    case .disconnected: clientEnded(port)
    case .connected, .discovered, .subscribed: break
    }
  }

  /// Handles the end of the GATT client on a link. If the peer is also a client of this node, the link stays, and
  /// waiting packets are notified.
  private func clientEnded(_ port: MeshPort) {
    let wasWriting = port.writing != nil
    (port.client, port.isClientReady, port.isBusy, port.writing) = (nil, false, false, nil)
    closeIfUnused(port)
    guard ports[port.id] === port else { return }
    limitChanged(port)
    sender.clientEnded(port, wasWriting: wasWriting)
  }

  // MARK: Exploring
  //
  // The node also uses peers that initiated a link as servers. On a radio that does not keep its clients apart, this
  // covers all peers. A write reaches one peer only and completely, and the peer can notify instead of writing, which
  // loses long writes there. On other radios it covers Earshot peers: writes use sockets at both ends, while a
  // notification takes the slower way over D-Bus. Facts: bluez.md section 3.

  /// Identifies the connection that explores a peer's services, so that events of a connection that was replaced are
  /// ignored.
  @LoopActor
  private final class Exploration {
    weak var link: (any Link)?
  }

  /// Expects a stream from an Earshot peer, which writes its first values one at a time (`StreamWay` of BlueZ). Phones
  /// do not.
  private func expectStream(_ port: MeshPort) {
    if port.isServed, isEarshot(port) { sender.server?.expectStream(from: port.id) }
  }

  private func explore(_ port: MeshPort) {
    guard port.isServed, port.client == nil, port.exploring == nil, search.attempt?.address != port.address,
      !node.radio.status.traits.keepsClientsApart || isEarshot(port)
    else { return }
    let exploration = Exploration()
    do throws(RadioError) {
      port.exploring = try node.radio.connect(to: port.address) { [weak self, weak port] event in
        guard let self, let port, ports[port.id] === port else { return }
        explored(event, port, exploration.link)
      }
      exploration.link = port.exploring
    } catch {
      Log.shared.debug(
        "Exploring the services of a neighbour failed: \(error)", .link(port.id), .protocolName("bitchat"))
    }
  }

  private func isEarshot(_ port: MeshPort) -> Bool {
    port.peer.flatMap { node.engine?.peer($0)?.isEarshot } ?? false
  }

  /// Handles the steps of an exploration, which are those of an outgoing link. A failure leaves the link unchanged.
  private func explored(_ event: LinkEvent, _ port: MeshPort, _ current: (any Link)?) {
    guard let current else { return }
    guard let link = port.exploring, link === current else {
      if port.client === current { handle(event, port) }
      return
    }
    switch event {
    case .connected: link.exchangeMTU(BitchatGATT.mtu)
    case .mtuChanged(let mtu):
      // On such a radio, subscribing does not reveal the client's MTU.
      linkChanged(port.id, mtu: mtu)
      link.discover()
    case .discovered(let services) where services.contains(where: \.isNode):
      // If clients are kept apart, an Earshot peer writes to this node and need not notify it.
      if node.radio.status.traits.keepsClientsApart { return adopt(link, port) }
      link.subscribe(to: BitchatGATT.characteristic)
    case .discovered: link.disconnect()
    case .subscribed, .notified:
      adopt(link, port)
      handle(event, port)
    case .written: break
    case .disconnected: port.exploring = nil
    }
  }

  /// Sends packets for the peer as writes from now on, instead of notifications.
  private func adopt(_ link: any Link, _ port: MeshPort) {
    (port.client, port.exploring, port.isClientReady, port.isBusy) = (link, nil, true, false)
    port.writeLimit = link.writeLimit
    open(port)
    sender.pump(port)
  }
}

/// Events of links that this node makes.
extension MeshLinks: NeighbourSearchDelegate {
  var isServing: Bool { sender.server != nil }

  var linkedAddresses: [BluetoothAddress] { ports.values.map(\.address) }

  /// Whether a slot is free for an attempt that has connected: a peer may have taken the last one meanwhile.
  func hasPlace(forAttempt link: LinkID) -> Bool {
    ports.values.count { $0.id != link && !$0.isCut } < node.settings.links
  }

  func searchIsScanning(_ isScanning: Bool) { use.scan(isScanning, at: node.now) }

  func attemptConnected(_ link: LinkID, to address: BluetoothAddress, mtu: Int) { port(link, address).mtu = mtu }

  func attemptSucceeded(_ link: any Link, to address: BluetoothAddress) {
    let port = port(link.id, address)
    (port.client, port.isClientReady, port.isOurs) = (link, true, true)
    port.writeLimit = link.writeLimit
    open(port)
  }

  func attemptEnded(_ link: LinkID) { if let port = ports[link] { closeIfUnused(port) } }

  func linkReported(_ event: LinkEvent, on link: LinkID) { if let port = ports[link] { handle(event, port) } }

  func linkReported(_ event: LinkEvent, from address: BluetoothAddress) {
    let port = ports.values.first { $0.address == address && $0.client != nil }
    if let port { handle(event, port) }
  }
}

/// Events of links that peers make.
extension MeshLinks: GATTServerDelegate {
  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {
    guard ports[link]?.isCut != true, !isRefused(address), makePlace(for: link) else {
      sender.server?.disconnect(link)
      return
    }
    let port = port(link, address)
    port.isServed = true
    explore(port)
    expectStream(port)
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    guard let port = ports[link] else { return }
    port.mtu = mtu
    limitChanged(port)
  }

  func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {
    guard let port = ports[link] else { return }
    port.isSubscribed = isSubscribed
    guard isSubscribed else { return }
    // A client that has just subscribed may not listen yet.
    port.opening = node.scheduler.schedule(after: Self.listeningTime) { [weak self, weak port] in
      guard let self, let port, ports[port.id] === port else { return }
      open(port)
      sender.pump(port)
    }
  }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    guard characteristic == BitchatGATT.characteristic else { throw .writeNotPermitted }
    guard let port = ports[link], port.isServed else { throw .unlikely }
    // A peer may continue while the radio cuts its link.
    guard !port.isCut else { return }
    if !port.isOpen { open(port) }
    node.handle(.received(value, on: link))
  }

  func hasRoom(_ link: LinkID) {
    // While a write is under way, its end shows that there is buffer space.
    if let port = ports[link], port.writing == nil { sender.hasRoomAgain(port) }
  }

  func linkClosed(_ link: LinkID) {
    guard let port = ports[link] else { return }
    (port.isServed, port.isSubscribed) = (false, false)
    limitChanged(port)
    closeIfUnused(port)
  }
}

extension MeshEngine.CutReason {
  fileprivate var sentence: String {
    switch self {
    case .garbage: "its peer sent too many malformed packets"
    case .noAnnounce: "its peer did not announce itself"
    case .left: "its peer has left the mesh"
    case .silent: "its peer sent no valid packet within the idle timeout"
    case .second: "its peer has another link with this node"
    case .incompatible: "its peer supports no packet version of this node"
    }
  }
}
