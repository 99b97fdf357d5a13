import Common
import Glibc
import Loop
import Network
import TestSupport
import Testing
import Thali

@testable import Presence

/// Simulated Bluetooth between several presence services on the event loop. Links are pairs of sockets.
@LoopActor
final class Neighbourhood {
  private(set) var radios: [NeighbourRadio] = []

  func radio() -> NeighbourRadio {
    let radio = NeighbourRadio(self, DeviceAddress(UInt64(radios.count + 1)))
    radios.append(radio)
    return radio
  }
}

/// The Bluetooth of one service.
@LoopActor
final class NeighbourRadio: PresenceBluetooth {
  private unowned let neighbourhood: Neighbourhood
  let address: DeviceAddress
  var onEvent: (@LoopActor (PresenceBluetoothEvent) -> Void)?
  var isUsable = true
  var reason = ""
  private var generation: UInt8?
  private(set) var isScanning = false
  /// Links that this radio opened.
  private(set) var connections = 0
  /// Whether this radio accepts no links.
  var isDeaf = false
  /// Records the bytes of the links that this radio opens.
  var recorder: LinkRecorder?

  init(_ neighbourhood: Neighbourhood, _ address: DeviceAddress) {
    (self.neighbourhood, self.address) = (neighbourhood, address)
  }

  var isReachable: Bool { generation != nil }

  func start() { scan(true) }
  func stop() { onEvent = nil }
  func silence() { generation = nil }

  func advertise(generation: UInt8) {
    self.generation = generation
    for radio in neighbourhood.radios where radio !== self { radio.sight(self) }
  }

  /// Repeats the present advertisement once, as a real radio does continuously.
  func repeatAdvertisement() {
    if let generation { advertise(generation: generation) }
  }

  func scan(_ isWanted: Bool) {
    isScanning = isWanted
    guard isWanted else { return }
    for radio in neighbourhood.radios where radio !== self { sight(radio) }
  }

  private func sight(_ other: NeighbourRadio) {
    guard isScanning, let generation = other.generation else { return }
    EventLoop.shared.soon { [weak self] in self?.onEvent?(.sighted(other.address, generation: generation)) }
  }

  func connect(to device: DeviceAddress, then: @escaping @LoopActor (Int32?) -> Void) {
    let peer = neighbourhood.radios.first { $0.address == device && $0.isReachable && !$0.isDeaf }
    EventLoop.shared.soon { [weak self] in
      guard let self, let peer else { return then(nil) }
      connections += 1
      let ends = Self.pair()
      guard let recorder else {
        peer.onEvent?(.link(address, descriptor: ends.1))
        return then(ends.0)
      }
      let others = Self.pair()
      recorder.join(ends.1, others.0)
      peer.onEvent?(.link(address, descriptor: others.1))
      then(ends.0)
    }
  }

  static func pair() -> (Int32, Int32) {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    return (ends[0], ends[1])
  }
}

/// An observer within range that records the bytes of links in both directions.
@LoopActor
final class LinkRecorder {
  private var streams: [SocketStream] = []
  private var recorded: [UInt8] = []

  /// The bytes since the last call, in the order in which they were sent.
  func take() -> [UInt8] {
    defer { recorded = [] }
    return recorded
  }

  /// Forwards all bytes between two sockets, in both directions.
  func join(_ first: Int32, _ second: Int32) {
    let pair = (SocketStream(owning: first), SocketStream(owning: second))
    streams += [pair.0, pair.1]
    pass(pair.0, to: pair.1)
    pass(pair.1, to: pair.0)
  }

  private func pass(_ stream: SocketStream, to other: SocketStream) {
    stream.start { [weak self, weak stream] event in
      switch event {
      case .received(let bytes):
        self?.recorded += bytes
        // The result is ignored, because the tests send less than the buffer holds.
        other.send(bytes[...])
      case .ended, .closed:
        other.finish()
        stream?.finish()
      case .connected, .writable, .hungUp: break
      }
    }
  }
}

/// A network that never has an interface.
@LoopActor
final class NoNetwork: PresenceNetwork {
  var onEvent: (@LoopActor (PresenceNetworkEvent) -> Void)?
  var stock: (@LoopActor () -> HTTPAnswer.Stock)?
  let isUsable = false
  let tallies: [Tally] = []

  func start() {}
  func stop() {}
  func serve(_ isServing: Bool) {}
  func send(_ intent: LocalDiscovery.Intent, dialects: Set<Dialect>) {}
  func pauseReading(_ isPaused: Bool) {}
  func endpoint(of location: Location) -> Endpoint { Endpoint(.loopback4, port: 1) }

  func fetch(_ location: Location, then: @escaping @LoopActor (BeaconResponse?) -> Void) -> Registration {
    Registration {}
  }
}
