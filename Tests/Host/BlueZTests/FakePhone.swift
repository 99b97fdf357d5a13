import Common
import Crypto
import DBus
import Loop
import Radio
import TestSupport
import Transfers
import Tuvali

/// A phone with a Tuvali wallet in front of a `FakeBlueZ`: its packets arrive as calls of bluetoothd.
@LoopActor
final class FakePhone {
  struct GaveUp: Error {}

  private let fake: FakeBlueZ
  private let kernel: FakeKernel?
  private let dialect: Dialect
  private var engine: WalletEngine
  private var device: ObjectPath?
  private var queue: [WalletEngine.Action] = []
  private(set) var notices: [WalletEngine.Notice] = []

  /// - Parameters:
  ///   - kernel: the source of advertisements; nil for those of bluetoothd.
  ///   - dialect: the only dialect that it scans for.
  init(
    _ fake: FakeBlueZ, invitation: String, credential: [UInt8], kernel: FakeKernel? = nil, dialect: Dialect = .v05,
    seed: UInt64 = 2
  ) throws {
    self.fake = fake
    self.kernel = kernel
    self.dialect = dialect
    engine = try WalletEngine(
      invitation: invitation, text: credential, configuration: .init(), random: SeededRandom(seed: seed))
    // Notifications for an earlier phone do not belong to this one.
    fake.notified.forget()
  }

  /// Waits until the advertisement of the invitation can be received.
  func meet() async throws {
    handle(.start)
    try await fake.until { [self] in !fake.applications.flatMap(\.characteristics).isEmpty }
    if let kernel {
      try await kernel.until { [self] in sees(kernel.onAir().values.map { Self.serviceData($0) }) }
    } else {
      try await fake.until { [self] in sees(fake.advertisements.filter(\.isOnAir).map { Self.serviceData($0) }) }
    }
  }

  /// Handles an advertisement.
  ///
  /// - Returns: whether the phone would connect.
  private func sees(_ onAir: [[BluetoothUUID: [UInt8]]]) -> Bool {
    for serviceData in onAir where serviceData[dialect.service] != nil {
      handle(.sighted(token: 1, serviceData: serviceData))
    }
    return queue.contains { if case .connect = $0 { true } else { false } }
  }

  /// Connects and runs until Identify is answered.
  func identify() async throws {
    try await work { $0.contains { if case .seal = $0 { true } else { false } } }
  }

  /// Carries out all requests of the wallet's engine until it ends.
  ///
  /// - Returns: the engine's notices.
  func bring() async throws -> [WalletEngine.Notice] {
    try await work { _ in self.notices.contains(.ended) }
    return notices
  }

  private func handle(_ event: WalletEngine.Event) {
    let actions = engine.handle(event, at: EventLoop.shared.now)
    for case .tell(let notice) in actions { notices.append(notice) }
    queue += actions
  }

  private func work(until isEnough: ([WalletEngine.Action]) -> Bool) async throws {
    while !isEnough(queue) { try await go() }
  }

  /// Carries out this number of engine requests, and delivers the notifications that the engine waits for in between.
  ///
  /// - Parameter isPatient: whether the last step is completed, or only begun.
  /// - Returns: false if the engine ended before.
  func go(_ steps: Int, isPatient: Bool) async throws -> Bool {
    for step in 1...steps {
      queue.removeAll { Self.isNothing($0) }
      if notices.contains(.ended) { return false }
      try await go(isPatient: isPatient || step < steps)
    }
    return true
  }

  private func go(isPatient: Bool = true) async throws {
    guard queue.isEmpty else { return try await perform(queue.removeFirst(), isPatient) }
    // The engine waits for a notification of the verifier.
    let heard = try await fake.notified.first { $0.client == nil || $0.client == self.device }
    guard let uuid = heard.uuid.split(separator: " ").last.flatMap({ BluetoothUUID(String($0)) }),
      let characteristic = dialect.characteristic(for: uuid)
    else { throw GaveUp() }
    handle(.notified(characteristic, heard.value))
  }

  private func perform(_ action: WalletEngine.Action, _ isPatient: Bool) async throws {
    switch action {
    case .scan, .stopScanning, .tell: break
    case .connect:
      device = fake.addDevice()
      handle(.connected)
    case .discover:
      var services: [BluetoothUUID: Set<BluetoothUUID>] = [:]
      for (key, characteristic) in fake.applications.flatMap(\.characteristics) {
        guard let uuid = key.split(separator: " ").last.flatMap({ BluetoothUUID(String($0)) }),
          let service = BluetoothUUID(characteristic.service)
        else { continue }
        services[service, default: []].insert(uuid)
      }
      handle(.discovered(services))
    case .exchangeMTU: handle(.mtuChanged(517))
    case .subscribe(let characteristic, let dialect):
      try await fake.subscribe(key(characteristic, dialect), by: device)
      handle(.subscribed(characteristic))
    case .write(let value, let characteristic, let dialect, _) where !isPatient:
      fake.write(value, to: key(characteristic, dialect), from: device) { _ in }
    case .write(let value, let characteristic, let dialect, _):
      let error = await fake.write(value, to: key(characteristic, dialect), from: device)
      handle(.written(characteristic, error == nil ? nil : .other))
    case .seal(let job): handle(.sealed(job.run()))
    case .disconnect:
      device.map { fake.setConnected($0, false) }
      handle(.disconnected)
    }
  }

  private static func isNothing(_ action: WalletEngine.Action) -> Bool {
    switch action {
    case .scan, .stopScanning, .tell: true
    default: false
    }
  }

  /// The key of a characteristic in the test's bluetoothd.
  private func key(_ characteristic: Characteristic, _ dialect: Dialect) -> String {
    let uuid = dialect.uuid(of: characteristic).description
    let full = "\(dialect.service.description) \(uuid)"
    return fake.applications.contains { $0[full] != nil } ? full : uuid
  }

  private static func serviceData(_ instance: FakeKernel.Instance) -> [BluetoothUUID: [UInt8]] {
    let both = [instance.data, instance.scanResponse].flatMap { AdvertisingData(decoding: $0).serviceData }
    return Dictionary(both.map { ($0.service, $0.bytes) }, uniquingKeysWith: { $1 })
  }

  private static func serviceData(_ advertisement: FakeAdvertisement) -> [BluetoothUUID: [UInt8]] {
    var found: [BluetoothUUID: [UInt8]] = [:]
    for name in ["ServiceData", "ScanResponseServiceData"] {
      for (uuid, data) in advertisement.values[name]?.asDictionary ?? [:] {
        if let uuid = BluetoothUUID(uuid), let bytes = data.asBytes { found[uuid] = bytes }
      }
    }
    return found
  }
}
