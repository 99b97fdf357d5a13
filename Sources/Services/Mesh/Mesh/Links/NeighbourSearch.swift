import Bitchat
import BitchatWire
import Common
import Journal
import Loop
import Radio

/// Owner of the links, as a search for neighbours sees it.
@LoopActor
protocol NeighbourSearchDelegate: AnyObject {
  /// Whether the node serves its GATT application. Links are of no use before.
  var isServing: Bool { get }
  /// The addresses of all peers that have a link with this node.
  var linkedAddresses: [BluetoothAddress] { get }
  /// Whether a new outgoing link has a slot.
  func hasPlace(forAttempt link: LinkID) -> Bool
  func searchIsScanning(_ isScanning: Bool)
  /// Handles the MTU of a connection, once it is known.
  func attemptConnected(_ link: LinkID, to address: BluetoothAddress, mtu: Int)
  /// Handles the client's subscription to the peer's characteristic.
  func attemptSucceeded(_ link: any Link, to address: BluetoothAddress)
  /// Handles a connection that has ended before the client had subscribed.
  func attemptEnded(_ link: LinkID)
  /// Handles an event of the link that an attempt has just made.
  func linkReported(_ event: LinkEvent, on link: LinkID)
  /// Handles an event of an earlier outgoing link to an address.
  func linkReported(_ event: LinkEvent, from address: BluetoothAddress)
}

/// Scans for neighbours, and connects to one at a time.
@LoopActor
final class NeighbourSearch {
  /// Timeout of a connection attempt, including a wait for the radio. A kernel that connects does not advertise, so two
  /// nodes that connect to each other wait until the first gives up.
  private static let connectTime = Duration.seconds(10)
  /// Pause after an attempt while another service expects a person, as a multiple of the attempt's duration. A radio
  /// cannot always advertise an invitation while it connects.
  private static let restShare = 2
  /// Timeout from the beginning of an attempt to the subscription.
  private static let attemptTime = Duration.seconds(20)

  /// Outgoing connection that is being established.
  @LoopActor
  final class Attempt {
    let address: BluetoothAddress
    let link: any Link
    let since: Instant
    fileprivate var timer: Registration?
    /// Whether the attempt has led to a connection.
    fileprivate var isConnected = false
    /// Whether the attempt was abandoned for another peer. Its end then does not count as a failure of its own peer.
    fileprivate var isAbandoned = false

    fileprivate init(_ address: BluetoothAddress, _ link: any Link, since: Instant) {
      self.address = address
      self.link = link
      self.since = since
    }
  }

  private let node: MeshNode
  private weak var delegate: (any NeighbourSearchDelegate)?
  private(set) var attempt: Attempt?
  private(set) var scan: Registration? { didSet { delegate?.searchIsScanning(scan != nil) } }
  private var finder = NeighbourFinder()
  /// Time until which no attempt begins because another service expects a person.
  private var restsUntil = Instant.zero
  private var duty = ScanDuty()
  private lazy var findTimer = Deadline(node.scheduler) { [weak self] in self?.find() }
  private lazy var dutyTimer = Deadline(node.scheduler) { [weak self] in self?.listen() }

  init(_ node: MeshNode, delegate: any NeighbourSearchDelegate) {
    (self.node, self.delegate) = (node, delegate)
  }

  private var isServing: Bool { delegate?.isServing == true }

  // MARK: Scanning

  /// Scans unless the radio is inhibited; on battery only at times.
  func listen() {
    guard node.isStarted, isServing, node.isRadioFree else {
      // The next scan reports the advertisers that are in range then; losses meanwhile are unknown.
      if scan != nil { finder.forgetAdvertisers() }
      scan = nil
      findTimer.set(nil)
      dutyTimer.set(nil)
      return
    }
    guard isScanDue() else {
      if scan != nil { finder.forget(notHeardSince: node.now.advanced(by: .zero - ScanDuty.period)) }
      scan = nil
      return find()
    }
    guard scan == nil else { return find() }
    do throws(RadioError) {
      scan = try node.radio.scan(for: [BitchatGATT.service]) { [weak self] in self?.heard($0) }
    } catch {
      Log.shared.error("The mesh cannot scan: \(error)", .error(error), .protocolName("bitchat"))
    }
    find()
  }

  /// Stops scanning, and abandons the connection attempt that is under way.
  func stop() {
    scan = nil
    findTimer.set(nil)
    dutyTimer.set(nil)
    attempt?.link.disconnect()
    attempt = nil
  }

  /// Returns whether to scan now. On battery, it also schedules the next check.
  private func isScanDue() -> Bool {
    guard node.settings.power == .battery else {
      dutyTimer.set(nil)
      return true
    }
    let duty = self.duty.look(at: node.now)
    dutyTimer.set(duty.next)
    return duty.isListening
  }

  private func heard(_ event: ScanEvent) {
    switch event {
    case .sighted(let scanResult): finder.sighted(scanResult, at: node.now)
    case .lost(let address): finder.lost(address)
    }
    find()
  }

  /// Records a sent packet. A message may begin a conversation, so a node on battery scans. Announces and sync do not
  /// have this effect.
  func note(sent bytes: [UInt8], _ kind: PacketClass) {
    guard node.settings.power == .battery, kind != .announce, kind != .syncAnswer,
      bytes.count > 1, bytes[1] != MessageType.requestSync.rawValue
    else { return }
    noteTraffic()
  }

  /// Records traffic, and scans if the node is on battery.
  func noteTraffic() {
    guard node.settings.power == .battery else { return }
    duty.traffic(at: node.now)
    if scan == nil { listen() }
  }

  /// Begins new scan times after a change of the power source.
  func restartDuty() {
    duty = ScanDuty()
    listen()
  }

  // MARK: Advertisers

  /// Sets the ID of this node, which leaves the first attempt to nodes with smaller IDs.
  func setOwnID(_ id: PeerID) { finder.own = id }

  /// Number of advertisers and pauses that are remembered now.
  var remembered: (advertisers: Int, pauses: Int) { finder.remembered }

  /// Peer ID in an address's advertisements; nil if unknown.
  func peer(at address: BluetoothAddress) -> PeerID? { finder.peer(at: address) }

  /// Signal strength in dBm of an address, or of a peer's advertiser; nil if unknown.
  func rssi(of address: BluetoothAddress) -> Int? { finder.rssi(of: address) }
  func rssi(of peer: PeerID) -> Int? { finder.rssi(of: peer) }

  /// Clears failures of an address after its peer has announced itself.
  func met(_ address: BluetoothAddress) { finder.met(address) }

  /// Pauses attempts to reach an address because of its peer's behaviour, such as malformed packets.
  func avoid(_ address: BluetoothAddress, for time: Duration) { finder.avoid(address, for: time, at: node.now) }

  /// Pauses attempts to reach an address after an attempt or a link has failed.
  func failed(_ address: BluetoothAddress, first: Duration = NeighbourFinder.pauseAfterFailure) {
    finder.failed(address, first: first, at: node.now)
  }

  /// Sets the pause after the end of a link.
  func ended(_ address: BluetoothAddress) { finder.ended(address, at: node.now) }

  /// Forgets all advertisers after an absence of the radio, and ignores failures during it.
  func loseAll() { finder.loseAll() }

  /// Removes pauses, except those imposed for a peer's behaviour, and searches again.
  func forgive() {
    finder.forgive()
    find()
  }

  /// Forgets all advertisers and pauses, before a wipe.
  func forgetAll() { finder = NeighbourFinder() }

  // MARK: Connecting

  /// Begins a connection attempt to a neighbour if one is due.
  func find() {
    finder.isScanning = scan != nil
    let linked = delegate?.linkedAddresses ?? []
    guard node.isStarted, let engine = node.engine, scan != nil || node.settings.power == .battery, isServing,
      node.isRadioFree, linked.count < node.settings.links
    else {
      return findTimer.set(nil)
    }
    let now = node.now
    let addresses = Set(linked)
    let peers = engine.neighbours.union([engine.identity.id])
    if let attempt { return giveUpIfOutdone(attempt, addresses, peers) }
    guard now >= restsUntil || !node.radio.isPersonAwaited else { return findTimer.set(restsUntil) }
    if let address = finder.next(linked: addresses, peers: peers, at: now) {
      connect(to: address)
    } else {
      findTimer.set(finder.deadline(linked: addresses, peers: peers, at: now))
    }
  }

  /// Abandons an attempt whose advertiser seems to have left, if another one was reported meanwhile.
  private func giveUpIfOutdone(_ attempt: Attempt, _ linked: Set<BluetoothAddress>, _ peers: Set<PeerID>) {
    let now = node.now
    guard !attempt.isConnected, !attempt.isAbandoned else { return findTimer.set(nil) }
    let due = attempt.since.advanced(by: NeighbourFinder.attemptPatience)
    guard now >= due else { return findTimer.set(due) }
    findTimer.set(nil)
    guard finder.isOutdone(attempt.address, since: attempt.since, linked: linked, peers: peers, at: now) else { return }
    attempt.isAbandoned = true
    finder.lost(attempt.address)
    attempt.link.disconnect()
  }

  /// Abandons the attempt if it is for this link.
  func abandon(_ link: LinkID) {
    guard let attempt, attempt.link.id == link else { return }
    attempt.isAbandoned = true
    attempt.link.disconnect()
  }

  private func connect(to address: BluetoothAddress) {
    do throws(RadioError) {
      let link = try node.radio.connect(to: address) { [weak self] in self?.happened($0, at: address) }
      let attempt = Attempt(address, link, since: node.now)
      self.attempt = attempt
      limit(attempt, to: Self.connectTime)
      findTimer.set(attempt.since.advanced(by: NeighbourFinder.attemptPatience))
    } catch {
      finder.failed(address, at: node.now)
      findTimer.set(node.now.advanced(by: NeighbourFinder.attemptPause))
    }
  }

  private func rest(after attempt: Attempt) {
    let now = node.now
    restsUntil = now.advanced(by: attempt.since.duration(to: now) * Self.restShare)
  }

  /// Ends the attempt when `time` has passed since its beginning.
  private func limit(_ attempt: Attempt, to time: Duration) {
    attempt.timer = node.scheduler.schedule(at: attempt.since.advanced(by: time)) { [weak attempt] in
      attempt?.link.disconnect()
    }
  }

  private func happened(_ event: LinkEvent, at address: BluetoothAddress) {
    if let attempt, attempt.address == address {
      advance(attempt, event)
    } else {
      delegate?.linkReported(event, from: address)
    }
  }

  /// Handles the steps of an attempt: connect, exchange the MTU, discover the characteristic, subscribe.
  private func advance(_ attempt: Attempt, _ event: LinkEvent) {
    let link = attempt.link
    switch event {
    case .connected:
      attempt.isConnected = true
      rest(after: attempt)
      limit(attempt, to: Self.attemptTime)
      link.exchangeMTU(BitchatGATT.mtu)
    case .mtuChanged(let mtu):
      guard delegate?.hasPlace(forAttempt: link.id) == true else {
        attempt.isAbandoned = true
        return link.disconnect()
      }
      delegate?.attemptConnected(link.id, to: attempt.address, mtu: mtu)
      link.discover()
    case .discovered(let services):
      if services.contains(where: \.isNode) {
        link.subscribe(to: BitchatGATT.characteristic)
      } else {
        Log.shared.debug(
          "A neighbour advertises the mesh, but does not serve it", .link(link.id), .protocolName("bitchat"))
        link.disconnect()
      }
    case .subscribed: succeeded(attempt)
    case .written: break
    case .notified:
      // A notification of the peer may overtake the response to the subscription.
      succeeded(attempt)
      delegate?.linkReported(event, on: link.id)
    case .disconnected(let reason): ended(attempt, reason)
    }
  }

  private func succeeded(_ attempt: Attempt) {
    self.attempt = nil
    attempt.timer = nil
    delegate?.attemptSucceeded(attempt.link, to: attempt.address)
    find()
  }

  private func ended(_ attempt: Attempt, _ reason: String) {
    self.attempt = nil
    if !attempt.isConnected { rest(after: attempt) }
    if attempt.isAbandoned {
      finder.ended(attempt.address, at: node.now)
    } else if node.isRadioFree {
      finder.failed(attempt.address, at: node.now)
    }
    // Only a scan reports lost advertisers. Without one, this advertiser counts as in range when it is reported
    // again.
    if scan == nil { finder.lost(attempt.address) }
    if node.mayLog(.link) {
      Log.shared.debug("Connecting to a neighbour failed: \(reason)", .protocolName("bitchat"))
    }
    delegate?.attemptEnded(attempt.link.id)
    find()
  }
}

extension GATTService {
  /// Whether the service is the GATT service of a mesh node.
  var isNode: Bool {
    uuid == BitchatGATT.service
      && characteristics.contains { $0.uuid == BitchatGATT.characteristic.characteristic }
  }
}
