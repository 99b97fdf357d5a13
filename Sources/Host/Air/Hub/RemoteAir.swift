import Bytes
import Common
import Journal
import Loop
import Radio

/// The radio driver for a node of a hub's simulated radio, over the hub's socket.
///
/// While the hub is not reachable the driver retries. After a reconnection it restores advertisements, applications and
/// the scan. Links end with the connection to the hub.
@LoopActor
public final class RemoteAir: RadioDriver, AirSocketOwner {
  /// Maximum pause between two attempts to reach the hub.
  private static let longestPause = Duration.seconds(5)
  /// Number of unsent bytes for the hub beyond which links are reported as full.
  private static let congestion = 1 << 20

  public let path: String
  private let wanted: BluetoothAddress?
  private let log: Log
  private let loop = EventLoop.shared

  private var socket: AirSocket?
  private var backoff: Backoff
  private var retry: Registration?
  private var abilities = AirAbilities(AirController())
  /// The node's status as the hub reports it; `waiting` while the hub is not connected.
  private var nodeStatus: RadioStatus
  private var slots: [Int: EncodedAdvertisement] = [:]
  /// The advertisements of `slots` before encoding.
  private var advertisements: [Int: Advertisement] = [:]
  /// The advertisements that the delegate was notified of.
  private var toldOnAir: [Int: Advertisement] = [:]
  private var slotErrors: [Int: RadioError] = [:]
  private var listening: Listening?
  /// Applications in the order in which they were served.
  private var applications: [RemoteApplication] = []
  /// The links that are up, by this process's numbers.
  private var peers: [LinkID: RemotePeer] = [:]
  /// This process's numbers of the links, by the hub's numbers.
  var links: [LinkID: LinkID] = [:]
  private var connections: [UInt32: RemoteConnection] = [:]
  private var lastConnection: UInt32 = 0
  private lazy var streams = RemoteStreams { [weak self] in self?.sendIfIn($0) }

  private struct RemoteApplication {
    let number: ApplicationID
    let application: GATTApplication
    let characteristics: [CharacteristicID: GATTCharacteristic]
    var isServed = false
  }

  /// Number of the last link. Link numbers are unique in a process, also across reconnections to the hub.
  private static var lastLink: UInt64 = 0

  private static func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  /// - Parameters:
  ///   - path: path of the hub's socket.
  ///   - address: the address that the node requests; nil lets the hub choose one.
  ///   - pause: between the first two attempts to reach the hub; it doubles up to 5 s.
  public init(
    path: String, address: BluetoothAddress? = nil, pause: Duration = .milliseconds(100), log: Log = .shared
  ) {
    self.path = path
    self.log = log
    wanted = address
    backoff = Backoff(from: pause, upTo: Self.longestPause)
    nodeStatus = RadioStatus(.waiting, reason: Self.absence(path))
    status = nodeStatus
    reach()
  }

  private static func absence(_ path: String) -> String {
    "The simulated radio at \(path) is not available; start earshot-air."
  }

  /// The node's address, once the hub has accepted the node.
  public private(set) var address: BluetoothAddress?

  public weak var delegate: (any RadioDriverDelegate)?

  public let tallies: [Tally] = []

  // MARK: Status

  public private(set) var status: RadioStatus {
    didSet {
      guard status != oldValue else { return }
      let status = status
      loop.soon { [weak self] in self?.delegate?.statusChanged(status) }
    }
  }

  private func updateStatus() {
    onAirMayHaveChanged()
    var status = nodeStatus
    if nodeStatus.state == .ready, let error = slotErrors.min(by: { $0.key < $1.key })?.value {
      status = RadioStatus(.degraded, reason: error.sentence, adapters: nodeStatus.adapters)
    }
    status.traits.isReachable = isIn && streams.isAccepting
    self.status = status
  }

  // MARK: The connection

  /// Leaves the simulated radio, without connecting to the hub again.
  public func close() {
    lose(Self.absence(path), mayReturn: false)
  }

  private func reach() {
    retry = nil
    guard let descriptor = UnixSocket.connect(to: path) else { return tryLater() }
    socket = AirSocket(descriptor, owner: self)
    send(.hello(version: AirWire.version, address: wanted ?? address))
  }

  private func tryLater() {
    retry = loop.schedule(after: backoff.next()) { [weak self] in self?.reach() }
  }

  /// Whether the hub has accepted the node.
  private var isIn: Bool { nodeStatus.state != .waiting }

  private func enter(_ address: BluetoothAddress, _ abilities: AirAbilities) {
    self.address = address
    backoff.reset()
    nodeStatus = RadioStatus(.ready, adapters: ["air0"])
    changed(abilities)
    for (slot, content) in slots.sorted(by: { $0.key < $1.key }) {
      send(.advertise(slot: UInt8(clamping: slot), content))
    }
    for served in applications { serve(served) }
    if listening != nil { sendListening() }
    publicAddress = address
    streams.enter()
    updateStatus()
  }

  private func lose(_ reason: String, mayReturn: Bool = true) {
    socket?.close()
    socket = nil
    let connections = connections.sorted { $0.key < $1.key }.map(\.value)
    let links = peers.keys.sorted { $0.number < $1.number }
    let served = applications.filter(\.isServed).map(\.number)
    self.connections = [:]
    self.links = [:]
    peers = [:]
    for index in applications.indices { applications[index].isServed = false }
    nodeStatus = RadioStatus(.waiting, reason: reason)
    publicAddress = nil
    updateStatus()
    loop.soon { [weak self] in
      self?.streams.lose("The connection to the simulated radio ended.")
      for connection in connections { connection.end("The connection to the simulated radio ended.") }
      for link in links { self?.delegate?.linkDown(link) }
      for number in served { self?.delegate?.applicationChanged(number, isServed: false) }
    }
    if mayReturn { tryLater() } else { retry = nil }
  }

  func ended(_ reason: String) {
    if reason != AirSocket.hasGone { log.warning("The connection to the simulated radio ended: \(reason).") }
    lose(Self.absence(path))
  }

  func drained() {
    makeRoom()
  }

  func send(_ frame: NodeFrame) {
    socket?.send(frame.write(to:))
  }

  func receive(_ reader: inout ByteReader) throws(WireError) {
    let frame = try HubFrame(reading: &reader)
    switch frame {
    case .welcome(let address, let abilities): enter(address, abilities)
    case .refused(let reason):
      // The hub may have given the former address to another program in the meantime.
      address = nil
      lose(reason)
    case .status(let state, let reason):
      nodeStatus = RadioStatus(state, reason: reason, adapters: state == .waiting ? [] : ["air0"])
      updateStatus()
    case .abilities(let abilities): changed(abilities)
    case .addressChanged(let address): self.address = address
    default: happened(frame)
    }
  }

  private func changed(_ abilities: AirAbilities) {
    let old = advertisingSlots
    self.abilities = abilities
    guard advertisingSlots != old else { return }
    slots = slots.filter { $0.key < advertisingSlots }
    advertisements = advertisements.filter { $0.key < advertisingSlots }
    slotErrors = slotErrors.filter { $0.key < advertisingSlots }
    updateStatus()
    loop.soon { [weak self] in self?.delegate?.advertisingSlotsChanged() }
  }

  // MARK: Connecting

  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard isIn else { throw .notReady(status.reason) }
    lastConnection &+= 1
    let number = lastConnection
    let shared = peers.first { $0.value.address == address }?.key
    let connection = RemoteConnection(
      shared ?? Self.newLinkID(), address, isShared: shared != nil, handler)
    connections[number] = connection
    send(.connect(connection: number, address))
    return RemoteLink(air: self, number: number, connection)
  }

  /// Cancels a connection attempt without affecting the link that it was to share.
  func forget(_ number: UInt32) {
    guard let connection = connections.removeValue(forKey: number) else { return }
    loop.soon { connection.end(AirEnd.disconnected) }
  }

  // MARK: Streams

  public private(set) var publicAddress: BluetoothAddress?

  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    defer { updateStatus() }
    return try streams.listen(on: profile, isIn: isIn, handler, onEnd: { [weak self] in self?.updateStatus() })
  }

  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    guard isIn else { throw .notReady(status.reason) }
    return streams.connect(to: address, on: profile, then: then)
  }

  // MARK: Advertising

  public var advertisingSlots: Int { max(1, Int(abilities.advertisingSlots)) }

  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    defer { updateStatus() }
    // The advertisement of a different set is sent from a different address.
    let isOtherSet = advertisements[slot].map { $0.setID != advertisement?.setID } ?? false
    slots[slot] = nil
    slotErrors[slot] = nil
    advertisements[slot] = nil
    guard (0..<advertisingSlots).contains(slot), let number = UInt8(exactly: slot) else { return }
    guard let advertisement else { return sendIfIn(.silence(slot: number)) }
    if isOtherSet { sendIfIn(.silence(slot: number)) }
    do throws(RadioError) {
      let content = try EncodedAdvertisement(advertisement)
      slots[slot] = content
      advertisements[slot] = advertisement
      sendIfIn(.advertise(slot: number, content))
    } catch {
      slotErrors[slot] = error
      sendIfIn(.silence(slot: number))
    }
  }

  /// Reports the contents of the slots to the delegate at the end of this loop iteration, if they changed.
  private func onAirMayHaveChanged() {
    loop.soon { [weak self] in
      guard let self else { return }
      let shown = isIn ? advertisements : [:]
      let changed = Set(shown.keys).union(toldOnAir.keys).filter { shown[$0] != self.toldOnAir[$0] }
      toldOnAir = shown
      for slot in changed.sorted() { delegate?.onAir(shown[slot], in: slot) }
    }
  }

  /// Sends a frame if the node has joined. Otherwise its content is sent when the hub accepts the node.
  private func sendIfIn(_ frame: NodeFrame) {
    if isIn { send(frame) }
  }

  // MARK: Scanning

  public var deafness: String? { abilities.seesPackets ? nil : AirController.deafness }

  public func listen(_ listening: Listening?) {
    guard listening != self.listening else { return }
    self.listening = listening
    if isIn { sendListening() }
  }

  /// Sends the scan filter. More services than a frame can contain are replaced by no filter.
  private func sendListening() {
    var listening = listening
    if let services = listening?.services, services.count > AirWire.uuidLimit { listening?.services = [] }
    send(.listen(listening))
  }

  private func heard(_ scanResult: ScanResult) {
    guard let services = listening?.services else { return }
    guard services.isEmpty || scanResult.serviceUUIDs.contains(where: services.contains) else { return }
    delegate?.heard(scanResult)
  }

  // MARK: Serving

  /// - Precondition: the number is not in use; at most 64 services of at most 64 characteristics.
  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    precondition(!applications.contains { $0.number == number }, "\(number) is served already")
    precondition(
      application.services.count <= AirWire.serviceLimit
        && application.services.allSatisfy { $0.characteristics.count <= AirWire.characteristicLimit })
    let served = RemoteApplication(
      number: number, application: application, characteristics: application.characteristics)
    applications.append(served)
    if isIn { serve(served) }
  }

  private func serve(_ served: RemoteApplication) {
    send(.serve(application: UInt32(truncatingIfNeeded: served.number.number), served.application))
  }

  public func stopServing(_ number: ApplicationID) {
    guard applications.contains(where: { $0.number == number }) else { return }
    applications.removeAll { $0.number == number }
    for link in peers.keys { peers[link]?.ended(number) }
    sendIfIn(.stopServing(application: UInt32(truncatingIfNeeded: number.number)))
  }

  public func isServed(_ number: ApplicationID) -> Bool { application(number)?.isServed ?? false }

  private func application(_ number: ApplicationID) -> RemoteApplication? { applications.first { $0.number == number } }

  // MARK: Links

  public func origin(of link: LinkID) -> LinkOrigin {
    guard let peer = peers[link] else { return .unknown }
    return peer.traits.isOurs ? .here : .peer
  }

  public func cut(_ link: LinkID) {
    if let peer = peers[link] { send(.cut(peer.hubLink)) }
  }

  // MARK: Notifying

  public func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    let meant = recipients.distinctLinks {
      peers.filter { $0.value.hasSubscribed(to: characteristic, in: application) }.keys.sorted { $0.number < $1.number }
    }
    guard let served = self.application(application), served.isServed,
      let declared = served.characteristics[characteristic], declared.canNotify
    else { return Delivery(unreachable: meant) }
    var delivery = Delivery()
    var hubLinks: [LinkID] = []
    let isCongested = isCongested
    for link in meant {
      guard let peer = peers[link],
        peer.hears(characteristic, of: application, declared.reach, hasRawHCI: abilities.hasRawHCI)
      else {
        delivery.unreachable.append(link)
        continue
      }
      if peer.hasRoom, !isCongested {
        peers[link]?.sent()
        delivery.accepted.append(link)
        hubLinks.append(peer.hubLink)
      } else {
        peers[link]?.wasFull = true
        delivery.full.append(link)
      }
    }
    while !hubLinks.isEmpty {
      let some = Array(hubLinks.prefix(AirWire.linkLimit))
      hubLinks.removeFirst(some.count)
      send(.notify(application: UInt32(truncatingIfNeeded: application.number), some, characteristic, value))
    }
    // All bytes may be sent in this loop iteration; the socket then does not call `drained`.
    if isCongested, !delivery.full.isEmpty { loop.soon { [weak self] in self?.makeRoom() } }
    return delivery
  }

  private var isCongested: Bool { (socket?.unsent ?? 0) > Self.congestion }

  /// Reports links that were full and have capacity now.
  private func makeRoom() {
    guard !isCongested else { return }
    for link in peers.keys.sorted(by: { $0.number < $1.number }) {
      guard let peer = peers[link], peer.wasFull, peer.hasRoom else { continue }
      peers[link]?.wasFull = false
      delegate?.hasRoom(link)
    }
  }

  // MARK: Events

  /// Passes an event of the node on to the delegate.
  private func happened(_ frame: HubFrame) {
    switch frame {
    case .scanResult(let address, let rssi, let data, let scanResponse):
      heard(ScanResult(address: address, data: data, scanResponse: scanResponse, rssi: rssi.map { Int($0) }))
    case .packet(let packet):
      if listening?.wants(packet.data[...]) == true { delegate?.heard(packet) }
    case .served(let number, let isServed): served(ApplicationID(Int(number)), isServed)
    case .linkUp(let link, let address, let since, let traits): linkUp(link, address, since, traits)
    case .linkChanged(let link, let mtu):
      if let own = links[link] { delegate?.linkChanged(own, mtu: Int(mtu)) }
    case .linkDown(let link): linkDown(link)
    case .used(let number, let link, let use):
      guard let own = links[link], application(ApplicationID(Int(number))) != nil else { return }
      peers[own]?.used(ApplicationID(Int(number)), use)
      delegate?.used(ApplicationID(Int(number)), by: own, use)
    case .written(let number, let link, let characteristic, let answer, let value):
      let error = written(value, to: characteristic, of: ApplicationID(Int(number)), on: link)
      if answer != 0 { send(.answer(answer, error)) }
    case .gone(let link, let count):
      guard let own = links[link] else { return }
      peers[own]?.gone(Int(count))
      makeRoom()
    case .event(let number, let event):
      guard let connection = connections[number] else { return }
      if case .disconnected = event { connections[number] = nil }
      connection.happened(event)
    case .streamOpened, .streamConnected, .streamData, .streamTaken, .streamClosed: streams.handle(frame)
    case .welcome, .refused, .status, .abilities, .addressChanged: break
    }
  }

  private func served(_ number: ApplicationID, _ isServed: Bool) {
    guard let index = applications.firstIndex(where: { $0.number == number }),
      applications[index].isServed != isServed
    else { return }
    applications[index].isServed = isServed
    if !isServed { for link in peers.keys { peers[link]?.ended(number) } }
    delegate?.applicationChanged(number, isServed: isServed)
  }

  private func linkUp(_ link: LinkID, _ address: BluetoothAddress, _ since: Instant, _ traits: AirLinkTraits) {
    guard links[link] == nil else { return }
    // A connection that this program requested keeps the identity that it was given then.
    let asked = connections.sorted { $0.key < $1.key }.map(\.value).first {
      $0.target == address && !$0.isConnected && peers[$0.id] == nil
    }
    let own = asked?.id ?? Self.newLinkID()
    links[link] = own
    peers[own] = RemotePeer(link, address, traits)
    delegate?.linkUp(DriverLink(id: own, address: address, since: since))
  }

  private func linkDown(_ link: LinkID) {
    guard let own = links.removeValue(forKey: link) else { return }
    peers[own] = nil
    // The hub may have treated a connection that was to share this link as a new one.
    for (number, connection) in connections.sorted(by: { $0.key < $1.key }) where connection.id == own {
      connections[number] = nil
      send(.disconnect(connection: number))
      connection.end(AirEnd.peerDisconnected)
    }
    delegate?.linkDown(own)
  }

  private func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of number: ApplicationID, on link: LinkID
  ) -> ATTError? {
    guard let own = links[link], application(number) != nil, let delegate else { return .unlikely }
    do throws(ATTError) {
      try delegate.written(value, to: characteristic, of: number, on: own)
      return nil
    } catch {
      return error
    }
  }
}

/// The state of a link that is up, so that a program can report the result of a value immediately.
struct RemotePeer {
  /// The number by which the hub identifies the link.
  let hubLink: LinkID
  let address: BluetoothAddress
  let traits: AirLinkTraits
  /// The peer's subscriptions, with the application of each.
  private var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Number of values for the peer that the hub has not reported as transmitted.
  private var underWay = 0
  /// Whether a value was refused because the link was full.
  var wasFull = false

  init(_ hubLink: LinkID, _ address: BluetoothAddress, _ traits: AirLinkTraits) {
    self.hubLink = hubLink
    self.address = address
    self.traits = traits
  }

  /// Whether one more value may be sent.
  var hasRoom: Bool { traits.notifyWindow == 0 || underWay < Int(traits.notifyWindow) }

  func hasSubscribed(to characteristic: CharacteristicID, in application: ApplicationID) -> Bool {
    subscriptions[characteristic] == application
  }

  /// Whether a value of the characteristic can reach the peer.
  func hears(
    _ characteristic: CharacteristicID, of application: ApplicationID, _ reach: GATTCharacteristic.Reach,
    hasRawHCI: Bool
  ) -> Bool {
    hasSubscribed(to: characteristic, in: application) || hasRawHCI && (reach == .exact || traits.hearsUnsubscribed)
  }

  mutating func used(_ application: ApplicationID, _ use: Use) {
    switch use {
    case .read: break
    case .subscribed(let characteristic): subscriptions[characteristic] = application
    case .unsubscribed(let characteristic): subscriptions[characteristic] = nil
    }
  }

  mutating func ended(_ application: ApplicationID) {
    subscriptions = subscriptions.filter { $0.value != application }
  }

  mutating func sent() {
    if traits.notifyWindow != 0 { underWay += 1 }
  }

  mutating func gone(_ count: Int) {
    underWay = max(0, underWay - count)
  }
}

/// The state of a connection that a program requested.
@LoopActor
final class RemoteConnection {
  /// The number by which this process knows the link.
  let id: LinkID
  let target: BluetoothAddress
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  /// Whether the link existed before the request.
  let isShared: Bool
  private(set) var isConnected = false

  init(
    _ id: LinkID, _ target: BluetoothAddress, isShared: Bool, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) {
    self.id = id
    self.target = target
    self.isShared = isShared
    self.handler = handler
  }

  /// Whether the link has not ended, so that events may still follow.
  var isOpen: Bool { handler != nil }

  func happened(_ event: LinkEvent) {
    let handler = handler
    switch event {
    case .connected: isConnected = true
    case .disconnected: self.handler = nil
    default: break
    }
    handler?(event)
  }

  func end(_ reason: String) {
    happened(.disconnected(reason: reason))
  }
}

/// The handle of a connection through the hub. `disconnect` ends the link. Releasing the handle cancels an attempt, but
/// does not affect an existing link.
@LoopActor
final class RemoteLink: Link {
  let id: LinkID
  private let air: RemoteAir
  private let number: UInt32
  private let connection: RemoteConnection
  private let registration: Registration

  init(air: RemoteAir, number: UInt32, _ connection: RemoteConnection) {
    id = connection.id
    self.air = air
    self.number = number
    self.connection = connection
    registration = Registration {
      guard connection.isOpen, !connection.isConnected else { return }
      if connection.isShared { air.forget(number) } else { air.send(.disconnect(connection: number)) }
    }
  }

  func discover() { send(.discover(connection: number)) }

  func exchangeMTU(_ mtu: Int) { send(.exchangeMTU(connection: number, UInt16(clamping: mtu))) }

  func subscribe(to characteristic: CharacteristicID) { send(.subscribe(connection: number, characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    send(.write(connection: number, kind, characteristic, value))
  }

  /// Ends the link or cancels the attempt. A link that this connection was to share stays up for its other users.
  func disconnect() {
    if connection.isShared, !connection.isConnected {
      air.forget(number)
    } else {
      send(.disconnect(connection: number))
    }
  }

  private func send(_ frame: NodeFrame) {
    if connection.isOpen { air.send(frame) }
  }
}
