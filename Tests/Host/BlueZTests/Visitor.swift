import BlueZ
import Common
import Loop
import Radio
import TestSupport
import Testing

/// A service that connects to a peer and records its events.
@LoopActor
final class Visitor {
  static let service = BluetoothUUID(short: 0xFE20)
  static let put = BluetoothUUID(short: 0xFE21)
  static let hear = BluetoothUUID(short: 0xFE22)

  static func id(_ characteristic: BluetoothUUID) -> CharacteristicID {
    CharacteristicID(service: service, characteristic: characteristic)
  }

  let events = Mailbox<LinkEvent>()
  private(set) var link: (any Link)?

  init() {}

  func connect(with radio: DriverRig, to peer: FakePeer) throws {
    guard let address = BluetoothAddress(peer.address) else { return }
    link = try radio.connect(to: address) { [events] in events.put($0) }
  }

  func drop() { link = nil }

  /// Waits for the end of the link and returns its reason.
  func end() async throws -> String {
    let event = try await events.first { if case .disconnected = $0 { true } else { false } }
    guard case .disconnected(let reason) = event else { return "" }
    return reason
  }
}

extension FakePeer {
  /// A peer with the services that `Visitor` uses.
  ///
  /// - Parameter takesChannels: whether it claims support of several ATT channels.
  static func sample(_ address: String = "00:AA:03:00:00:01", takesChannels: Bool = false) -> FakePeer {
    let features = Characteristic(BluetoothUUID(short: 0x2B3A).description, ["read"])
    let attributes = Service(BluetoothUUID(short: 0x1801).description, [features])
    return FakePeer(
      address,
      services: (takesChannels ? [attributes] : []) + [
        Service(
          Visitor.service.description,
          [
            Characteristic(Visitor.put.description, ["write", "write-without-response"]),
            Characteristic(Visitor.hear.description, ["indicate"]),
          ])
      ])
  }
}

extension Rig {
  /// Discovers a peer by a scan, and ends the scan.
  func sighted(_ peer: FakePeer = .sample()) async throws -> FakePeer {
    fake.add(peer)
    let scanResults = Mailbox<ScanResult>()
    let scan = radio.scan(for: []) { scanResults.put($0) }
    try await fake.until { self.fake.isDiscovering(peer.adapter) }
    fake.hear(peer)
    _ = try await scanResults.first { $0.address.description == peer.address }
    scan.cancel()
    try await fake.until { !self.fake.isDiscovering(peer.adapter) }
    return peer
  }

  /// Makes a service with a link to a peer, and waits until it has discovered the peer's services.
  func visit(_ peer: FakePeer) async throws -> Visitor {
    let visitor = Visitor()
    try visitor.connect(with: radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    visitor.link?.discover()
    _ = try await visitor.events.first { if case .discovered = $0 { true } else { false } }
    return visitor
  }
}
