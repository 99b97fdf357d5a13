import DBus
import Journal
import Loop
import Radio

/// A characteristic on the bus, as `GattCharacteristic1`.
///
/// It offers neither `AcquireWrite` nor `AcquireNotify`: bluetoothd before 5.76 mixes up clients there.
@LoopActor
final class ServedCharacteristic {
  /// A value that a client wrote, with what bluetoothd says about it.
  struct Write {
    var value: [UInt8]
    var device: ObjectPath?
    var mtu: Int?
  }

  let id: CharacteristicID
  let path: ObjectPath
  let properties: GATTCharacteristic.Properties
  /// The handle of the value in bluetoothd's database, which it writes here when it registers the application; 0 before.
  private(set) var handle: UInt16 = 0
  /// Whether a client subscribed.
  private(set) var isNotifying = false
  /// The client that did, where that is certain.
  private(set) var subscriber: BluetoothAddress?
  /// What can be read: the value that was notified last.
  private(set) var value: [UInt8]?

  private let isOwner: @LoopActor (MethodCall) -> Bool
  private let written: @LoopActor (Write) throws(ATTError) -> Void
  private let onlyClient: @LoopActor () -> BluetoothAddress?
  private let counters: BlueZCounters
  private weak var bus: BusConnection?
  private var object: ExportedObject?

  init(
    _ id: CharacteristicID, _ properties: GATTCharacteristic.Properties, at path: ObjectPath, counters: BlueZCounters,
    isOwner: @escaping @LoopActor (MethodCall) -> Bool,
    written: @escaping @LoopActor (Write) throws(ATTError) -> Void,
    onlyClient: @escaping @LoopActor () -> BluetoothAddress?
  ) {
    self.id = id
    self.path = path
    self.properties = properties
    self.counters = counters
    self.isOwner = isOwner
    self.written = written
    self.onlyClient = onlyClient
  }

  func export(on bus: BusConnection, of service: ObjectPath, manager: ObjectPath) {
    self.bus = bus
    object = bus.objects.export(path, interfaces: [interface(of: service)], manager: manager)
  }

  func close() {
    object?.cancel()
  }

  /// bluetoothd knows nothing of it any more. A handle that it wrote is not asked for again: the next one decides anew.
  func reset() {
    handle = 0
    subscriber = nil
    guard isNotifying else { return }
    isNotifying = false
    object?.changed("Notifying")
  }

  /// Whether clients can subscribe to it.
  var canNotify: Bool { !properties.isDisjoint(with: [.notify, .indicate]) }

  /// Has `value` read by those who read it.
  func remember(_ value: [UInt8]) {
    self.value = value
  }

  /// Sends a value to all subscribers.
  func notify(_ value: [UInt8]) {
    // One signal for each value; as a change of the property, values of one turn would become one.
    bus?.emit(
      path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(["Value": .bytes(value)]), .strings([])])
  }

  func clientLeft(_ address: BluetoothAddress) {
    if subscriber == address { subscriber = nil }
  }

  // MARK: What bluetoothd calls

  private func interface(of service: ObjectPath) -> Interface {
    let options = Argument("options", "a{sv}")
    return Interface(
      BlueZName.gattCharacteristic,
      methods: [
        method("ReadValue", [options], [Argument("value", "ay")]) { (self, call) throws(DBusError) in
          [.bytes(try self.read(call))]
        },
        method("WriteValue", [Argument("value", "ay"), options]) { (self, call) throws(DBusError) in
          try self.write(call)
          return []
        },
        method("StartNotify") { (self, _) throws(DBusError) in
          try self.subscribe(true)
          return []
        },
        method("StopNotify") { (self, _) throws(DBusError) in
          try self.subscribe(false)
          return []
        },
        method("Confirm") { (_, _) throws(DBusError) in [] },
      ],
      properties: [
        Property("UUID", "s", emits: .const, get: { [id] in .string(id.characteristic.description) }),
        Property("Service", "o", emits: .const, get: { .objectPath(service) }),
        Property("Flags", "as", emits: .const, get: { [properties] in .strings(properties.flags) }),
        Property(
          "Handle", "q", emits: .none, get: { [weak self] in .uint16(self?.handle ?? 0) },
          set: { [weak self] (value) throws(DBusError) in self?.handle = value.asUInt16 ?? 0 }),
        Property("Value", "ay", emits: .none, get: { [weak self] in .bytes(self?.value ?? []) }),
        Property("Notifying", "b", get: { [weak self] in .bool(self?.isNotifying ?? false) }),
      ])
  }

  private func method(
    _ name: String, _ arguments: [Argument] = [], _ out: [Argument] = [],
    _ body: @escaping @LoopActor (ServedCharacteristic, MethodCall) throws(DBusError) -> [DBusValue]
  ) -> Method {
    Method(
      name, in: arguments, out: out,
      returning: { [weak self] (call) throws(DBusError) in
        guard let self, isOwner(call) else { throw .denied("Only bluetoothd may call this.") }
        return try body(self, call)
      })
  }

  private func read(_ call: MethodCall) throws(DBusError) -> [UInt8] {
    guard properties.contains(.read), let value else {
      throw DBusError(name: BlueZName.Failure.notPermitted, message: "There is nothing to read.")
    }
    guard let offset = offset(call.arguments.first), offset <= value.count else {
      throw DBusError(name: BlueZName.Failure.invalidOffset, message: "The value has \(value.count) bytes.")
    }
    return Array(value.dropFirst(offset))
  }

  private func write(_ call: MethodCall) throws(DBusError) {
    do throws(ATTError) {
      try write(call.arguments.first?.asBytes ?? [], call.arguments.last)
    } catch {
      counters.refusedWrites += 1
      throw DBusError(answering: error)
    }
  }

  private func write(_ value: [UInt8], _ options: DBusValue?) throws(ATTError) {
    guard !properties.isDisjoint(with: [.write, .writeWithoutResponse]) else { throw .writeNotPermitted }
    guard offset(options) == 0 else { throw .invalidOffset }
    guard value.count <= ATTValue.limit else { throw .invalidLength }
    // A question, whether a prepared write may follow.
    if options?["prepare-authorize"]?.asBool == true { return }
    let mtu = options?["mtu"].flatMap(ATTValue.mtu)
    if options?["mtu"] != nil, mtu == nil { counters.malformed += 1 }
    try written(Write(value: value, device: options?["device"]?.asObjectPath, mtu: mtu))
  }

  private func subscribe(_ isWanted: Bool) throws(DBusError) {
    guard canNotify else {
      throw DBusError(name: BlueZName.Failure.notSupported, message: "This characteristic does not notify.")
    }
    guard isWanted != isNotifying else { return }
    isNotifying = isWanted
    subscriber = isWanted ? onlyClient() : nil
    object?.changed("Notifying")
  }

  /// 0 where none is given; nil where it is no number that an offset can be.
  private func offset(_ options: DBusValue?) -> Int? {
    guard let value = options?["offset"] else { return 0 }
    return value.asInteger.flatMap { $0 >= 0 ? $0 : nil }
  }
}

extension GATTCharacteristic.Properties {
  /// As bluetoothd calls them.
  private static let names: [(Self, String)] = [
    (.read, "read"), (.writeWithoutResponse, "write-without-response"), (.write, "write"), (.notify, "notify"),
    (.indicate, "indicate"),
  ]

  var flags: [String] {
    Self.names.filter { contains($0.0) }.map(\.1)
  }

  /// Of the flags of a peer's characteristic, those that are known here.
  init(flags: [String]) {
    self.init(Self.names.filter { flags.contains($0.1) }.map(\.0))
  }
}
