import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Air

/// Runs a test on the loop without suspension.
func onLoop<Value: Sendable>(_ body: @LoopActor @Sendable () throws -> Value) async rethrows -> Value {
  EventLoop.shared.runInBackground()
  return try await LoopActor.run(body)
}

/// Runs a test on the loop that may suspend.
func onLoopAsync(_ body: @LoopActor @Sendable () async throws -> Void) async throws {
  EventLoop.shared.runInBackground()
  try await body()
}

let service = BluetoothUUID(short: 0x0001)
let other = BluetoothUUID(short: 0xAB29)
let submit = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0x2034))
let report = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0x2036))
let status = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0x2037))
let readOnly = CharacteristicID(service: service, characteristic: BluetoothUUID(short: 0x2031))

let application = GATTApplication(services: [
  GATTService(
    uuid: service,
    characteristics: [
      GATTCharacteristic(uuid: submit.characteristic, properties: [.write, .writeWithoutResponse]),
      GATTCharacteristic(uuid: report.characteristic, properties: [.notify]),
      GATTCharacteristic(uuid: status.characteristic, properties: [.indicate]),
      GATTCharacteristic(uuid: readOnly.characteristic, properties: [.read]),
    ])
])

func advertisement(_ name: String = "x", of service: BluetoothUUID = service) -> Advertisement {
  Advertisement(
    data: AdvertisingData(flags: 0x06, serviceUUIDs: [service]), scanResponse: AdvertisingData(localName: name))
}

/// Records the events of an application.
@LoopActor
final class Recorder {
  enum Call: Hashable, Sendable {
    case opened(LinkID, BluetoothAddress)
    case changed(LinkID, Int)
    case written(LinkID, CharacteristicID, [UInt8])
    case closed(LinkID)
  }

  var calls: [Call] = []
  var refusal: ATTError?
  var onCall: (() -> Void)?
  /// Number of received values, which is counted separately because filtering all events takes too long.
  private(set) var received = 0

  var values: [[UInt8]] {
    calls.compactMap { call in
      if case .written(_, _, let value) = call { return value }
      return nil
    }
  }
  var link: LinkID? {
    for case .opened(let link, _) in calls.reversed() { return link }
    return nil
  }
  var closed: Int { calls.count { if case .closed = $0 { true } else { false } } }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    received += 1
    hear(.written(link, characteristic, value))
    if let refusal { throw refusal }
  }

  func hear(_ call: Call) {
    calls.append(call)
    onCall?()
  }
}

/// A central's link, with a record of its events.
@LoopActor
final class Client {
  var events: [LinkEvent] = []
  var link: (any Link)?
  var onEvent: ((LinkEvent) -> Void)?
  /// Number of writes reported as completed, which is counted separately because filtering all events takes too long.
  private(set) var writtenCount = 0

  func connect(_ radio: any RadioDriver, to address: BluetoothAddress) throws {
    link = try radio.connect(to: address) { [weak self] event in
      self?.events.append(event)
      if case .written = event { self?.writtenCount += 1 }
      self?.onEvent?(event)
    }
  }

  var isConnected: Bool { events.contains(.connected) && !isOver }
  var isOver: Bool {
    if case .disconnected = events.last { return true }
    return false
  }
  var notified: [[UInt8]] {
    events.compactMap { event in
      if case .notified(_, let value) = event { return value }
      return nil
    }
  }
  var written: [ATTError?] {
    events.compactMap { event -> ATTError?? in
      if case .written(_, let error) = event { return .some(error) }
      return nil
    }
  }
  var mtu: Int? {
    for case .mtuChanged(let mtu) in events.reversed() { return mtu }
    return nil
  }
}

/// A verifier and a wallet with a link between them, in virtual time.
@LoopActor
final class Pair {
  let time = VirtualTime()
  let air: AirSpace
  let peripheral: AirRadio
  let central: AirRadio
  let recorder = Recorder()
  let client = Client()
  /// Further events of the two nodes' delegates, besides those of the recorder and the client.
  let peripheralDelegate: DriverRecorder
  let centralDelegate: DriverRecorder
  let server: TestServer
  let advertising: Registration

  init(
    _ conditions: AirConditions = .init(), _ controller: AirController = .init(), seed: UInt64 = 1, mtu: Int? = 517,
    application: GATTApplication = application
  ) throws {
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions, controller: controller)
    peripheral = air.addNode()
    central = air.addNode()
    peripheralDelegate = .of(peripheral)
    centralDelegate = .of(central)
    server = peripheral.serve(application, delegate: recorder)
    advertising = peripheral.advertise(advertisement())
    try client.connect(central, to: peripheral.address)
    time.run(until: { client.isConnected }, limit: .seconds(1))
    if let mtu { client.link?.exchangeMTU(mtu) }
    time.run(until: { mtu == nil || client.mtu != nil }, limit: .seconds(1))
  }

  var link: any Link { get throws { try #require(client.link) } }
  var serverLink: LinkID { get throws { try #require(recorder.link) } }

  func settle() { time.runUntilIdle(limit: .seconds(100_000)) }
}

/// Decodes the number at the beginning of each value: two bytes, big endian.
func numbers(_ values: [[UInt8]]) -> [Int] { values.map { Int($0[0]) << 8 | Int($0[1]) } }
func value(_ number: Int) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 255)] }

/// A simulated radio with an observer.
@LoopActor
final class TestAir {
  let time = VirtualTime()
  let space: AirSpace
  let observer: AirRadio
  private let delegate: DriverRecorder

  init(_ controller: AirController = .init()) {
    space = AirSpace(scheduler: time, seed: 1, controller: controller)
    observer = space.addNode()
    delegate = .of(observer)
  }

  /// The names that the observer receives within two seconds from now.
  func names() -> Set<String> {
    var names: Set<String> = []
    let scan = observer.scan(for: []) { names.insert($0.localName ?? "") }
    time.advance(by: .seconds(2))
    scan.cancel()
    return names
  }
}
