import Bitchat
import Common
import Journal
import Loop
import Radio

/// The links of the mesh, and what goes over them: one packet in each write or notification.
extension MeshService {
  /// A peer that sent nothing but garbage gets no link for so long.
  private static let refusalTime = Duration.seconds(300)
  private static let refusedLimit = 256
  static let writeAttempts = 3
  /// From the subscription of a client to the first word to it, as the apps have it.
  private static let listeningTime = Duration.milliseconds(100)
  /// A client that has written first subscribes within this time; not every radio tells when it has.
  private static let subscribingTime = Duration.seconds(2)
  /// The word that the node leaves has so long to go out.
  private static let lastWordsTime = Duration.milliseconds(500)
  /// What was notified is with the radio, which does not say when it has left.
  private static let notifyingTime = Duration.milliseconds(100)

  /// The link as the mesh has it, made when the first of its two roles comes.
  func port(_ link: LinkID, _ address: BluetoothAddress) -> MeshPort {
    if let port = ports[link] { return port }
    let port = MeshPort(link, address, since: scheduler.now)
    ports[link] = port
    return port
  }

  /// The other end takes part in the mesh: the engine hears of the link, unless it is being cut.
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

  /// The most bytes of a frame to a neighbour: what arrives whole when it is written, or notified. A radio that cannot tell its
  /// clients apart cuts a value to the MTU of each that hears it, so it is made for the narrowest of those that take what iPhones do:
  /// one client at the smallest MTU would keep all others from hearing anything.
  func frameLimit(of port: MeshPort) -> Int {
    if port.isClientReady { return min(ATT.valueLimit(mtu: port.mtu), port.writeLimit, peerLimit(of: port)) }
    let hears = radio.status.traits.keepsClientsApart ? [port] : ports.values.filter(\.isServed)
    let narrowest = hears.map(\.mtu).filter { ATT.valueLimit(mtu: $0) >= Limits.commonFrameBytes }.min() ?? port.mtu
    return min(ATT.valueLimit(mtu: min(narrowest, port.mtu)), Limits.frameBytes)
  }

  /// The longest frame that arrives when it is written to the peer, as it says itself: its BlueZ may lose longer ones. Nobody has
  /// frames cut smaller by that than an iPhone's.
  private func peerLimit(of port: MeshPort) -> Int {
    let said = port.peer.flatMap { engine?.peer($0)?.longestWrite }.map { Int($0) } ?? Limits.frameBytes
    return min(max(said, Limits.commonFrameBytes), Limits.frameBytes)
  }

  /// The longest frame of a link may be another one; with it, where all hear what one is told, those of the others.
  func limitChanged(_ port: MeshPort) {
    let changed = radio.status.traits.keepsClientsApart ? [port] : Array(ports.values)
    for port in changed.sorted(by: { $0.id.number < $1.id.number }) where port.isOpen {
      let limit = frameLimit(of: port)
      guard limit != port.frameLimit else { continue }
      port.frameLimit = limit
      handle(.linkChanged(port.id, frameLimit: limit))
    }
  }

  /// Whether the end of a link or an attempt shows something about the peer: not one for somebody who is being served, or one that
  /// went with the radio.
  var endsTellOfPeers: Bool { !radio.isQuietWanted && radio.status.state != .waiting }

  /// One of the two roles has ended; with the last one the link has.
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

  /// Of a file as much waits in the radio as makes it fast; beside chat, which cannot overtake that, less.
  private func fit(_ port: MeshPort, for kind: PacketClass) {
    let isBesideChat = engine?.isBesideChat(at: scheduler.now) ?? true
    guard kind == .file || isBesideChat else { return }
    let backlog = isBesideChat ? Backlog.short : .long
    guard backlog != port.backlog else { return }
    port.backlog = backlog
    radio.allow(backlog, on: port.id)
  }

  /// Sends what waits, as far as the radio takes it.
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
          // The next one goes when this one is written.
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
        // A peer may write before its subscription has arrived; what is for it waits for that.
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

  /// A frame for one link went to all subscribers: those who have heard it need no notification of their own, which the others would hear
  /// once more.
  private func note(_ frame: [UInt8], overheardOn links: [LinkID]) {
    let now = scheduler.now
    let others = links.filter { link in
      guard let port = ports[link], port.isOpen else { return false }
      return port.since.duration(to: now) >= Self.subscribingTime
    }
    overheard.note(frame, on: others, at: now)
  }

  /// Whether a frame is longer than what arrives when it is written: it was made while the peer was notified.
  private func isOnlyNotified(_ frame: [UInt8], _ port: MeshPort) -> Bool {
    frame.count > port.frameLimit && port.isServed && port.isSubscribed
  }

  func hasRoomAgain(_ link: LinkID) {
    guard let port = ports[link] else { return }
    port.isBusy = false
    pump(port)
  }

  /// The radio has taken what was written, or the peer has refused it: it is written again, lest a bearer that ended at that
  /// moment took it along.
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
      // Whether it is of this kind is known now; and where the attempt at its coming has failed, this is another one.
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
    // It is what it is for longer than a pause.
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
        "A link of the mesh was cut: \(reason.sentence)", id: .meshLinkCut, .link(link), .protocolName("bitchat"))
    }
    release(port)
  }

  /// The mesh is done with a link, and drops what waits for it; the radio tells when it is gone.
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

  /// The radio needs a place: of the links, one whose peer is not known goes first, then the newest.
  func giveUp(_ links: [LinkID]) -> LinkID? {
    let chosen = links.last { ports[$0]?.peer == nil } ?? links.last
    if let chosen, let port = ports[chosen] {
      // Whoever needs the place shall not lose it to this node's next attempt.
      finder.failed(port.address, at: scheduler.now)
    }
    return chosen
  }

  /// Leaves the air. What has been said goes out first, as far as the radio takes it in time.
  ///
  /// - Parameter then: called when no link is left, or when it has taken too long; of several calls, each one's, in their order.
  func leaveLinks(then: @escaping @LoopActor () -> Void = {}) {
    whenLeft.append(then)
    (advertisement, scan, watches) = (nil, nil, [])
    findTimer.set(nil)
    dutyTimer.set(nil)
    attempt?.link.disconnect()
    attempt = nil
    // Whoever leaves already has said all, and has the time for it.
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
    // Closing the application ends what the peers have made.
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
        BitchatGATT.advertisement(of: engine.identity.id, every: advertisingInterval), BitchatGATT.advertisingTerms,
        for: server)
    } catch {
      Log.shared.error("The mesh is not advertised: \(error)", .error(error), .protocolName("bitchat"))
    }
  }
}

/// Links that peers have made.
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
    // A client may not listen yet when its subscription has only just arrived.
    port.opening = scheduler.schedule(after: Self.listeningTime) { [weak self, weak port] in
      guard let self, let port, ports[link] === port else { return }
      open(port)
      pump(port)
    }
  }

  public func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    guard characteristic == BitchatGATT.characteristic else { throw .writeNotPermitted }
    guard let port = ports[link], port.isServed else { throw .unlikely }
    // While the radio cuts a link its peer may go on.
    guard !port.isCut else { return }
    if !port.isOpen { open(port) }
    handle(.received(value, on: link))
  }

  public func hasRoom(_ link: LinkID) {
    // What is being written has room when it was written.
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
    case .garbage: "its peer sends nothing that can be read"
    case .noAnnounce: "its peer does not say who it is"
    case .left: "its peer has left"
    case .silent: "its peer has said nothing for long"
    case .second: "there is another one to the same peer"
    case .incompatible: "its peer knows no version of packets that this node knows"
    }
  }
}
