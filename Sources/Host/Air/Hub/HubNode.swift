import Bytes
import Common
import Loop
import Radio

/// A node of the hub's simulated radio, and the connection to its program.
@LoopActor
final class HubNode: AirSocketOwner, AirNodeOwner {
  /// Number of unsent bytes for a node beyond which the nodes that send to it are throttled.
  private static let congestion = 1 << 20
  /// Maximum values in transit that a node has sent without a wait. Beyond it the node itself is throttled.
  private static let valueLimit = 4096
  /// Maximum applications of a node, and also maximum connections of it.
  private static let setupLimit = 256

  private unowned let hub: AirHub
  private var socket: AirSocket?
  private(set) var radio: AirRadio?
  private var connections: [UInt32: Connection] = [:]
  private var answers: [LinkID: (number: UInt32, answer: AirAnswer)] = [:]
  private var lastAnswer: UInt32 = 0
  /// Number of the node's writes that are not yet reported as written, and of its values for clients that are not yet
  /// transmitted.
  private var underWay = 0
  /// Values that wait because their link was full.
  private var waiting: [LinkID: Fifo<Value>] = [:]
  private var congested: Set<ObjectIdentifier> = []
  private lazy var streams = HubStreams { [weak self] in self?.send($0) }

  private struct Connection {
    let link: any Link
    var writes = 0
  }

  private struct Value {
    let application: ApplicationID
    let characteristic: CharacteristicID
    let bytes: [UInt8]
  }

  init(_ descriptor: Int32, hub: AirHub) {
    self.hub = hub
    socket = AirSocket(descriptor, owner: self)
  }

  var name: String { radio.map { "the node \($0.address)" } ?? "a node" }

  private func send(_ frame: HubFrame) {
    let wasCongested = isCongested
    socket?.send(frame.write(to:))
    if isCongested, !wasCongested { hub.balance() }
  }

  // MARK: Closing

  func close() {
    socket?.close()
    socket = nil
    guard let radio else { return }
    radio.delegate = nil
    connections = [:]
    answers = [:]
    waiting = [:]
    streams.close()
    hub.air.removeNode(radio)
  }

  func ended(_ reason: String) {
    guard socket != nil else { return }
    close()
    hub.remove(self, reason: reason, isFault: reason != AirSocket.hasGone)
  }

  // MARK: Flow control

  var isCongested: Bool { (socket?.unsent ?? 0) > Self.congestion }

  func drained() {
    if (socket?.unsent ?? 0) < Self.congestion / 2 { hub.balance() }
  }

  /// Pauses reading from this node while one of its peers is congested.
  ///
  /// - Parameter congested: the nodes that do not read fast enough.
  func holdBack(_ congested: Set<ObjectIdentifier>) {
    self.congested = congested
    pauseOrResume()
  }

  private func pauseOrResume() {
    let peers = congested.isEmpty ? [] : radio?.peers ?? []
    let hasSlowPeer = peers.contains { congested.contains(ObjectIdentifier($0)) }
    let isPaused = socket?.isPaused ?? false
    socket?.isPaused = hasSlowPeer || underWay > (isPaused ? Self.valueLimit / 2 : Self.valueLimit)
  }

  private func wentOut() {
    underWay -= 1
    if socket?.isPaused == true { pauseOrResume() }
  }

  // MARK: Frames

  func receive(_ reader: inout ByteReader) throws(WireError) {
    let frame = try NodeFrame(reading: &reader)
    if case .hello(let version, let address) = frame {
      try enter(version, address)
    } else if let radio {
      try carryOut(frame, radio)
    } else {
      throw .badValue("tag")
    }
  }

  private func enter(_ version: UInt8, _ address: BluetoothAddress?) throws(WireError) {
    guard radio == nil else { throw .badValue("tag") }
    guard version == AirWire.version else {
      return refuse("The hub of the simulated radio has a different version than this program.")
    }
    if let address, hub.air.isTaken(address) {
      return refuse("The simulated radio already has a node with the address \(address).")
    }
    let node = hub.air.addNode(address: address)
    radio = node
    node.delegate = self
    send(.welcome(node.address, AirAbilities(node.controller)))
  }

  private func refuse(_ reason: String) {
    send(.refused(reason))
    socket?.flush()
    ended(reason)
  }

  private func carryOut(_ frame: NodeFrame, _ radio: AirRadio) throws(WireError) {
    switch frame {
    case .hello: break
    case .advertise(let slot, let content): radio.advertise(encoded: content, in: Int(slot))
    case .silence(let slot): radio.advertise(nil, in: Int(slot))
    case .serve(let number, let application):
      let number = ApplicationID(Int(number))
      guard radio.application(number) == nil else { throw .badValue("application") }
      guard radio.applications.count < Self.setupLimit else {
        throw .tooLong(field: "applications", limit: Self.setupLimit)
      }
      radio.serve(application, as: number)
    case .stopServing(let number): radio.stopServing(ApplicationID(Int(number)))
    case .listen(let listening): radio.listen(listening)
    case .connect(let number, let address): try connect(number, to: address, radio)
    // The link may have ended while the frame was in transit.
    case .disconnect(let number): connections[number]?.link.disconnect()
    case .discover(let number): connections[number]?.link.discover()
    case .exchangeMTU(let number, let mtu): connections[number]?.link.exchangeMTU(Int(mtu))
    case .subscribe(let number, let characteristic): connections[number]?.link.subscribe(to: characteristic)
    case .write(let number, let kind, let characteristic, let value):
      guard let connection = connections[number] else { return }
      connections[number]?.writes += 1
      underWay += 1
      connection.link.write(value, to: characteristic, as: kind)
      pauseOrResume()
    case .notify(let number, let links, let characteristic, let value):
      try notify(
        Value(application: ApplicationID(Int(number)), characteristic: characteristic, bytes: value), links, radio)
    case .cut(let link): radio.cut(link)
    case .answer(let number, let error):
      guard let (link, entry) = answers.first(where: { $0.value.number == number }) else { return }
      answers[link] = nil
      entry.answer(error)
    case .listenStreams(let service, let isListening): try streams.listen(service, isListening, at: radio)
    case .connectStream(let number, let address, let services):
      try streams.connect(number, to: address, services, at: radio)
    case .streamData(let number, let bytes): try streams.receive(bytes, for: number)
    case .streamTaken(let number, let count): streams.acknowledge(count, of: number)
    case .closeStream(let number): streams.close(number)
    }
  }

  // MARK: Connections

  private func connect(_ number: UInt32, to address: BluetoothAddress, _ radio: AirRadio) throws(WireError) {
    guard connections[number] == nil else { throw .badValue("connection") }
    guard connections.count < Self.setupLimit else { throw .tooLong(field: "connections", limit: Self.setupLimit) }
    do throws(RadioError) {
      let link = try radio.connect(to: address) { [weak self] event in self?.happened(event, on: number) }
      connections[number] = Connection(link: link)
    } catch {
      send(.event(connection: number, .disconnected(reason: error.sentence)))
    }
  }

  private func happened(_ event: LinkEvent, on number: UInt32) {
    send(.event(connection: number, Self.fitted(event)))
    switch event {
    case .written:
      connections[number]?.writes -= 1
      wentOut()
    case .disconnected:
      // Writes that were pending when the link ended are never reported.
      underWay -= connections.removeValue(forKey: number)?.writes ?? 0
      pauseOrResume()
    default: break
    }
  }

  /// Limits the services of a peer to one frame: further ones are not reported.
  private static func fitted(_ event: LinkEvent) -> LinkEvent {
    guard case .discovered(let services) = event else { return event }
    var room = AirWire.frameLimit - 64
    let fitting = services.prefix { service in
      room -= AirWire.serviceSize + AirWire.characteristicSize * service.characteristics.count
      return room >= 0
    }
    return .discovered(Array(fitting))
  }

  // MARK: Values for clients

  /// Sends a value to links with capacity, and stores it for full links. The program counts transmitted values, so few
  /// are stored.
  private func notify(_ value: Value, _ links: [LinkID], _ radio: AirRadio) throws(WireError) {
    let free = links.filter { waiting[$0] == nil }
    let delivery = send(value, to: free, radio)
    for link in links.filter({ waiting[$0] != nil }) + delivery.full {
      waiting[link, default: Fifo()].append(value)
      guard waiting[link]?.count ?? 0 <= Self.valueLimit else {
        throw .tooLong(field: "values", limit: Self.valueLimit)
      }
    }
    pauseOrResume()
  }

  private func send(_ value: Value, to links: [LinkID], _ radio: AirRadio) -> Delivery {
    let delivery = radio.notify(
      value.bytes, of: value.characteristic, in: value.application, to: .links(links),
      then: { [weak self] link in
        self?.wentOut()
        self?.gone(link)
      })
    underWay += delivery.accepted.count
    for link in delivery.unreachable { gone(link) }
    return delivery
  }

  /// Reports that a value was transmitted, or never will be. Programs count the values on links with a limit of values
  /// in transit.
  private func gone(_ link: LinkID) {
    if radio?.end(link)?.conditions.notifyWindow != nil { send(.gone(link, count: 1)) }
  }

  func hasRoom(_ link: LinkID) {
    guard let radio else { return }
    while let value = waiting[link]?.first {
      guard send(value, to: [link], radio).full.isEmpty else { return }
      waiting[link]?.popFirst()
    }
    waiting[link] = nil
  }

  // MARK: Events of the node

  func statusChanged(_ status: RadioStatus) { send(.status(status.state, reason: status.reason)) }

  func advertisingSlotsChanged() {
    if let radio { send(.abilities(AirAbilities(radio.controller))) }
  }

  func addressChanged(_ address: BluetoothAddress) { send(.addressChanged(address)) }

  func applicationChanged(_ application: ApplicationID, isServed: Bool) {
    send(.served(application: UInt32(truncatingIfNeeded: application.number), isServed))
  }

  func linkUp(_ link: DriverLink) {
    guard let conditions = radio?.end(link.id)?.conditions, let origin = radio?.origin(of: link.id) else { return }
    let traits = AirLinkTraits(
      isOurs: origin == .here, hearsUnsubscribed: conditions.deliverUnsubscribed,
      notifyWindow: conditions.notifyWindow.map { UInt16(clamping: max(1, $0)) } ?? 0)
    send(.linkUp(link.id, link.address, since: link.since, traits))
  }

  func linkChanged(_ link: LinkID, mtu: Int) { send(.linkChanged(link, mtu: UInt16(clamping: mtu))) }

  func linkDown(_ link: LinkID) {
    answers[link] = nil
    waiting[link] = nil
    pauseOrResume()
    send(.linkDown(link))
  }

  func used(_ application: ApplicationID, by link: LinkID, _ use: Use) {
    send(.used(application: UInt32(truncatingIfNeeded: application.number), link, use))
  }

  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID,
    answer: AirAnswer?
  ) {
    var number: UInt32 = 0
    if let answer {
      lastAnswer = lastAnswer == .max ? 1 : lastAnswer + 1
      number = lastAnswer
      answers[link] = (number, answer)
    }
    let application = UInt32(truncatingIfNeeded: application.number)
    send(.written(application: application, link, characteristic, answer: number, value))
  }

  /// Handles the reception of an advertisement, with its encoded payloads.
  func heard(_ advertisement: EncodedAdvertisement, of address: BluetoothAddress, rssi: Int?) {
    let rssi = rssi.map { Int8(clamping: $0) }
    send(.scanResult(address, rssi: rssi, data: advertisement.data, scanResponse: advertisement.scanResponse))
  }

  func heard(_ packet: AdvertisingPacket) { send(.packet(packet)) }
}
