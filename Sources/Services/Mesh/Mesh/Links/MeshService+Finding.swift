import Bitchat
import Common
import Journal
import Loop
import Radio

/// Neighbours that this node connects to.
extension MeshService {
  /// From the beginning of an attempt until there is a link; the radio may let it wait for its turn. A kernel that connects does not
  /// advertise, so two that have begun with each other all the same wait until the first one gives up.
  private static let connectTime = Duration.seconds(10)
  /// While another service awaits a person, the mesh waits so many times as long as its last attempt took, whether a link came of it or
  /// not: a radio that connects may show no invitation meanwhile.
  private static let restShare = 2
  /// From the beginning until the peer's characteristic is subscribed to.
  private static let attemptTime = Duration.seconds(20)

  /// A connection that is being made.
  @LoopActor
  final class Attempt {
    let address: BluetoothAddress
    let link: any Link
    let since: Instant
    var timer: Registration?
    /// Whether there is a link.
    var isConnected = false
    /// Whether the attempt was abandoned for another peer. Its end then does not count as a failure of its own peer.
    var gaveWay = false

    init(_ address: BluetoothAddress, _ link: any Link, since: Instant) {
      self.address = address
      self.link = link
      self.since = since
    }
  }

  /// Scans while nobody wants quiet, and on a battery while it is time to.
  func listen() {
    guard isStarted, server != nil, !radio.isQuietWanted, radio.status.state != .waiting else {
      // The next scan says who is near then, and not who went meanwhile.
      if scan != nil { finder.forgetAdvertisers() }
      scan = nil
      findTimer.set(nil)
      dutyTimer.set(nil)
      return
    }
    guard isScanDue() else {
      if scan != nil { finder.forget(notHeardSince: scheduler.now.advanced(by: .zero - ScanDuty.period)) }
      scan = nil
      return find()
    }
    guard scan == nil else { return find() }
    do throws(RadioError) {
      scan = try radio.scan(for: [BitchatGATT.service]) { [weak self] in self?.heard($0) }
    } catch {
      Log.shared.error("The mesh does not scan: \(error)", .error(error), .protocolName("bitchat"))
    }
    find()
  }

  func radioChanged(_ status: RadioStatus) {
    if status.state == .waiting { finder.loseAll() }
    lookAtWrites()
    listen()
    changed()
  }

  private func heard(_ event: ScanEvent) {
    switch event {
    case .sighted(let sighting): finder.sighted(sighting, at: scheduler.now)
    case .lost(let address): finder.lost(address)
    }
    find()
  }

  /// Begins to connect, if it is time to.
  func find() {
    finder.isScanning = scan != nil
    guard isStarted, let engine, scan != nil || settings.power == .battery, server != nil, !radio.isQuietWanted,
      radio.status.state != .waiting, ports.count < settings.links
    else {
      return findTimer.set(nil)
    }
    let now = scheduler.now
    let linked = Set(ports.values.map(\.address))
    let peers = engine.neighbours.union([engine.identity.id])
    if let attempt { return giveUpIfOutdone(attempt, linked, peers) }
    guard now >= restsUntil || !radio.isPersonAwaited else { return findTimer.set(restsUntil) }
    if let address = finder.next(linked: linked, peers: peers, at: now) {
      connect(to: address)
    } else {
      findTimer.set(finder.deadline(linked: linked, peers: peers, at: now))
    }
  }

  /// Abandons an attempt whose advertiser seems to have left, if another one was reported meanwhile.
  private func giveUpIfOutdone(_ attempt: Attempt, _ linked: Set<BluetoothAddress>, _ peers: Set<PeerID>) {
    let now = scheduler.now
    guard !attempt.isConnected, !attempt.gaveWay else { return findTimer.set(nil) }
    let due = attempt.since.advanced(by: NeighbourFinder.attemptPatience)
    guard now >= due else { return findTimer.set(due) }
    findTimer.set(nil)
    guard finder.isOutdone(attempt.address, since: attempt.since, linked: linked, peers: peers, at: now) else { return }
    attempt.gaveWay = true
    finder.lost(attempt.address)
    attempt.link.disconnect()
  }

  private func connect(to address: BluetoothAddress) {
    do throws(RadioError) {
      let link = try radio.connect(to: address) { [weak self] in self?.happened($0, at: address) }
      let attempt = Attempt(address, link, since: scheduler.now)
      self.attempt = attempt
      limit(attempt, to: Self.connectTime)
      findTimer.set(attempt.since.advanced(by: NeighbourFinder.attemptPatience))
    } catch {
      finder.failed(address, at: scheduler.now)
      findTimer.set(scheduler.now.advanced(by: NeighbourFinder.attemptPause))
    }
  }

  private func rest(after attempt: Attempt) {
    let now = scheduler.now
    restsUntil = now.advanced(by: attempt.since.duration(to: now) * Self.restShare)
  }

  /// It is given up so long after it began.
  private func limit(_ attempt: Attempt, to time: Duration) {
    attempt.timer = scheduler.schedule(at: attempt.since.advanced(by: time)) { [weak attempt] in
      attempt?.link.disconnect()
    }
  }

  private func happened(_ event: LinkEvent, at address: BluetoothAddress) {
    if let attempt, attempt.address == address {
      arrive(event, attempt)
    } else if let port = ports.values.first(where: { $0.address == address && $0.client != nil }) {
      use(event, port)
    }
  }

  /// The way from an attempt to a link that works: connect, agree on an MTU, find the characteristic, subscribe to it.
  private func arrive(_ event: LinkEvent, _ attempt: Attempt) {
    let link = attempt.link
    switch event {
    case .connected:
      attempt.isConnected = true
      rest(after: attempt)
      limit(attempt, to: Self.attemptTime)
      link.exchangeMTU(BitchatGATT.mtu)
    case .mtuChanged(let mtu):
      guard hasPlace(forAttempt: link.id) else {
        attempt.gaveWay = true
        return link.disconnect()
      }
      port(link.id, attempt.address).mtu = mtu
      link.discover()
    case .discovered(let services):
      if services.contains(where: \.isNode) {
        link.subscribe(to: BitchatGATT.characteristic)
      } else {
        Log.shared.debug("A neighbour does not serve what it advertises", .link(link.id), .protocolName("bitchat"))
        link.disconnect()
      }
    case .subscribed: arrived(attempt)
    case .written: break
    case .notified:
      // What the peer says to its new subscriber may overtake the answer.
      use(event, arrived(attempt))
    case .disconnected(let reason):
      self.attempt = nil
      if !attempt.isConnected { rest(after: attempt) }
      if attempt.gaveWay {
        finder.ended(attempt.address, at: scheduler.now)
      } else if endsTellOfPeers {
        finder.failed(attempt.address, at: scheduler.now)
      }
      // Only a scan tells that an advertiser is lost: without one it counts as near when it is heard again.
      if scan == nil { finder.lost(attempt.address) }
      if told.allow(.link, at: scheduler.now) {
        Log.shared.debug("No link to a neighbour: \(reason)", .protocolName("bitchat"))
      }
      if let port = ports[link.id] { closeIfUnused(port) }
      find()
    }
  }

  /// The link works.
  @discardableResult
  private func arrived(_ attempt: Attempt) -> MeshPort {
    self.attempt = nil
    attempt.timer = nil
    let port = port(attempt.link.id, attempt.address)
    (port.client, port.isClientReady, port.isOurs) = (attempt.link, true, true)
    port.writeLimit = attempt.link.writeLimit
    open(port)
    find()
    return port
  }

  func use(_ event: LinkEvent, _ port: MeshPort) {
    switch event {
    case .notified(_, let value):
      guard port.isOpen else { return }
      handle(.received(value, on: port.id))
    case .written(_, let error): wrote(port, error)
    case .mtuChanged(let mtu): linkChanged(port.id, mtu: mtu)
    case .disconnected: clientEnded(port)
    case .connected, .discovered, .subscribed: break
    }
  }

  /// Our end as the client of the peer is gone. If the peer is a client of ours, the link goes on, and what waits is notified.
  private func clientEnded(_ port: MeshPort) {
    let wasWriting = port.writing != nil
    (port.client, port.isClientReady, port.isBusy, port.writing) = (nil, false, false, nil)
    closeIfUnused(port)
    guard ports[port.id] === port else { return }
    if wasWriting { unreachable += 1 }
    limitChanged(port)
    pump(port)
  }
}
