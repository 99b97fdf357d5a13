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

  enum State { case connecting, open, closed }

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

  var state = State.connecting
  var handler: (@LoopActor (LinkEvent) -> Void)?
  private var operations = Fifo<Operation>()
  /// The request whose answer is awaited; nothing else goes out meanwhile.
  var request: Request?
  var lastRequest: UInt64 = 0
  /// Commands that are on their way.
  var commands = 0
  var toServer = AirChannel()
  var toClient = AirChannel()
  private var clientMTU = AirConnection.firstMTU
  var serverMTU: Int?
  var subscriptions: Set<CharacteristicID> = []

  struct Request {
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

  var now: Instant { air.agenda.now }

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

  func introduce(to application: AirApplication) {
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
  func answer(_ number: UInt64, _ error: ATTError?) {
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
}
