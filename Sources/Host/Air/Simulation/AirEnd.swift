import Common
import Loop
import Radio

/// One node's end of a link. Each of the two ends is both a GATT client and a GATT server.
@LoopActor
final class AirEnd {
  static let disconnected = "Disconnected."
  static let peerDisconnected = "The peer has disconnected."

  let node: AirRadio
  /// The number by which this node knows the link.
  let id: LinkID
  /// The number by which the node that made the link knows it.
  private let centralID: LinkID
  let origin: LinkOrigin
  /// The addresses of the two nodes when the link came up.
  let address: BluetoothAddress
  let peerAddress: BluetoothAddress
  let since: Instant
  /// The other end; nil when the link has ended.
  private(set) var peer: AirEnd?
  /// The ATT MTU that this node knows.
  var mtu = ATT.firstMTU
  /// The direction of the link from this node to its peer, with its timing.
  private var outgoing = AirChannel()

  // State of the GATT client role.
  var clients: [AirClient] = []
  private var operations = Fifo<(operation: Operation, client: AirClient)>()
  /// The request whose answer is pending; nothing else is sent meanwhile.
  var request: Request?
  private var lastRequest: UInt64 = 0
  /// Number of write commands of this client that have not reached the peer.
  private var commands = 0

  // State of the GATT server role.
  /// The peer's subscriptions, with the application of each.
  var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Number of values for the peer that are not transmitted yet.
  private var notifications = 0
  /// Whether a value was refused because the link was full.
  private var wasFull = false

  enum Operation {
    case discover
    case exchangeMTU(Int)
    case subscribe(CharacteristicID)
    case request([UInt8], CharacteristicID)
    case command([UInt8], CharacteristicID)
  }

  struct Request {
    var number: UInt64
    var client: AirClient
    var characteristic: CharacteristicID?
    /// The application that answers the request, once the request has arrived.
    var application: ApplicationID?
    var timeout: TimedQueue.Ticket?
  }

  init(
    _ node: AirRadio, _ id: LinkID, _ origin: LinkOrigin, central: LinkID, since: Instant,
    address: BluetoothAddress, peer: BluetoothAddress
  ) {
    self.node = node
    self.id = id
    self.origin = origin
    centralID = central
    self.address = address
    peerAddress = peer
    self.since = since
  }

  var air: AirSpace { node.air }
  var now: Instant { air.agenda.now }
  var conditions: AirConditions { air.conditions(between: address, and: peerAddress) }
  var isOpen: Bool { peer != nil }
  var description: DriverLink { DriverLink(id: id, address: peerAddress, since: since) }

  func join(_ other: AirEnd) {
    peer = other
    other.peer = self
  }

  /// Ends the link immediately; values in transit are lost. This node is notified in the next event, the other one
  /// after the latency of a packet, or both at once (`atOnce`).
  ///
  /// - Parameter reason: the reason for this node's clients. Clients of the other node receive `forPeer`, or else the
  ///   same reason.
  func close(_ reason: String, forPeer peerReason: String? = nil, atOnce: Bool = false) {
    guard let peer else { return }
    let later = now.advanced(by: conditions.latency)
    self.peer = nil
    peer.peer = nil
    ended(reason, at: now)
    peer.ended(peerReason ?? reason, at: atOnce ? now : later)
    air.retryConnecting()
  }

  private func ended(_ reason: String, at instant: Instant) {
    air.forget(self)
    operations.removeAll()
    request?.timeout.map(air.agenda.cancel)
    request = nil
    subscriptions = [:]
    let clients = clients
    self.clients = []
    for client in clients { client.detach() }
    node.disconnected(self)
    air.agenda.at(instant) { [self] in
      for client in clients { client.happened(.disconnected(reason: reason)) }
      node.delegate?.linkDown(id)
    }
  }

  // MARK: Packets

  /// Sends a value, subject to the filter and to random loss. `then` is called at the arrival time, even if the value
  /// is lost.
  private func transmit(
    _ kind: AirPacket.Kind, _ value: [UInt8], _ characteristic: CharacteristicID, then: @escaping @LoopActor () -> Void
  ) {
    let conditions = conditions
    var packet = AirPacket(
      kind: kind, from: address, to: peerAddress, link: centralID, characteristic: characteristic, value: value,
      number: outgoing.nextNumber())
    let arrival = outgoing.reserve(from: now, conditions.latency)
    let verdict = conditions.filter?(packet) ?? .deliver
    let fate = AirFate(of: &packet, verdict, conditions, &air.generator)
    air.agenda.at(arrival) { [self, packet] in
      if fate.delay == .zero {
        arrive(packet, fate)
      } else {
        air.agenda.at(now.advanced(by: fate.delay)) { [self] in arrive(packet, fate) }
      }
      then()
    }
  }

  private func arrive(_ packet: AirPacket, _ fate: AirFate) {
    if fate.isOvertaken, outgoing.hold(packet) {
      let longest = conditions.latency + conditions.latency + .milliseconds(1)
      air.agenda.at(now.advanced(by: longest)) { [self] in
        if let packet = outgoing.release(packet.number) { peer?.receive(packet) }
      }
      return
    }
    for _ in 0..<fate.copies { peer?.receive(packet) }
    if fate.copies > 0, let held = outgoing.release() { peer?.receive(held) }
    if fate.copies == 0, packet.kind == .indication { awaitConfirmationInVain() }
  }

  private func awaitConfirmationInVain() {
    air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      let reason = "The peer did not confirm an indication within \(conditions.requestTimeout)."
      close(reason, forPeer: Self.peerDisconnected)
    }
  }

  // MARK: GATT client

  func submit(_ operation: Operation, for client: AirClient) {
    guard isOpen else { return }
    operations.append((operation, client))
    sendNext()
  }

  /// Sends the next operations. It calls no handler, because it may run within a call from the client.
  private func sendNext() {
    while isOpen, request == nil, let (operation, client) = operations.first {
      if case .command = operation, commands >= max(1, conditions.commandWindow) { return }
      operations.popFirst()
      switch operation {
      case .discover:
        ask(for: client) { server in .discovered(server.node.discoverableServices) }
      case .exchangeMTU(let mtu):
        ask(for: client) { server in
          let agreed = max(ATT.firstMTU, min(mtu, server.conditions.maximumMTU))
          server.agreed(on: agreed)
          return .mtuChanged(agreed)
        }
      case .subscribe(let characteristic):
        ask(for: client) { server in
          server.subscribe(to: characteristic)
          return .subscribed(characteristic)
        }
      case .request(let value, let characteristic):
        sendRequest(value, characteristic, client)
      case .command(let value, let characteristic):
        sendCommand(value, characteristic, client)
      }
    }
  }

  private func fits(_ value: [UInt8]) -> Bool {
    value.count <= ATT.valueLimit(mtu: mtu)
  }

  private func sendCommand(_ value: [UInt8], _ characteristic: CharacteristicID, _ client: AirClient) {
    air.agenda.next { client.happened(.written(characteristic, error: nil)) }
    guard fits(value) else { return }
    commands += 1
    transmit(.command, value, characteristic) { [self] in
      commands -= 1
      sendNext()
    }
  }

  private func sendRequest(_ value: [UInt8], _ characteristic: CharacteristicID, _ client: AirClient) {
    lastRequest += 1
    request = Request(number: lastRequest, client: client, characteristic: characteristic)
    guard fits(value) else {
      air.agenda.next { [self, lastRequest] in finish(lastRequest, .written(characteristic, error: .invalidLength)) }
      return
    }
    transmit(.request, value, characteristic) { [self, lastRequest] in startTimeout(lastRequest) }
  }

  /// Sends a request that `serve` handles at the other end, and whose answer is an event.
  private func ask(for client: AirClient, _ serve: @escaping @LoopActor (AirEnd) -> LinkEvent) {
    lastRequest += 1
    let number = lastRequest
    request = Request(number: number, client: client)
    air.agenda.at(outgoing.reserve(from: now, conditions.latency)) { [self] in
      guard let peer else { return }
      let event = serve(peer)
      if isOpen { receiveAnswer(number, event) }
    }
  }

  // MARK: Answers

  /// Handles the peer's answer to a write request.
  func answer(_ number: UInt64, _ error: ATTError?) {
    guard isOpen, let request, request.number == number, let characteristic = request.characteristic else { return }
    receiveAnswer(number, .written(characteristic, error: error))
  }

  /// Schedules the arrival of the peer's answer at this node, and reports it.
  private func receiveAnswer(_ number: UInt64, _ event: LinkEvent) {
    guard let peer else { return }
    request?.application = nil
    request?.characteristic = nil
    request?.timeout.map(air.agenda.cancel)
    request?.timeout = nil
    air.agenda.at(peer.outgoing.reserve(from: now, conditions.latency)) { [self] in finish(number, event) }
  }

  private func finish(_ number: UInt64, _ event: LinkEvent) {
    guard isOpen, let request, request.number == number else { return }
    self.request = nil
    switch event {
    case .mtuChanged(let mtu): agreed(on: mtu)
    case .subscribed(let characteristic): request.client.subscriptions.insert(characteristic)
    default: break
    }
    request.client.happened(event)
    sendNext()
  }

  /// Starts the timer that closes this link if a GATT request is not answered within `requestTimeout`.
  private func startTimeout(_ number: UInt64) {
    guard isOpen, let request, request.number == number, request.characteristic != nil else { return }
    self.request?.timeout = air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      guard self.request?.number == number else { return }
      let reason = "A request was not answered within \(conditions.requestTimeout)."
      close(reason, forPeer: Self.peerDisconnected)
    }
  }

  // MARK: GATT server

  /// Sets the negotiated MTU at this end. The other end sets it at its own time.
  private func agreed(on mtu: Int) {
    self.mtu = mtu
    node.delegate?.linkChanged(id, mtu: mtu)
  }

  /// Subscribes the peer to a characteristic: the peer writes its CCCD, if there is one.
  func subscribe(to characteristic: CharacteristicID) {
    guard let application = node.application(with: characteristic),
      application.characteristics[characteristic]?.canNotify == true,
      subscriptions.updateValue(application.number, forKey: characteristic) != application.number
    else { return }
    node.delegate?.used(application.number, by: id, .subscribed(characteristic))
  }

  // MARK: Values from the peer

  func receive(_ packet: AirPacket) {
    guard isOpen else { return }
    switch packet.kind {
    case .notification, .indication: receiveNotification(packet)
    case .request:
      guard let client = peer else { return }
      let number = client.lastRequest
      receiveWrite(packet, property: .write) { error in client.answer(number, error) }
    case .command where packet.value.count > node.controller.longestWrite: break
    case .command: receiveWrite(packet, property: .writeWithoutResponse, answer: nil)
    }
  }

  private func receiveWrite(_ packet: AirPacket, property: GATTCharacteristic.Properties, answer: AirAnswer?) {
    guard let application = node.application(with: packet.characteristic) else {
      answer?(.unlikely)
      return
    }
    guard application.characteristics[packet.characteristic]?.properties.contains(property) == true else {
      answer?(.writeNotPermitted)
      return
    }
    if packet.kind == .request { peer?.request?.application = application.number }
    node.written(packet.value, to: packet.characteristic, of: application.number, on: id, answer: answer)
  }

  private func receiveNotification(_ packet: AirPacket) {
    let hearsAll = conditions.deliverUnsubscribed
    for client in clients where hearsAll || client.subscriptions.contains(packet.characteristic) {
      client.happened(.notified(packet.characteristic, packet.value))
    }
  }

  /// Removes the peer's subscriptions to an application that this node withdraws, and refuses the peer's pending write
  /// to it.
  func applicationEnded(_ application: ApplicationID) {
    subscriptions = subscriptions.filter { $0.value != application }
    if let client = peer, let request = client.request, request.application == application {
      client.answer(request.number, .unlikely)
    }
  }

  // MARK: Values to the peer

  /// Whether a value of an application's characteristic can reach the peer.
  func reaches(_ characteristic: CharacteristicID, of application: ApplicationID, _ reach: GATTCharacteristic.Reach)
    -> Bool
  {
    subscriptions[characteristic] == application
      || node.controller.hasRawHCI && (reach == .exact || conditions.deliverUnsubscribed)
  }

  /// Whether one more value may be sent. If not, the delegate later receives `hasRoom`.
  func takesNotification() -> Bool {
    guard let window = conditions.notifyWindow, notifications >= max(1, window) else { return true }
    wasFull = true
    return false
  }

  /// - Parameter gone: called when the value has been transmitted.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, _ properties: GATTCharacteristic.Properties,
    then gone: @escaping @LoopActor () -> Void
  ) {
    let limit = ATT.valueLimit(mtu: mtu)
    let isIndication = subscriptions[characteristic] != nil && !properties.contains(.notify)
    notifications += 1
    transmit(isIndication ? .indication : .notification, Array(value.prefix(limit)), characteristic) { [self] in
      notifications -= 1
      gone()
      guard wasFull, isOpen else { return }
      wasFull = false
      node.delegate?.hasRoom(id)
    }
    // The confirmation must arrive before the next value is sent.
    if isIndication { _ = outgoing.reserve(from: now, conditions.latency) }
  }
}

/// One direction of a link, which carries one packet at a time.
struct AirChannel {
  private var freeAt = Instant.zero
  private var sent = 0
  /// A packet that is delayed until the next one has overtaken it.
  private var held: AirPacket?

  /// Reserves the time for one more packet.
  ///
  /// - Returns: the time of arrival.
  mutating func reserve(from now: Instant, _ latency: Duration) -> Instant {
    freeAt = max(now, freeAt).advanced(by: latency)
    return freeAt
  }

  mutating func nextNumber() -> Int {
    defer { sent += 1 }
    return sent
  }

  /// Delays a packet until another one overtakes it or it is released; false if a packet is already delayed.
  mutating func hold(_ packet: AirPacket) -> Bool {
    guard held == nil else { return false }
    held = packet
    return true
  }

  /// Returns and removes the delayed packet; with `number`, only if it has that number.
  mutating func release(_ number: Int? = nil) -> AirPacket? {
    guard let packet = held, number == nil || packet.number == number else { return nil }
    held = nil
    return packet
  }
}
