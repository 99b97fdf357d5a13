import Common
import Crypto
import DBus
import Glibc
import Loop
import Tuvali

/// The cost of a chunk from bluetoothd to the service. This program acts as bluetoothd, with an adapter that accepts
/// everything and a phone that writes as fast as it is answered.
@LoopActor
final class BlueZBench {
  private let bluez: BusConnection
  private var exported: [ExportedObject] = []
  private var owner = ""
  /// The service's characteristics of dialect 0.5, by UUID.
  private var characteristics: [String: ObjectPath] = [:]

  private static let adapter: ObjectPath = "/org/bluez/hci0"
  private static let device = adapter.child("dev_00_AA_02_00_00_01")
  /// Number of concurrent calls, as of bluetoothd when a phone fills a connection event.
  private static let window = 16

  init(_ address: BusAddress) {
    bluez = BusConnection(address: address)
  }

  /// Starts the simulated bluetoothd. Call it before the measured service starts.
  func start() async throws {
    bluez.objects.exportManager(.root)
    let path = Argument("object", "o")
    let options = Argument("options", "a{sv}")
    exported = [
      bluez.objects.export(
        Self.adapter,
        interfaces: [
          Interface(
            "org.bluez.Adapter1",
            properties: [
              Property("Address", "s", get: { .string("00:AA:01:00:00:00") }),
              Property("Powered", "b", get: { .bool(true) }),
              Property("Roles", "as", get: { .strings(["central", "peripheral"]) }),
            ]),
          Interface(
            "org.bluez.GattManager1",
            methods: [
              Method("RegisterApplication", in: [path, options]) { [weak self] in self?.register($0) },
              Method("UnregisterApplication", in: [path]) { $0.reply() },
            ]),
          Interface(
            "org.bluez.LEAdvertisingManager1",
            methods: [
              Method("RegisterAdvertisement", in: [path, options]) { $0.reply() },
              Method("UnregisterAdvertisement", in: [path]) { $0.reply() },
            ],
            properties: [Property("ActiveInstances", "y", get: { .byte(0) })]),
        ], manager: .root),
      bluez.objects.export(
        Self.device,
        interfaces: [
          Interface(
            "org.bluez.Device1",
            properties: [
              Property("Address", "s", get: { .string("00:AA:02:00:00:01") }),
              Property("AddressType", "s", get: { .string("public") }),
              Property("Adapter", "o", get: { .objectPath(Self.adapter) }),
              Property("Connected", "b", get: { .bool(true) }),
            ])
        ], manager: .root),
    ]
    bluez.connect(name: "org.bluez")
    try await bluez.ready()
  }

  func stop() {
    bluez.close()
  }

  /// Whether the service has registered the characteristics that a phone writes.
  var isReady: Bool {
    let needed: [Characteristic] = [.identify, .responseSize, .submitResponse]
    return needed.allSatisfy { characteristics[Dialect.v05.uuid(of: $0).description] != nil }
  }

  /// Writes a frame of random bytes, without completing the transfer.
  ///
  /// - Parameter name: the service's bus name.
  func measure(_ service: Process, _ name: String) async throws -> [Figure] {
    let dialect = Dialect.v05
    var random = SystemRandom()
    let identify = Identify(nonce: random.bytes(12), walletKey: X25519.PrivateKey(randomFrom: &random).publicKey)
    let frame = random.bytes(4_000_000)
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: 517), firstSequence: dialect.firstSequence)
    try await write([identify.bytes], to: .identify)
    try await write([ResponseSize(frame.count).bytes(as: dialect.sizeEncoding)], to: .responseSize)

    let chunks = chunker.sequences.compactMap { chunker.chunk($0) }
    let (begin, before) = (EventLoop.shared.now, service.processorTime)
    try await write(chunks, to: .submitResponse)
    let seconds: Double = begin.duration(to: EventLoop.shared.now) / .seconds(1)
    let cost = (service.processorTime - before) / Double(chunks.count)
    let counters = try await bluez.call(
      name, "/org/earshot/verifier", "org.freedesktop.DBus.Properties", "Get",
      [.string("org.earshot.Verifier1"), .string("Counters")])
    guard counters.first?.unwrapped["Chunks"]?.asInteger == chunks.count else {
      throw ServiceBench.Trouble(description: "the service did not receive every chunk: \(counters)")
    }
    let rate = Double(chunks.count) / seconds
    return [
      Figure(name: "chunks from bluetoothd, over the bus", value: rate, unit: "1/s", goal: nil, better: .higher),
      .less("processor time of the service per chunk", cost * 1e6, "us"),
    ]
  }

  // MARK: Calls of the service

  private func register(_ call: MethodCall) {
    owner = call.sender
    let path = call.arguments.first?.asObjectPath ?? .root
    bluez.call(owner, path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects") { [weak self] result in
      let objects = (try? result.get().first?.asDictionary) ?? [:]
      for (path, interfaces) in objects {
        guard let properties = interfaces["org.bluez.GattCharacteristic1"], let uuid = properties["UUID"]?.asString,
          let service = properties["Service"]?.asObjectPath,
          let serviceUUID = objects[service.string]?["org.bluez.GattService1"]?["UUID"]?.asString,
          serviceUUID == Dialect.v05.service.description
        else { continue }
        self?.characteristics[uuid] = ObjectPath(path)
      }
      call.reply()
    }
  }

  // MARK: Writes of the phone

  private func write(_ values: [[UInt8]], to characteristic: Characteristic) async throws {
    guard let path = characteristics[Dialect.v05.uuid(of: characteristic).description] else {
      throw ServiceBench.Trouble(description: "the service has no \(characteristic)")
    }
    let options = DBusValue.options([
      "device": .objectPath(Self.device), "link": .string("LE"), "mtu": .uint16(517), "type": .string("command"),
    ])
    try await withCheckedThrowingContinuation { (end: CheckedContinuation<Void, any Error>) in
      let visit = Writing(values, end) { [bluez, owner] value, answered in
        bluez.call(
          owner, path, "org.bluez.GattCharacteristic1", "WriteValue", [.bytes(value), options], then: answered)
      }
      for _ in 0..<Self.window { visit.next() }
    }
  }
}

/// The writes of one measurement: `window` calls at a time, each answered call starts the next one.
@LoopActor
private final class Writing {
  typealias Answer = @LoopActor (Result<[DBusValue], DBusError>) -> Void

  private var values: ArraySlice<[UInt8]>
  private var underWay = 0
  private var end: CheckedContinuation<Void, any Error>?
  private let send: @LoopActor ([UInt8], @escaping Answer) -> Void

  init(
    _ values: [[UInt8]], _ end: CheckedContinuation<Void, any Error>,
    send: @escaping @LoopActor ([UInt8], @escaping Answer) -> Void
  ) {
    self.values = values[...]
    self.end = end
    self.send = send
  }

  func next() {
    guard let value = values.popFirst() else {
      if underWay == 0 { finish(.success(())) }
      return
    }
    underWay += 1
    send(value) { [self] result in
      underWay -= 1
      if case .failure(let error) = result { return finish(.failure(error)) }
      next()
    }
  }

  private func finish(_ result: Result<Void, any Error>) {
    end?.resume(with: result)
    end = nil
  }
}
