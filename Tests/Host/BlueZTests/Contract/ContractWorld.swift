import Air
import BlueZ
import Common
import Loop
import Radio
import Testing

/// The radio drivers that pass the contract.
enum ContractRadio: String, CaseIterable, CustomTestStringConvertible, Sendable {
  case simulated = "the simulated radio"
  /// A bluetoothd that sends each value to all subscribers.
  case bluez66 = "BlueZ 5.66"
  /// A bluetoothd that gives each subscriber a socket.
  case bluez82 = "BlueZ 5.82"

  var testDescription: String { rawValue }

  @LoopActor
  func world() async throws -> any ContractWorld {
    switch self {
    case .simulated: SimulatedWorld()
    case .bluez66: try await BlueZWorld(BlueZVersion(5, 66))
    case .bluez82: try await BlueZWorld(BlueZVersion(5, 82))
    }
  }
}

/// A driver with a recorder as its delegate, and a peer in range of it.
///
/// The peer serves and uses `Contract.application`. It has one link with the driver at a time.
@LoopActor
protocol ContractWorld: AnyObject {
  var driver: any RadioDriver { get }
  var recorder: ContractRecorder { get }
  var peerAddress: BluetoothAddress { get }

  /// Waits until the condition holds. It is checked after each event of the driver and of the peer.
  func until(_ condition: @escaping @LoopActor () -> Bool) async throws
  /// Waits until the events that are under way were delivered.
  func settle() async throws
  func close()

  // MARK: The peer as peripheral

  /// Advertises the service of `Contract.application` at least once.
  func peerAdvertises() async throws
  /// The values that the driver has written to the peer.
  var peerReceived: [[UInt8]] { get }
  /// The error with which the peer refuses writes.
  var peerRefusal: ATTError? { get set }
  func peerNotifies(_ value: [UInt8])

  // MARK: The peer as central

  /// The services that the driver advertises.
  func servicesOnAir() async throws -> Set<BluetoothUUID>
  func peerConnects() async throws
  /// - Returns: whether the driver's service has accepted the value.
  func peerWrites(_ value: [UInt8]) async throws -> Bool
  func peerSubscribes() async throws
  /// The values that the driver has notified the peer of.
  var peerNotified: [[UInt8]] { get }

  // MARK: Losses

  /// Takes the peer out of range.
  func losePeer()
  func setPower(_ isOn: Bool)

  // MARK: Streams

  /// Opens a stream to `Contract.profile`, which the driver serves.
  func peerOpensStream() async throws -> any ContractStream
}

/// The peer's end of a stream.
@LoopActor
protocol ContractStream: AnyObject {
  var received: [UInt8] { get }
  var isOver: Bool { get }
  func send(_ bytes: [UInt8])
  func close()
}

enum Contract {
  static let service = BluetoothUUID(short: 0xFE31)
  static let put = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0xFE32))
  static let hear = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0xFE33))
  static let application = GATTApplication(services: [
    GATTService(
      uuid: service,
      characteristics: [
        GATTCharacteristic(uuid: put.characteristic, properties: [.write, .writeWithoutResponse]),
        GATTCharacteristic(uuid: hear.characteristic, properties: [.notify]),
      ])
  ])
  static let advertisement = Advertisement(data: AdvertisingData(flags: 0x06, serviceUUIDs: [service]))
  static let number = ApplicationID(1)
  static let profile = StreamProfile(name: "Contract", services: [BluetoothUUID(short: 0x1101)])
}

/// A delegate that records the events of a driver, in order.
@LoopActor
final class ContractRecorder: RadioDriverDelegate {
  enum Event: Hashable, Sendable {
    case status(RadioStatus.State)
    case onAir(Bool)
    case served(Bool)
    case up(LinkID, BluetoothAddress)
    case mtu(LinkID, Int)
    case down(LinkID)
    case used(LinkID, Use)
    case written(LinkID, CharacteristicID, [UInt8])
    case room(LinkID)
    case heard(BluetoothAddress, Set<BluetoothUUID>)
    /// An event of the link that this side has requested.
    case link(LinkEvent)
    /// The bytes of a stream, or its end.
    case stream([UInt8]?)
  }

  private(set) var events: [Event] = []
  var refusal: ATTError?
  /// Called after each event.
  var onEvent: @LoopActor () -> Void = {}
  /// The streams that peers have opened.
  private(set) var streams: [any RadioStream] = []

  func note(_ event: Event) {
    events.append(event)
    onEvent()
  }

  func accept(_ stream: any RadioStream) {
    streams.append(stream)
    stream.start { [weak self] event in
      switch event {
      case .received(let bytes): self?.note(.stream(bytes))
      case .closed: self?.note(.stream(nil))
      case .writable: break
      }
    }
    onEvent()
  }

  func count(_ event: Event) -> Int { events.count { $0 == event } }

  /// The last link that came up.
  var link: LinkID? {
    for case .up(let link, _) in events.reversed() { return link }
    return nil
  }
  var linkEvents: [LinkEvent] { events.compactMap { if case .link(let event) = $0 { event } else { nil } } }
  var values: [[UInt8]] { events.compactMap { if case .written(_, _, let value) = $0 { value } else { nil } } }
  var streamBytes: [UInt8] {
    events.flatMap { event -> [UInt8] in if case .stream(let bytes?) = event { bytes } else { [] } }
  }
  var isOver: Bool { if case .disconnected = linkEvents.last { true } else { false } }

  func statusChanged(_ status: RadioStatus) { note(.status(status.state)) }
  func advertisingSlotsChanged() {}
  func onAir(_ advertisement: Advertisement?, in slot: Int) { note(.onAir(advertisement != nil)) }
  func applicationChanged(_ application: ApplicationID, isServed: Bool) { note(.served(isServed)) }
  func linkUp(_ link: DriverLink) { note(.up(link.id, link.address)) }
  func linkChanged(_ link: LinkID, mtu: Int) { note(.mtu(link, mtu)) }
  func linkDown(_ link: LinkID) { note(.down(link)) }
  func used(_ application: ApplicationID, by link: LinkID, _ use: Use) { note(.used(link, use)) }

  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    note(.written(link, characteristic, value))
    if let refusal { throw refusal }
  }

  func hasRoom(_ link: LinkID) { note(.room(link)) }
  func heard(_ scanResult: ScanResult) { note(.heard(scanResult.address, scanResult.services)) }
  func heard(_ packet: AdvertisingPacket) {}
  func forgot(_ address: BluetoothAddress) {}
}
