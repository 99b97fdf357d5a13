import Common
import Loop
import Radio

/// A link between two nodes, from the attempt to its end: the central is the GATT client, the peripheral the server.
@LoopActor
final class AirConnection {
  enum Side { case client, server }

  enum Operation {
    case discover
    case exchangeMTU(Int)
    case subscribe(CharacteristicID)
    case request([UInt8], CharacteristicID)
    case command([UInt8], CharacteristicID)
  }

  private enum State { case connecting, open, closed }

  /// Every link begins with this ATT MTU.
  static let firstMTU = 23
  /// What a characteristic value holds at most (Core 5.4 Vol 3 Part F 3.2.9).
  static let valueLimit = 512
  /// What an ATT PDU needs beside a value: opcode and handle.
  static let overhead = 3

  let air: AirSpace
  let central: AirRadio
  let target: BluetoothAddress
  let clientID: LinkID
  let serverID: LinkID
  private(set) var peripheral: AirRadio?
  var giveUp: TimedQueue.Ticket?
  var attempt: TimedQueue.Ticket?

  private var state = State.connecting
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  private var operations = Fifo<Operation>()
  /// The request whose answer is awaited; nothing else goes out meanwhile.
  private var request: Request?
  private var lastRequest: UInt64 = 0
  /// Commands that are on their way.
  private var commands = 0
  private var toServer = AirChannel()
  private var toClient = AirChannel()
  private var clientMTU = AirConnection.firstMTU
  private var serverMTU: Int?
  private var subscriptions: Set<CharacteristicID> = []

  private struct Request {
    var number: UInt64
    var characteristic: CharacteristicID?
    var application: AirApplication?
    var timeout: TimedQueue.Ticket?
  }

  init(air: AirSpace, central: AirRadio, target: BluetoothAddress, handler: @escaping @LoopActor (LinkEvent) -> Void) {
    self.air = air
    self.central = central
    self.target = target
    self.handler = handler
    clientID = air.newLinkID()
    serverID = air.newLinkID()
  }

  var conditions: AirConditions { air.conditions(between: central.address, and: target) }

  private var now: Instant { air.agenda.now }

  // MARK: Beginning and end

  func open(with peer: AirRadio) {
    guard state == .connecting else { return }
    state = .open
    peripheral = peer
    peer.add(self)
    for application in peer.applications.values where state == .open { introduce(to: application) }
    guard state == .open else { return }
    handler?(.connected)
    drain()
  }

  /// Ends the link at once; what is on its way is lost.
  ///
  /// - Parameter side: who ended it and hears so at once, the other a packet's time later; nil: both hear at once.
  func close(reason: String, by side: Side?) {
    guard state != .closed else { return }
    state = .closed
    air.stopConnecting(self)
    air.forget(self)
    central.remove(self)
    peripheral?.remove(self)
    operations.removeAll()
    request?.timeout.map(air.agenda.cancel)
    request = nil
    let later = now.advanced(by: conditions.latency)
    if let peripheral {
      let applications = peripheral.applications.values
      air.agenda.at(side == .client ? later : now) { [serverID] in
        for application in applications { application.linkClosed(serverID) }
      }
    }
    air.agenda.at(side == .server ? later : now) { [self] in
      handler?(.disconnected(reason: reason))
      handler = nil
    }
  }

  func applicationClosed(_ application: AirApplication) {
    subscriptions.subtract(application.properties.keys)
    if let request, request.application === application { answer(request.number, .unlikely) }
  }

  private func introduce(to application: AirApplication) {
    application.introduce(serverID, address: central.address, mtu: serverMTU)
  }

  // MARK: The client's operations

  func submit(_ operation: Operation) {
    guard state != .closed else { return }
    operations.append(operation)
    drain()
  }

  /// Sends what may go out. Reports nothing by itself: this can be within a call from the client.
  private func drain() {
    while state == .open, request == nil, let operation = operations.first {
      if case .command = operation, commands >= max(1, conditions.commandWindow) { return }
      operations.popFirst()
      switch operation {
      case .discover:
        ask { [self] in
          .discovered(peripheral?.applications.values.flatMap(\.services) ?? [])
        }
      case .exchangeMTU(let mtu):
        ask { [self] in agree(on: mtu) }
      case .subscribe(let characteristic):
        ask { [self] in
          subscriptions.insert(characteristic)
          return .subscribed(characteristic)
        }
      case .request(let value, let characteristic):
        sendRequest(value, characteristic)
      case .command(let value, let characteristic):
        sendCommand(value, characteristic)
      }
    }
  }

  private func agree(on mtu: Int) -> LinkEvent {
    let agreed = max(Self.firstMTU, min(mtu, conditions.maximumMTU))
    serverMTU = agreed
    for application in peripheral?.applications.values ?? [] { application.linkChanged(serverID, mtu: agreed) }
    return .mtuChanged(agreed)
  }

  private func fits(_ value: [UInt8], mtu: Int) -> Bool {
    value.count <= min(mtu - Self.overhead, Self.valueLimit)
  }

  private func sendCommand(_ value: [UInt8], _ characteristic: CharacteristicID) {
    air.agenda.next { [self] in
      guard state == .open else { return }
      handler?(.written(characteristic, error: nil))
    }
    guard fits(value, mtu: clientMTU) else { return }
    commands += 1
    transmit(.command, value, characteristic, over: \.toServer) { [self] in
      commands -= 1
      drain()
    }
  }

  private func sendRequest(_ value: [UInt8], _ characteristic: CharacteristicID) {
    lastRequest += 1
    request = Request(number: lastRequest, characteristic: characteristic)
    guard fits(value, mtu: clientMTU) else {
      air.agenda.next { [self, lastRequest] in finish(lastRequest, .written(characteristic, error: .invalidLength)) }
      return
    }
    transmit(.request, value, characteristic, over: \.toServer) { [self, lastRequest] in startTimeout(lastRequest) }
  }

  /// Sends a request that is carried out by `serve` at the server's side, and answered with an event.
  private func ask(_ serve: @escaping @LoopActor () -> LinkEvent) {
    lastRequest += 1
    let number = lastRequest
    request = Request(number: number)
    air.agenda.at(toServer.reserve(from: now, conditions.latency)) { [self] in
      guard state == .open else { return }
      let event = serve()
      guard state == .open else { return }
      sendAnswer(number, event)
    }
  }

  // MARK: Answers

  /// The peer answers a write request.
  private func answer(_ number: UInt64, _ error: ATTError?) {
    guard state == .open, let request, request.number == number, let characteristic = request.characteristic
    else { return }
    sendAnswer(number, .written(characteristic, error: error))
  }

  private func sendAnswer(_ number: UInt64, _ event: LinkEvent) {
    request?.application = nil
    request?.characteristic = nil
    request?.timeout.map(air.agenda.cancel)
    request?.timeout = nil
    air.agenda.at(toClient.reserve(from: now, conditions.latency)) { [self] in finish(number, event) }
  }

  private func finish(_ number: UInt64, _ event: LinkEvent) {
    guard state == .open, request?.number == number else { return }
    request = nil
    if case .mtuChanged(let mtu) = event { clientMTU = mtu }
    handler?(event)
    drain()
  }

  /// The request has arrived or was lost, and is not answered so far.
  private func startTimeout(_ number: UInt64) {
    guard state == .open, let request, request.number == number, request.characteristic != nil else { return }
    self.request?.timeout = air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      guard self.request?.number == number else { return }
      close(reason: "A request was not answered within \(conditions.requestTimeout).", by: .client)
    }
  }

  // MARK: Values

  func notify(_ value: [UInt8], of characteristic: CharacteristicID, from application: AirApplication) {
    guard state == .open, let properties = application.properties[characteristic],
      !properties.isDisjoint(with: [.notify, .indicate])
    else { return }
    let isSubscribed = subscriptions.contains(characteristic)
    guard isSubscribed || conditions.deliverUnsubscribed else { return }
    let limit = min((serverMTU ?? Self.firstMTU) - Self.overhead, Self.valueLimit)
    let isIndication = isSubscribed && !properties.contains(.notify)
    transmit(
      isIndication ? .indication : .notification, Array(value.prefix(limit)), characteristic, over: \.toClient, then: {}
    )
    // The confirmation has to come before the next one may go.
    if isIndication { _ = toClient.reserve(from: now, conditions.latency) }
  }

  /// Sends a value through the filter and the dice. `then` is called after its arrival, or when it would have arrived.
  private func transmit(
    _ kind: AirPacket.Kind, _ value: [UInt8], _ characteristic: CharacteristicID,
    over channel: ReferenceWritableKeyPath<AirConnection, AirChannel>, then: @escaping @LoopActor () -> Void
  ) {
    let conditions = conditions
    let isFromClient = kind == .request || kind == .command
    var packet = AirPacket(
      kind: kind, from: isFromClient ? central.address : target, to: isFromClient ? target : central.address,
      link: clientID, characteristic: characteristic, value: value, number: self[keyPath: channel].nextNumber())
    let arrival = self[keyPath: channel].reserve(from: now, conditions.latency)
    let verdict = conditions.filter?(packet) ?? .deliver
    let fate = AirFate(of: &packet, verdict, conditions, &air.generator)
    air.agenda.at(arrival) { [self, packet] in
      if fate.delay == .zero {
        arrive(packet, fate, over: channel)
      } else {
        air.agenda.at(now.advanced(by: fate.delay)) { [self] in arrive(packet, fate, over: channel) }
      }
      then()
    }
  }

  private func arrive(
    _ packet: AirPacket, _ fate: AirFate, over channel: ReferenceWritableKeyPath<AirConnection, AirChannel>
  ) {
    if fate.isOvertaken, self[keyPath: channel].hold(packet) {
      let longest = conditions.latency + conditions.latency + .milliseconds(1)
      air.agenda.at(now.advanced(by: longest)) { [self] in
        if let packet = self[keyPath: channel].release(packet.number) { receive(packet) }
      }
      return
    }
    for _ in 0..<fate.copies { receive(packet) }
    if fate.copies > 0, let held = self[keyPath: channel].release() { receive(held) }
    if fate.copies == 0, packet.kind == .indication { neverConfirmed() }
  }

  private func neverConfirmed() {
    air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      close(reason: "The peer has disconnected.", by: .server)
    }
  }

  private func receive(_ packet: AirPacket) {
    guard state == .open else { return }
    switch packet.kind {
    case .notification, .indication: handler?(.notified(packet.characteristic, packet.value))
    case .request: receive(packet, property: .write) { [self, lastRequest] error in answer(lastRequest, error) }
    case .command: receive(packet, property: .writeWithoutResponse, answer: nil)
    }
  }

  private func receive(_ packet: AirPacket, property: GATTCharacteristic.Properties, answer: AirAnswer?) {
    guard let application = peripheral?.application(with: packet.characteristic) else {
      answer?(.unlikely)
      return
    }
    guard application.properties[packet.characteristic]?.contains(property) == true else {
      answer?(.writeNotPermitted)
      return
    }
    introduce(to: application)
    guard state == .open else { return }
    if packet.kind == .request { request?.application = application }
    application.written(packet.value, to: packet.characteristic, on: serverID, answer: answer)
  }
}
