import Bytes
import Common
import Loop
import Radio

/// A node of the hub's air, and the connection to the program it belongs to.
@LoopActor
final class HubNode: AirSocketOwner {
  /// A node with more bytes waiting for it than this has its peers held back.
  static let congestion = 1 << 20
  /// A node that has so many writes under way which it did not wait for is held back itself.
  static let writeLimit = 4096
  /// How many advertisements, applications, scans and links a node may have, of each kind.
  static let setupLimit = 256

  private unowned let hub: AirHub
  private var socket: AirSocket?
  private var radio: AirRadio?
  /// Advertisements and scans.
  private var registrations: [UInt32: Registration] = [:]
  private var servers: [UInt32: AirServer] = [:]
  private var links: [UInt32: OwnLink] = [:]
  private var answers: [LinkID: (number: UInt32, answer: AirAnswer)] = [:]
  private var lastAnswer: UInt32 = 0
  /// Writes that are not reported written yet, on all links.
  private var writes = 0
  private var congested: Set<BluetoothAddress> = []

  private struct OwnLink {
    let link: any Link
    var writes = 0
  }

  init(_ descriptor: Int32, hub: AirHub) {
    self.hub = hub
    socket = AirSocket(descriptor, owner: self)
  }

  var address: BluetoothAddress? { radio?.address }
  var name: String { address.map { "the node \($0)" } ?? "a node" }

  func send(_ frame: HubFrame) {
    let wasCongested = isCongested
    socket?.send(frame.write(to:))
    if isCongested, !wasCongested { hub.balance() }
  }

  // MARK: The end

  func close() {
    socket?.close()
    socket = nil
    guard let radio else { return }
    registrations = [:]
    servers = [:]
    links = [:]
    answers = [:]
    hub.air.removeNode(radio)
  }

  func ended(_ reason: String) {
    guard socket != nil else { return }
    close()
    hub.remove(self, reason: reason, isFault: reason != AirSocket.hasGone)
  }

  // MARK: Flow

  var isCongested: Bool { (socket?.unsent ?? 0) > Self.congestion }

  func drained() {
    if (socket?.unsent ?? 0) < Self.congestion / 2 { hub.balance() }
  }

  func holdBack(_ congested: Set<BluetoothAddress>) {
    self.congested = congested
    pauseOrResume()
  }

  private func pauseOrResume() {
    let hasSlowPeer = !congested.isEmpty && (radio?.peers.contains { congested.contains($0) } ?? false)
    let isPaused = socket?.isPaused ?? false
    socket?.isPaused = hasSlowPeer || writes > (isPaused ? Self.writeLimit / 2 : Self.writeLimit)
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
      return refuse("The simulated air is of another version than this program.")
    }
    if let address, hub.air.isTaken(address) {
      return refuse("There is a node with the address \(address) in the simulated air.")
    }
    let node = hub.air.addNode(address: address)
    radio = node
    send(.welcome(node.address))
  }

  private func refuse(_ reason: String) {
    send(.refused(reason))
    socket?.flush()
    ended(reason)
  }

  private func carryOut(_ frame: NodeFrame, _ radio: AirRadio) throws(WireError) {
    switch frame {
    case .hello: break
    case .advertise(let id, let interval, let data, let scanResponse):
      try checkNew(id)
      registrations[id] = radio.advertise(data: data, scanResponse: scanResponse, interval: interval)
    case .serve(let id, let application):
      try checkNew(id)
      servers[id] = radio.serve(application, answerer: HubAnswerer(id, self))
    case .scan(let id, let services):
      try checkNew(id)
      registrations[id] = radio.scan(for: services) { [weak self] sighting, data, scanResponse in
        self?.send(
          .sighting(
            scan: id, sighting.address, rssi: sighting.rssi.map { Int8(clamping: $0) }, data: data,
            scanResponse: scanResponse))
      }
    case .end(let id):
      registrations[id] = nil
      servers[id] = nil
    case .connect(let link, let address): try connect(link, to: address, radio)
    // A link may have ended while the frame was on its way.
    case .disconnect(let link): links[link]?.link.disconnect()
    case .discover(let link): links[link]?.link.discover()
    case .exchangeMTU(let link, let mtu): links[link]?.link.exchangeMTU(Int(mtu))
    case .subscribe(let link, let characteristic): links[link]?.link.subscribe(to: characteristic)
    case .write(let link, let kind, let characteristic, let value):
      guard let own = links[link] else { return }
      links[link]?.writes += 1
      writes += 1
      own.link.write(value, to: characteristic, as: kind)
      pauseOrResume()
    case .notify(let id, let link, let characteristic, let value):
      servers[id]?.notify(value, of: characteristic, to: link)
    case .disconnectClient(let id, let link): servers[id]?.disconnect(link)
    case .answer(let number, let error):
      guard let (link, entry) = answers.first(where: { $0.value.number == number }) else { return }
      answers[link] = nil
      entry.answer(error)
    }
  }

  private func checkNew(_ id: UInt32) throws(WireError) {
    guard registrations[id] == nil, servers[id] == nil else { throw .badValue("id") }
    guard registrations.count + servers.count < Self.setupLimit else {
      throw .tooLong(field: "registrations", limit: Self.setupLimit)
    }
  }

  private func connect(_ number: UInt32, to address: BluetoothAddress, _ radio: AirRadio) throws(WireError) {
    guard links[number] == nil else { throw .badValue("link") }
    guard links.count < Self.setupLimit else { throw .tooLong(field: "links", limit: Self.setupLimit) }
    do throws(RadioError) {
      let link = try radio.connect(to: address) { [weak self] event in self?.happened(event, on: number) }
      links[number] = OwnLink(link: link)
    } catch {
      send(.event(link: number, .disconnected(reason: error.sentence)))
    }
  }

  private func happened(_ event: LinkEvent, on link: UInt32) {
    send(.event(link: link, Self.fitted(event)))
    switch event {
    case .written:
      links[link]?.writes -= 1
      writes -= 1
      if socket?.isPaused == true { pauseOrResume() }
    case .disconnected:
      // Writes that were overtaken by the end of the link are never reported.
      writes -= links.removeValue(forKey: link)?.writes ?? 0
      pauseOrResume()
    default: break
    }
  }

  /// Services beyond what a frame holds are left out.
  private static func fitted(_ event: LinkEvent) -> LinkEvent {
    guard case .discovered(let services) = event else { return event }
    var room = AirWire.frameLimit - 64
    let fitting = services.prefix { service in
      room -= 17 + 17 * service.characteristics.count
      return room >= 0
    }
    return .discovered(Array(fitting))
  }

  /// Keeps an answer until the program gives it.
  func await(_ answer: @escaping AirAnswer, on link: LinkID) -> UInt32 {
    lastAnswer = lastAnswer == .max ? 1 : lastAnswer + 1
    answers[link] = (lastAnswer, answer)
    return lastAnswer
  }

  func linkClosed(_ link: LinkID) {
    answers[link] = nil
    pauseOrResume()
  }
}

/// Passes on to a node's program what happens to an application that it serves.
@LoopActor
private final class HubAnswerer: AirAnswerer {
  private let id: UInt32
  private weak var node: HubNode?

  init(_ id: UInt32, _ node: HubNode) {
    self.id = id
    self.node = node
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress) {
    node?.send(.opened(id: id, link, address))
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    node?.send(.changed(id: id, link, mtu: UInt16(clamping: mtu)))
  }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID, answer: AirAnswer?) {
    guard let node else {
      answer?(.unlikely)
      return
    }
    let number = answer.map { node.await($0, on: link) } ?? 0
    node.send(.written(id: id, link, characteristic, answer: number, value))
  }

  func linkClosed(_ link: LinkID) {
    node?.linkClosed(link)
    node?.send(.closed(id: id, link))
  }
}
