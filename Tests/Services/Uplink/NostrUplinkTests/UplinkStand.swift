import Common
import Crypto
import DBus
import LocalSockets
import Loop
import Nostr
import TestSupport
import Testing

@testable import NostrUplink

/// The node of the mesh, as the test plays it.
@LoopActor
final class FakeMesh: MeshPort {
  var onRequest: (@LoopActor (MeshRequest) -> Void)?
  var isAttached = false
  var reason: String { isAttached ? "" : "The node is away." }
  private(set) var keys: [String] = []
  private(set) var delivered: [(text: String, key: String)] = []
  /// Whether the node handles texts.
  var handles = true
  private let clock: HandClock

  init(_ clock: HandClock) { self.clock = clock }

  func start(key: String) { keys.append(key) }

  /// Answers the uplink's request to attach as the node with this peer ID.
  func attach(as node: String) {
    isAttached = true
    onRequest?(.changed)
    onRequest?(.attached(node))
    clock.run()
  }

  func deliver(_ text: String, from key: String, then: @escaping @LoopActor (Bool) -> Void) {
    let handles = handles
    if handles { delivered.append((text, key)) }
    clock.soon { then(handles) }
  }

  func stop() { onRequest = nil }
}

/// A resolver that fails every look-up, because relays are reached through the proxy.
@LoopActor
final class NoNames: HostResolving {
  func resolve(_ name: String, then: @escaping @LoopActor (Result<[String], HostFailure>) -> Void) {
    Issue.record("\(name) was looked up")
  }
}

@LoopActor
final class StoppedClock: WallClock {
  private let clock: HandClock
  let isSynchronised = true

  init(_ clock: HandClock) { self.clock = clock }

  var milliseconds: Int64 { 1_900_000_000_000 + clock.now.nanoseconds / 1_000_000 }
  func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration { Registration {} }
}

/// An uplink with its node, behind a proxy with one relay.
@LoopActor
final class UplinkStand {
  let clock: HandClock
  let mesh: FakeMesh
  let service: UplinkService
  private static var seeds: UInt64 = 0

  /// - Parameters:
  ///   - directory: the state directory; empty: state is in memory only.
  ///   - arrivals: maximum received texts that wait for the node.
  init(
    _ clock: HandClock, _ relay: FakeRelay, trust: String, directory: String = "", arrivals: Int = 1000,
    _ adjust: (inout UplinkSettings) -> Void = { _ in }
  ) {
    self.clock = clock
    var settings = UplinkSettings()
    settings.proxyText = "127.0.0.1:9050"
    settings.relays = ["wss://social.test"]
    settings.trustedCertificates = trust
    adjust(&settings)
    mesh = FakeMesh(clock)
    service = UplinkService(
      settings: settings, route: .proxy(settings.proxy), store: UplinkStore(directory: directory, disk: clock),
      mesh: mesh, scheduler: clock, clock: StoppedClock(clock), resolver: NoNames(), arrivalLimit: arrivals,
      dial: { (host, port) throws(LocalStreamError) in try relay.dial(host, port) },
      random: { SeededRandom(seed: Self.nextSeed()) })
    service.begin {}
    clock.run()
  }

  private static func nextSeed() -> UInt64 {
    seeds += 1
    return seeds
  }

  var key: String { service.publicKey }

  func setContacts(_ keys: [String]) {
    mesh.onRequest?(.contacts(keys))
    clock.run()
  }

  /// Passes a packet to the uplink, as the node does.
  ///
  /// - Returns: the errors of the answers: nil for success.
  @discardableResult
  func send(
    _ text: String, to key: String, as id: String = "1", _ kind: MeshPacket.Kind = .message
  ) -> [DBusError?] {
    var answers: [DBusError?] = []
    let created = UInt64(StoppedClock(clock).milliseconds)
    let packet = MeshPacket(id: id, kind: kind, key: key, text: text, createdAt: created)
    mesh.onRequest?(.send(packet) { answers.append($0) })
    clock.run()
    return answers
  }

  func counter(_ name: String) -> UInt64? { service.tallies.first { $0.name == name }?.count }
}
