import Bitchat
import Common
import Journal
import Loop
import MeshStore
import Radio

/// Links of the mesh, with one packet per write or notification.
extension MeshService {
  /// Time for which an address gets no link after its malformed packets have ended one.
  private static let refusalTime = Duration.seconds(300)
  private static let refusedLimit = 256
  static let writeAttempts = 3
  /// Time from a client's subscription to the first notification, as in the apps.
  private static let listeningTime = Duration.milliseconds(100)
  /// Time in which a client that has written must subscribe; not every radio reports subscriptions.
  private static let subscribingTime = Duration.seconds(2)
  /// Maximum time for sending the leave.
  private static let lastWordsTime = Duration.milliseconds(500)
  /// Time for notifications in the radio, which does not report when they are sent.
  private static let notifyingTime = Duration.milliseconds(100)

  /// Returns the link of the mesh; creates it for the first of its two roles.
  func port(_ link: LinkID, _ address: BluetoothAddress) -> MeshPort {
    if let port = ports[link] { return port }
    let port = MeshPort(link, address, since: scheduler.now)
    ports[link] = port
    return port
  }

  /// Reports a link to the engine once its peer takes part in the mesh, unless it is being cut.
  func open(_ port: MeshPort) {
    guard !port.isCut else { return }
    if !port.isOpen {
      (port.isOpen, port.opening, port.frameLimit) = (true, nil, frameLimit(of: port))
      handle(
        .linkOpened(
          port.id, frameLimit: port.frameLimit, isOurs: port.isOurs, from: DeviceOrigin(address: port.address.value)))
      changed()
    }
    limitChanged(port)
  }

  /// Maximum frame to a neighbour, in bytes: the longest that arrives completely as write or notification.
  ///
  /// A radio that does not keep its clients apart truncates a notification to the MTU of each receiver. The limit is
  /// then the smallest among receivers at least as wide as iPhones. Otherwise one client at the minimum MTU would cut
  /// off all others.
  func frameLimit(of port: MeshPort) -> Int {
    if port.isClientReady { return min(ATT.valueLimit(mtu: port.mtu), port.writeLimit, peerLimit(of: port)) }
    let hears = radio.status.traits.keepsClientsApart ? [port] : ports.values.filter(\.isServed)
    let narrowest = hears.map(\.mtu).filter { ATT.valueLimit(mtu: $0) >= Limits.commonFrameBytes }.min() ?? port.mtu
    return min(ATT.valueLimit(mtu: min(narrowest, port.mtu)), Limits.frameBytes)
  }

  /// Longest frame that the peer announces to receive by writes, because its BlueZ may lose longer ones. Announcements
  /// below an iPhone's frame size are ignored.
  private func peerLimit(of port: MeshPort) -> Int {
    let said = port.peer.flatMap { engine?.peer($0)?.longestWrite }.map { Int($0) } ?? Limits.frameBytes
    return min(max(said, Limits.commonFrameBytes), Limits.frameBytes)
  }

  /// Reports changed frame limits: of this link, or of all if the radio does not keep its clients apart.
  func limitChanged(_ port: MeshPort) {
    let changed = radio.status.traits.keepsClientsApart ? [port] : Array(ports.values)
    for port in changed.sorted(by: { $0.id.number < $1.id.number }) where port.isOpen {
      let limit = frameLimit(of: port)
      guard limit != port.frameLimit else { continue }
      port.frameLimit = limit
      handle(.linkChanged(port.id, frameLimit: limit))
    }
  }

  /// Whether the end of a link or an attempt indicates a problem of the peer. It does not while the radio is inhibited
  /// or unavailable.
  var endsTellOfPeers: Bool { !radio.isQuietWanted && radio.status.state != .waiting }

  /// Closes a link when both of its roles have ended.
  func closeIfUnused(_ port: MeshPort) {
    guard port.client == nil, !port.isServed, ports[port.id] === port else { return }
    ports[port.id] = nil
    if port.isOurs, !port.isMet, endsTellOfPeers {
      finder.failed(port.address, first: NeighbourFinder.pauseAfterLoss, at: scheduler.now)
    } else {
      finder.ended(port.address, at: scheduler.now)
    }
    if port.isOpen { handle(.linkClosed(port.id)) }
    if let peer = port.peer { peerChanges.call(peer) }
    changed()
    find()
  }

  func send(_ bytes: [UInt8], on link: LinkID, _ kind: PacketClass) {
    guard let port = ports[link], !port.isCut else { return }
    note(sent: bytes, kind)
    fit(port, for: kind)
    for kind in port.queue.append(bytes, as: kind) {
      dropped[kind, default: 0] += 1
      if kind == .file { tookFile(port) }
    }
    pump(port)
  }

  /// Sets the backlog in the radio: long for a fast file transfer, short beside chat, which cannot overtake it.
  private func fit(_ port: MeshPort, for kind: PacketClass) {
    let isBesideChat = engine?.isBesideChat(at: scheduler.now) ?? true
    guard kind == .file || isBesideChat else { return }
    let backlog = isBesideChat ? Backlog.short : .long
    guard backlog != port.backlog else { return }
    port.backlog = backlog
    radio.allow(backlog, on: port.id)
  }

  /// Sends queued packets as far as the radio accepts them.
  func pump(_ port: MeshPort) {
    port.queue.holdsFiles = radio.isQuietWanted
    while !port.isBusy, let frame = port.queue.first {
      let isFile = port.queue.next == .file
      if let client = port.client, port.isClientReady, !isOnlyNotified(frame, port) {
        port.queue.removeFirst()
        if isFile { tookFile(port) }
        if client.streamNow(frame, to: BitchatGATT.characteristic) {
          sent += 1
        } else {
          // Writing continues when this frame is written.
          (port.isBusy, port.writing) = (true, (frame, 1))
          client.write(frame, to: BitchatGATT.characteristic, as: .stream)
        }
        continue
      }
      guard let server, port.isServed else { return }
      if overheard.take(frame, on: port.id, at: scheduler.now) {
        port.queue.removeFirst()
        if isFile { tookFile(port) }
        continue
      }
      let delivery = server.notify(frame, of: BitchatGATT.characteristic, to: .link(port.id))
      if delivery.full.contains(port.id) {
        port.isBusy = true
        return
      }
      if delivery.accepted.isEmpty {
        // A peer may write before its subscription arrives; packets for it wait.
        guard port.isSubscribed else { return }
        unreachable += 1
      } else {
        sent += 1
        note(frame, overheardOn: delivery.overheard)
      }
      port.queue.removeFirst()
      if isFile { tookFile(port) }
    }
  }

  /// Records which links have received a frame that was notified for one link only. They need no notification of their
  /// own, which the others would receive again.
  private func note(_ frame: [UInt8], overheardOn links: [LinkID]) {
    let now = scheduler.now
    let others = links.filter { link in
      guard let port = ports[link], port.isOpen else { return false }
      return port.since.duration(to: now) >= Self.subscribingTime
    }
    overheard.note(frame, on: others, at: now)
  }

  /// Whether a frame exceeds the limit for writes, because it was made while the peer was notified.
  private func isOnlyNotified(_ frame: [UInt8], _ port: MeshPort) -> Bool {
    frame.count > port.frameLimit && port.isServed && port.isSubscribed
  }

  func hasRoomAgain(_ link: LinkID) {
    guard let port = ports[link] else { return }
    port.isBusy = false
    pump(port)
  }

  /// Handles the result of a write. A failed write is repeated, because a bearer that ended may have lost it.
  func wrote(_ port: MeshPort, _ error: ATTError?) {
    if error != nil, let (frame, attempts) = port.writing {
      if attempts < Self.writeAttempts, !port.isCut, let client = port.client {
        port.writing = (frame, attempts + 1)
        return client.write(frame, to: BitchatGATT.characteristic, as: .stream)
      }
      unreachable += 1
    }
    if error == nil { sent += 1 }
    port.writing = nil
    hasRoomAgain(port.id)
  }

  func bound(_ link: LinkID, _ peer: PeerID) {
    if let port = ports[link] {
      (port.peer, port.isMet) = (peer, true)
      finder.met(port.address)
      limitChanged(port)
      // The peer may now be known as an Earshot peer; if exploring failed before, it is retried.
      explore(port)
      expectStream(port)
    }
    peerChanges.call(peer)
    changed()
    find()
  }

  func cut(_ link: LinkID, _ reason: MeshEngine.CutReason) {
    guard let port = ports[link] else { return }
    switch reason {
    case .garbage: refuse(port.address)
    // This reason lasts longer than a pause.
    case .noAnnounce:
      if let peer = finder.peer(at: port.address) {
        note(.notAnnounced, of: peer, nickname: name(of: peer))
      } else {
        troubles.noteUnknownCut(at: scheduler.now)
        changed()
      }
    case .incompatible: finder.avoid(port.address, for: Self.refusalTime, at: scheduler.now)
    default: break
    }
    if told.allow(.cut(reason), at: scheduler.now) {
      Log.shared.info(
        "The mesh closed a link: \(reason.sentence)", id: .meshLinkCut, .link(link), .protocolName("bitchat"))
    }
    release(port)
  }

  /// Cuts a link and drops its queue; the radio reports when it has ended.
  func release(_ port: MeshPort) {
    (port.isCut, port.isOpen, port.opening, port.queue) = (true, false, nil, LinkQueue())
    if let attempt, attempt.link.id == port.id {
      attempt.gaveWay = true
      attempt.link.disconnect()
    }
    port.client?.disconnect()
    port.exploring?.disconnect()
    if port.isServed { server?.disconnect(port.id) }
  }

  private func refuse(_ address: BluetoothAddress) {
    let now = scheduler.now
    finder.avoid(address, for: Self.refusalTime, at: now)
    refused = refused.filter { $0.value > now }
    while refused.count >= Self.refusedLimit, let first = refused.min(by: { $0.value < $1.value }) {
      refused[first.key] = nil
    }
    refused[address] = now.advanced(by: Self.refusalTime)
  }

  func isRefused(_ address: BluetoothAddress) -> Bool { refused[address].map { $0 > scheduler.now } ?? false }

  /// Selects a link that the radio may disconnect to free a slot: the newest with an unknown peer, else the newest.
  func giveUp(_ links: [LinkID]) -> LinkID? {
    let chosen = links.last { ports[$0]?.peer == nil } ?? links.last
    if let chosen, let port = ports[chosen] {
      // Delays this node's next attempt, so that it does not take the slot again.
      finder.failed(port.address, at: scheduler.now)
    }
    return chosen
  }

  /// Leaves the mesh: stops advertising and scanning, and ends all links after queued packets are sent or time is up.
  ///
  /// - Parameter then: called when no link is left, or after the timeout. Several calls are answered in order.
  func leaveLinks(then: @escaping @LoopActor () -> Void = {}) {
    whenLeft.append(then)
    (advertisement, scan, watches) = (nil, nil, [])
    findTimer.set(nil)
    dutyTimer.set(nil)
    attempt?.link.disconnect()
    attempt = nil
    // If the node is already leaving, its last packets are being sent.
    guard leaving == nil else { return }
    let now = scheduler.now
    let isNotifying = ports.values.contains { $0.isServed && !$0.isClientReady }
    leave(from: isNotifying ? now.advanced(by: Self.notifyingTime) : now, by: now.advanced(by: Self.lastWordsTime))
  }

  private func leave(from begin: Instant, by end: Instant) {
    let areAllSaid = ports.values.allSatisfy { $0.isCut || $0.queue.isEmpty && !$0.isBusy }
    guard areAllSaid && scheduler.now >= begin || scheduler.now >= end else {
      leaving = scheduler.schedule(after: .milliseconds(20)) { [weak self] in self?.leave(from: begin, by: end) }
      return
    }
    leaving = nil
    for port in ports.values {
      port.client?.disconnect()
      port.exploring?.disconnect()
    }
    // Closing the application ends the incoming links.
    server?.close()
    server = nil
    ports = [:]
    let waiting = whenLeft
    whenLeft = []
    for body in waiting { body() }
  }

  func advertise() {
    guard let engine else { return }
    do throws(RadioError) {
      advertisement = try radio.advertise(
        BitchatGATT.advertisement(of: engine.identity.id, every: settings.advertisingInterval),
        BitchatGATT.advertisingTerms,
        for: server)
    } catch {
      Log.shared.error("The mesh cannot advertise: \(error)", .error(error), .protocolName("bitchat"))
    }
  }
}

/// Incoming links.
extension MeshService: GATTServerDelegate {
  public func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {
    guard ports[link]?.isCut != true, !isRefused(address), makePlace(for: link) else {
      server?.disconnect(link)
      return
    }
    let port = port(link, address)
    port.isServed = true
    explore(port)
    expectStream(port)
  }

  public func linkChanged(_ link: LinkID, mtu: Int) {
    guard let port = ports[link] else { return }
    port.mtu = mtu
    limitChanged(port)
  }

  public func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {
    guard let port = ports[link] else { return }
    port.isSubscribed = isSubscribed
    guard isSubscribed else { return }
    // A client that has just subscribed may not listen yet.
    port.opening = scheduler.schedule(after: Self.listeningTime) { [weak self, weak port] in
      guard let self, let port, ports[link] === port else { return }
      open(port)
      pump(port)
    }
  }

  public func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    guard characteristic == BitchatGATT.characteristic else { throw .writeNotPermitted }
    guard let port = ports[link], port.isServed else { throw .unlikely }
    // A peer may continue while the radio cuts its link.
    guard !port.isCut else { return }
    if !port.isOpen { open(port) }
    handle(.received(value, on: link))
  }

  public func hasRoom(_ link: LinkID) {
    // While a write is under way, its end shows that there is buffer space.
    if ports[link]?.writing == nil { hasRoomAgain(link) }
  }

  public func linkClosed(_ link: LinkID) {
    guard let port = ports[link] else { return }
    (port.isServed, port.isSubscribed) = (false, false)
    limitChanged(port)
    closeIfUnused(port)
  }
}

extension MeshEngine.CutReason {
  var sentence: String {
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

/// Slots for incoming links.
extension MeshService {
  /// Finds a slot for a link whose peer uses this node's application, and evicts another link if necessary.
  ///
  /// - Returns: whether the link has a slot.
  func makePlace(for link: LinkID) -> Bool {
    guard !isOurs(link) else { return true }
    // A link that is being cut counts as closed.
    let holders = ports.values.filter { $0.id != link && !$0.isCut }.map { holder(of: $0) }
    switch LinkPlaces(settings.links, holders).outcome(at: scheduler.now) {
    case .free: return true
    case .full: return false
    case .insteadOf(let other):
      if let port = ports[other] { giveWay(port) }
      return true
    }
  }

  /// Whether a new outgoing link has a slot; a peer may have taken the last one meanwhile.
  func hasPlace(forAttempt link: LinkID) -> Bool {
    ports.values.count { $0.id != link && !$0.isCut } < settings.links
  }

  /// Whether this node initiated a link, or is about to.
  private func isOurs(_ link: LinkID) -> Bool { ports[link]?.isOurs == true || attempt?.link.id == link }

  private func holder(of port: MeshPort) -> LinkPlaces.Holder {
    LinkPlaces.Holder(
      link: port.id, isOurs: isOurs(port.id), isAttempt: attempt?.link.id == port.id, since: port.since,
      peer: standing(of: port))
  }

  private func standing(of port: MeshPort) -> LinkPlaces.Holder.Peer {
    guard let peer = port.peer else { return .unknown }
    // A favourite's announce can be replayed by anybody.
    guard let marks = marks[peer], engine?.hasBroughtItsPeer(port.id) == true else { return .known }
    return marks.isFavourite || isVerified(peer) ? .chosen : .known
  }

  /// Evicts a link. Its peer may connect again.
  private func giveWay(_ port: MeshPort) {
    if told.allow(.link, at: scheduler.now) {
      Log.shared.debug(
        "The mesh closes a link because another one needs its slot", .link(port.id), .protocolName("bitchat"))
    }
    let wasOpen = port.isOpen
    release(port)
    if wasOpen { handle(.linkClosed(port.id)) }
  }
}
