import Air
import Common
import Loop
import Network
import TestSupport
import Testing
import Thali

@testable import Presence

/// A simulated local network in virtual time, which connects several presence services.
@LoopActor
final class VirtualNetwork {
  let time = VirtualTime()
  private(set) var hosts: [VirtualHost] = []
  /// Responses to requests for beacons at addresses without a host, for invented announcements.
  var strangers: [NetworkAddress: BeaconResponse] = [:]

  /// A service on the network, with a key of its own.
  func host() -> PresenceService {
    let host = VirtualHost(self, number: UInt32(hosts.count + 1))
    hosts.append(host)
    let service = PresenceService(
      settings: PresenceSettings(), network: host, book: KnownPeerStore(directory: "", disk: time), scheduler: time,
      clock: VirtualWallClock(time))
    service.begin {}
    time.advance(by: .zero)
    return service
  }

  func deliver(_ bytes: [UInt8], from sender: VirtualHost) {
    for host in hosts where host !== sender {
      time.soon { host.receive(bytes, from: sender.address) }
    }
  }
}

/// The network of one service.
@LoopActor
final class VirtualHost: PresenceNetwork {
  private static let port: UInt16 = 5000

  private unowned let network: VirtualNetwork
  let address: NetworkAddress
  var onEvent: (@LoopActor (PresenceNetworkEvent) -> Void)?
  var stock: (@LoopActor () -> HTTPAnswer.Stock)?
  private(set) var isServing = false
  private(set) var isPaused = false
  /// All bytes that this host has sent or served, in order.
  private(set) var recorded: [[UInt8]] = []

  init(_ network: VirtualNetwork, number: UInt32) {
    self.network = network
    address = .v4(0x0A00_0000 + number)
  }

  var isUsable: Bool { true }
  var tallies: [Tally] { [] }

  func start() { network.time.soon { self.onEvent?(.joined) } }
  func stop() { onEvent = nil }
  func serve(_ isServing: Bool) { self.isServing = isServing }
  func pauseReading(_ isPaused: Bool) { self.isPaused = isPaused }
  func endpoint(of location: Location) -> Endpoint { Endpoint(location.address.address, port: location.port) }

  func receive(_ bytes: [UInt8], from address: NetworkAddress) {
    if !isPaused { onEvent?(.datagram(bytes, from: address, port: 1900)) }
  }

  func send(_ intent: LocalDiscovery.Intent, dialects: Set<Dialect>) {
    let location = Location(address: address, port: Self.port).url
    let message: SSDPMessage
    switch intent {
    case .announce(let name): message = .alive(name, location: location)
    case .answer(let name, _, _): message = .response(name, location: location)
    case .withdraw(let name): message = .byebye(name)
    case .search(let name): message = .search(name, maximumWait: 1)
    case .sighted, .left: return
    }
    let bytes = message.bytes(for: .ipv4)
    recorded.append(bytes)
    network.deliver(bytes, from: self)
  }

  func fetch(_ location: Location, then: @escaping @LoopActor (BeaconResponse?) -> Void) -> Registration {
    let host = network.hosts.first { $0.address == location.address }
    let stranger = network.strangers[location.address]
    return network.time.schedule(after: .milliseconds(5)) { then(host?.answer() ?? stranger) }
  }

  private func answer() -> BeaconResponse? {
    guard isServing else { return nil }
    switch stock?() ?? .nothing {
    case .announcement(let bytes):
      recorded.append(bytes)
      return .announcement(bytes)
    case .nothing: return .nothing
    case .busy(let seconds): return .busy(seconds: seconds)
    }
  }
}

extension PresenceService {
  /// The key of this service as a program sees it.
  var keyText: String { publicKey.map { KeyText.text($0) } ?? "" }

  /// Adds a peer in virtual time.
  func know(_ name: String, _ key: String, in network: VirtualNetwork) throws -> Peer {
    var outcome: Result<Peer, Refusal>?
    addPeer(name, key: key) { outcome = $0 }
    network.time.advance(by: .zero)
    return try #require(outcome).get()
  }
}
