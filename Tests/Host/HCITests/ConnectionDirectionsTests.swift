import Radio
import Testing

@testable import HCI

@Suite("Which end made an LE link")
struct ConnectionDirectionsTests {
  static let peer = BluetoothAddress(0xA)
  static let other = BluetoothAddress(0xB)

  private static func connected(
    _ flags: UInt32, _ address: BluetoothAddress = peer, _ kind: AddressKind = .randomAddress
  ) -> ManagementEvent {
    .deviceConnected(DeviceConnected(address: address, kind: kind, flags: flags, data: []))
  }

  private static func disconnected(_ kind: AddressKind = .randomAddress) -> ManagementEvent {
    .deviceDisconnected(DeviceDisconnected(address: peer, kind: kind, reason: .remote))
  }

  @Test("Events show which end made a link from kernel 5.14 on; earlier kernels show only outgoing links")
  func events() {
    for (kernel, incoming) in [
      (KernelVersion(6, 1, 192), ConnectionDirections.Direction.incoming), (KernelVersion(5, 14, 0), .incoming),
      (KernelVersion(5, 13, 19), .unknown), (nil, .unknown),
    ] as [(KernelVersion?, ConnectionDirections.Direction)] {
      var directions = ConnectionDirections(kernel: kernel)
      #expect(directions.direction(of: Self.peer) == .unknown)
      directions.heard(Self.connected(0))
      #expect(directions.direction(of: Self.peer) == incoming)
      directions.heard(Self.connected(8))
      #expect(directions.direction(of: Self.peer) == .outgoing)
      directions.heard(Self.connected(0xF7))
      #expect(directions.direction(of: Self.peer) == incoming)
      directions.heard(Self.disconnected())
      #expect(directions.direction(of: Self.peer) == .unknown)
    }
  }

  @Test("A BR/EDR link does not show which end made an LE link with the same address")
  func classic() {
    var directions = ConnectionDirections(kernel: KernelVersion(6, 12, 0))
    directions.heard(Self.connected(0))
    directions.heard(Self.connected(8, Self.peer, .classic))
    #expect(directions.direction(of: Self.peer) == .incoming)
    directions.heard(Self.disconnected(.classic))
    #expect(directions.direction(of: Self.peer) == .incoming)
  }

  @Test("The kernel's link list shows on every kernel which end made a link, and absent links are forgotten")
  func list() {
    var directions = ConnectionDirections(kernel: nil)
    directions.heard(Self.connected(8, Self.other))
    directions.found([HCILink(handle: 1, address: Self.peer)])
    #expect(directions.direction(of: Self.peer) == .incoming)
    #expect(directions.direction(of: Self.other) == .unknown)
    directions.found([HCILink(handle: 1, address: Self.peer, isCentral: true)])
    #expect(directions.direction(of: Self.peer) == .outgoing)
    let unclear: [[HCILink]] = [
      [HCILink(handle: 1, address: Self.peer, isCentral: true, isOutgoing: false)],
      [HCILink(handle: 1, address: Self.peer, isCentral: false, isOutgoing: true)],
      [HCILink(handle: 1, address: Self.peer), HCILink(handle: 2, address: Self.peer)],
      [HCILink(handle: 1, address: Self.peer, isConnected: false)],
      [HCILink(handle: 1, address: Self.peer, isLE: false)], [],
    ]
    for links in unclear {
      directions.found([HCILink(handle: 1, address: Self.peer)])
      directions.found(links)
      #expect(directions.direction(of: Self.peer) == .unknown)
    }
  }

  @Test("The loss or power-off of the controller ends all its links")
  func gone() {
    var directions = ConnectionDirections(kernel: KernelVersion(6, 12, 0))
    for event in [ManagementEvent.indexRemoved, .newSettings([.lowEnergy])] {
      directions.heard(Self.connected(0))
      directions.heard(.newSettings([.powered]))
      directions.heard(.discovering(.init(types: 6, isOn: true)))
      #expect(directions.direction(of: Self.peer) == .incoming)
      directions.heard(event)
      #expect(directions.direction(of: Self.peer) == .unknown)
    }
  }

  @Test("The direction of at most 64 links is stored")
  func bounded() {
    var directions = ConnectionDirections(kernel: KernelVersion(6, 12, 0))
    for peer in 1...65 as ClosedRange<UInt64> { directions.heard(Self.connected(0, BluetoothAddress(peer))) }
    #expect(directions.direction(of: BluetoothAddress(64)) == .incoming)
    #expect(directions.direction(of: BluetoothAddress(65)) == .unknown)
    directions.heard(Self.connected(8, BluetoothAddress(64)))
    #expect(directions.direction(of: BluetoothAddress(64)) == .outgoing)
  }
}
