import Bitchat
import Common
import Journal
import Loop
import Radio

/// Outgoing links to neighbours.
extension MeshService {
  /// Timeout of a connection attempt, including a wait for the radio. A kernel that connects does not advertise, so two
  /// nodes that connect to each other wait until the first gives up.
  private static let connectTime = Duration.seconds(10)
  /// Pause after an attempt while another service expects a person, as a multiple of the attempt's duration. A radio
  /// that connects may be unable to advertise an invitation.
  private static let restShare = 2
  /// Timeout from the beginning of an attempt to the subscription.
  private static let attemptTime = Duration.seconds(20)

  /// Outgoing connection that is being established.
  @LoopActor
  final class Attempt {
    let address: BluetoothAddress
    let link: any Link
    let since: Instant
    var timer: Registration?
    /// Whether the connection is established.
    var isConnected = false
    /// Whether the attempt was abandoned for another peer. Its end then does not count as a failure of its own peer.
    var gaveWay = false

    init(_ address: BluetoothAddress, _ link: any Link, since: Instant) {
      self.address = address
      self.link = link
      self.since = since
    }
  }

  /// Scans unless the radio is inhibited; on battery only at times.
  func listen() {
    guard isStarted, server != nil, !radio.isQuietWanted, radio.status.state != .waiting else {
      // The next scan reports the advertisers that are in range then; losses meanwhile are unknown.
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
      Log.shared.error("The mesh cannot scan: \(error)", .error(error), .protocolName("bitchat"))
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

  /// Begins a connection if one is due.
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

  /// Ends an attempt after this time from its beginning.
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

  /// Handles the steps of an attempt: connect, exchange the MTU, discover the characteristic, subscribe.
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
        Log.shared.debug(
          "A neighbour advertises the mesh, but does not serve it", .link(link.id), .protocolName("bitchat"))
        link.disconnect()
      }
    case .subscribed: arrived(attempt)
    case .written: break
    case .notified:
      // A notification of the peer may overtake the response to the subscription.
      use(event, arrived(attempt))
    case .disconnected(let reason):
      self.attempt = nil
      if !attempt.isConnected { rest(after: attempt) }
      if attempt.gaveWay {
        finder.ended(attempt.address, at: scheduler.now)
      } else if endsTellOfPeers {
        finder.failed(attempt.address, at: scheduler.now)
      }
      // Only a scan reports lost advertisers. Without one, this advertiser counts as in range when it is reported
      // again.
      if scan == nil { finder.lost(attempt.address) }
      if told.allow(.link, at: scheduler.now) {
        Log.shared.debug("Connecting to a neighbour failed: \(reason)", .protocolName("bitchat"))
      }
      if let port = ports[link.id] { closeIfUnused(port) }
      find()
    }
  }

  /// Handles an attempt that has succeeded.
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

  /// Handles the end of the GATT client on a link. If the peer is also a client of this node, the link stays, and
  /// waiting packets are notified.
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
