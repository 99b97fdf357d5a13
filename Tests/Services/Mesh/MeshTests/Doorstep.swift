import Bitchat
import Common
import Crypto
import Loop
import Radio

@testable import Mesh

/// A radio without air, for long times: who comes by is there at once, and what is said arrives a little later. Half of those who
/// come connect, and half are sighted and connected to.
@LoopActor
final class Doorstep: Radio {
  /// From one end of a link to the other.
  private static let way = Duration.milliseconds(5)

  let time: any Scheduler
  /// Of those who have a link, by it.
  private(set) var guests: [LinkID: Passer] = [:]
  /// Those who can be connected to.
  private var sighted: [BluetoothAddress: Passer] = [:]
  private var lastLink: UInt64 = 0
  private weak var delegate: (any GATTServerDelegate)?
  private var scanner: (@LoopActor (ScanEvent) -> Void)?
  private var visits: [LinkID: Visit] = [:]
  /// How many values a visit takes at once before one has to be written, as by a socket with a small buffer.
  private static let room = 3
  /// Gets what the service says on visits: values that were taken at once, and values that were written.
  var onVisitValue: @LoopActor (_ value: [UInt8], _ isAtOnce: Bool) -> Void = { _, _ in }
  /// Whether those whom the service visits refuse what it writes.
  var isRefusing = false
  /// The links of which the service said that their peers will stream.
  fileprivate(set) var streamers: [LinkID] = []
  /// How much may wait on the way to whom, in the order in which the service decided.
  private(set) var backlogs: [(link: LinkID, backlog: Backlog)] = []
  private var calls: [UInt64: Registration] = [:]
  private var lastCall: UInt64 = 0

  init(_ time: any Scheduler) { self.time = time }

  // MARK: Those who come by

  /// Somebody is near from now on.
  func come(_ passer: Passer, as address: BluetoothAddress, connects: Bool) {
    passer.address = address
    guard connects else {
      sighted[address] = passer
      let node = AdvertisingData.ServiceData(service: BitchatGATT.service, bytes: passer.engine.identity.id.bytes)
      let sighting = Sighting(address: address, serviceUUIDs: [BitchatGATT.service], serviceData: [node], rssi: -60)
      return soon { $0.scanner?(.sighted(sighting)) }
    }
    let link = nextLink()
    guests[link] = passer
    soon { doorstep in
      guard let delegate = doorstep.delegate, doorstep.guests[link] != nil else { return }
      delegate.linkOpened(link, address: address, since: doorstep.time.now)
      delegate.linkChanged(link, mtu: BitchatGATT.mtu)
      delegate.subscribed(link, to: BitchatGATT.characteristic, true)
      passer.opened(link, isOurs: true)
    }
  }

  /// A phone connects of which the test says what it writes.
  func come(as address: BluetoothAddress) -> LinkID {
    let link = nextLink()
    delegate?.linkOpened(link, address: address, since: time.now)
    delegate?.linkChanged(link, mtu: BitchatGATT.mtu)
    delegate?.subscribed(link, to: BitchatGATT.characteristic, true)
    return link
  }

  /// Somebody who was connected to writes over the same link.
  func use(_ link: LinkID, by passer: Passer) { delegate?.linkOpened(link, address: passer.address, since: time.now) }

  func write(_ bytes: [UInt8], on link: LinkID) {
    try? delegate?.written(bytes, to: BitchatGATT.characteristic, on: link)
  }

  /// Somebody is gone, without a word.
  func go(_ passer: Passer) {
    let address = passer.address
    sighted = sighted.filter { $0.value !== passer }
    for link in guests.keys.filter({ guests[$0] === passer }) { end(link) }
    soon { $0.scanner?(.lost(address)) }
  }

  /// A passer says something.
  func said(_ bytes: [UInt8], on link: LinkID) {
    soon { doorstep in
      guard doorstep.guests[link] != nil else { return }
      if let visit = doorstep.visits[link] {
        visit.handler(.notified(BitchatGATT.characteristic, bytes))
      } else {
        try? doorstep.delegate?.written(bytes, to: BitchatGATT.characteristic, on: link)
      }
    }
  }

  /// Something is said to a passer.
  fileprivate func say(_ bytes: [UInt8], on link: LinkID) { soon { $0.guests[link]?.received(bytes, on: link) } }

  fileprivate func end(_ link: LinkID) {
    guard let passer = guests.removeValue(forKey: link) else { return }
    let visit = visits.removeValue(forKey: link)
    soon { doorstep in
      passer.closed(link)
      if let visit {
        visit.handler(.disconnected(reason: "gone"))
      } else {
        doorstep.delegate?.linkClosed(link)
      }
    }
  }

  private func nextLink() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  fileprivate func soon(_ body: @escaping @LoopActor (Doorstep) -> Void) {
    after(Self.way) { [weak self] in
      guard let self else { return }
      body(self)
    }
  }

  /// Calls `body` after a time, whatever becomes of who asked.
  func after(_ pause: Duration, _ body: @escaping @LoopActor () -> Void) {
    lastCall += 1
    let call = lastCall
    calls[call] = time.schedule(at: time.now.advanced(by: pause)) { [weak self] in
      self?.calls[call] = nil
      body()
    }
  }

  // MARK: The port

  var status: RadioStatus { RadioStatus(.ready) }
  var tallies: [Tally] { [] }
  var isQuietWanted: Bool { false }
  var isPersonAwaited: Bool { false }

  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration { Registration {} }
  func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration { Registration {} }
  func allow(_ backlog: Backlog, on link: LinkID) { backlogs.append((link, backlog)) }
  func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?) {}
  func askForQuiet() -> Registration { Registration {} }

  var advertisingUse: AdvertisingUse { AdvertisingUse(used: 0, places: 1, onAir: [], waiting: []) }

  func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet {
    throw .notSupported("There is no air.")
  }

  func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("There is no air.")
  }

  func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration { Registration {} }

  func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    self.delegate = delegate
    return Server(self)
  }

  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration {
    scanner = handler
    return Registration { [weak self] in self?.scanner = nil }
  }

  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    let visit = Visit(nextLink(), self, handler)
    guard let passer = sighted[address] else {
      soon { _ in handler(.disconnected(reason: "not here")) }
      return visit
    }
    visits[visit.id] = visit
    guests[visit.id] = passer
    soon { doorstep in if doorstep.guests[visit.id] != nil { handler(.connected) } }
    return visit
  }

  /// A link that the service has made.
  @LoopActor
  private final class Visit: Link {
    let id: LinkID
    let handler: @LoopActor (LinkEvent) -> Void
    private weak var doorstep: Doorstep?
    private var room = Doorstep.room
    private var isWriting = false

    init(_ id: LinkID, _ doorstep: Doorstep, _ handler: @escaping @LoopActor (LinkEvent) -> Void) {
      (self.id, self.doorstep, self.handler) = (id, doorstep, handler)
    }

    private func soon(_ event: LinkEvent) {
      doorstep?.soon { [handler, id] in if $0.guests[id] != nil { handler(event) } }
    }

    func discover() { soon(.discovered(BitchatGATT.application.services)) }
    func exchangeMTU(_ mtu: Int) { soon(.mtuChanged(mtu)) }
    func subscribe(to characteristic: CharacteristicID) {
      doorstep?.guests[id]?.opened(id, isOurs: false)
      soon(.subscribed(characteristic))
    }
    func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
      precondition(!isWriting, "a stream is written one value after the other")
      isWriting = true
      doorstep?.onVisitValue(value, false)
      let isRefused = doorstep?.isRefusing == true
      if !isRefused { doorstep?.say(value, on: id) }
      doorstep?.soon { [weak self, id] doorstep in
        guard let self, doorstep.guests[id] != nil else { return }
        (isWriting, room) = (false, Doorstep.room)
        handler(.written(characteristic, error: isRefused ? .insufficientResources : nil))
      }
    }
    func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
      guard room > 0, !isWriting, let doorstep else { return false }
      room -= 1
      doorstep.onVisitValue(value, true)
      doorstep.say(value, on: id)
      return true
    }
    func disconnect() { doorstep?.end(id) }
  }

  @LoopActor
  private final class Server: GATTServer {
    private weak var doorstep: Doorstep?

    init(_ doorstep: Doorstep) { self.doorstep = doorstep }

    func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
      guard case .link(let link) = recipients, let doorstep, doorstep.guests[link] != nil else { return Delivery() }
      doorstep.say(value, on: link)
      return Delivery(accepted: [link])
    }

    func expectStream(from link: LinkID) { doorstep?.streamers.append(link) }
    func disconnect(_ link: LinkID) { doorstep?.end(link) }
    func close() {
      guard let doorstep else { return }
      for link in doorstep.guests.keys { doorstep.end(link) }
    }
  }
}

/// Somebody who comes by with a phone: an engine of the mesh, and what it was told.
@LoopActor
final class Passer {
  private(set) var engine: MeshEngine
  var address = BluetoothAddress(0)
  private(set) var heard = 0
  private(set) var told = 0
  private(set) var files = 0
  private(set) var states: [UInt32: FileState] = [:]
  private let name: String
  private let doorstep: Doorstep
  private let clock: Village.Clock
  private var random: SeededRandom
  private var timer: Registration?
  private var waiting: [LinkID: Int] = [:]

  init(_ name: String, seed: UInt64, _ doorstep: Doorstep, _ clock: Village.Clock) {
    random = SeededRandom(seed: seed)
    (self.name, self.doorstep, self.clock) = (name, doorstep, clock)
    engine = MeshEngine(
      identity: MeshEngine.Identity(randomFrom: &random), configuration: .init(nickname: name), random: random)
    begin()
  }

  /// The phone is switched off and on: it is who it was, and knows nothing else.
  func restart() {
    // Another one than before: what is drawn by lot must not come again.
    random = SeededRandom(seed: random.next())
    engine = MeshEngine(identity: engine.identity, configuration: .init(nickname: name), random: random)
    (waiting, states) = ([:], [:])
    begin()
  }

  private func begin() {
    handle(.clock(isTrusted: true))
    handle(.start)
  }

  var id: PeerID { engine.identity.id }
  var isLinked: Bool { !engine.neighbours.isEmpty }
  private var now: Instant { doorstep.time.now }
  private var wall: UInt64 { UInt64(clock.milliseconds) }

  func opened(_ link: LinkID, isOurs: Bool) { handle(.linkOpened(link, frameLimit: 512, isOurs: isOurs)) }
  func received(_ bytes: [UInt8], on link: LinkID) { handle(.received(bytes, on: link)) }
  func closed(_ link: LinkID) {
    waiting[link] = nil
    handle(.linkClosed(link))
  }

  func say(_ text: String) { if let said = engine.say(text, at: now, time: wall) { carryOut(said.actions) } }
  func tell(_ text: String, to peer: PeerID, as number: UInt32) throws {
    carryOut(try engine.tell(text, to: peer, as: number, at: now, time: wall))
  }
  func send(_ file: SharedFile, to peer: PeerID?, as number: UInt32) throws {
    carryOut(try engine.send(file, to: peer, as: number, at: now, time: wall))
  }

  private func handle(_ event: MeshEngine.Event) { carryOut(engine.handle(event, at: now, time: wall)) }

  private func carryOut(_ actions: [MeshEngine.Action]) {
    for action in actions {
      switch action {
      case .send(let bytes, let link, let kind):
        doorstep.said(bytes, on: link)
        if kind == .file { tookFile(link) }
      case .cut(let link, _): doorstep.end(link)
      case .heard: heard += 1
      case .told(let message, let peer, _):
        told += 1
        handle(.kept(message.id, from: peer))
      case .toldAgain(let id, let peer): handle(.kept(id, from: peer))
      case .file(let file):
        files += 1
        if let receipt = file.receipt { handle(.fileKept(receipt, from: file.sender)) }
      case .fileState(let number, let state): states[number] = state
      default: break
      }
    }
    setTimer()
  }

  /// The air has room again a little later.
  private func tookFile(_ link: LinkID) {
    guard doorstep.guests[link] != nil else { return }
    waiting[link, default: 0] += 1
    doorstep.after(.milliseconds(2)) { [weak self] in
      guard let self, let count = waiting[link] else { return }
      waiting[link] = count - 1
      handle(.room(link, waiting: count - 1))
    }
  }

  private func setTimer() {
    timer = engine.deadline.map { due in
      doorstep.time.schedule(at: due) { [weak self] in self?.handle(.timer) }
    }
  }
}
