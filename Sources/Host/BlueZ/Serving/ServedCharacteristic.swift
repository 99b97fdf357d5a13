import Common
import DBus
import Loop
import Radio

/// The handler of bluetoothd's calls of one characteristic.
@LoopActor
protocol CharacteristicHandler: AnyObject {
  /// Whether a client is subscribed, as far as is known.
  var hasSubscribers: Bool { get }
  /// Whether a client is subscribed through a socket.
  var hasSockets: Bool { get }

  /// Handles a write of a client.
  func write(_ value: [UInt8], _ options: ServedCharacteristic.CallOptions) throws(ATTError)
  /// Handles a read of a client.
  ///
  /// - Returns: the whole value; nil if the client may not read one.
  func read(_ options: ServedCharacteristic.CallOptions) -> [UInt8]?
  func startNotify() throws(DBusError)
  func stopNotify()
  /// Opens a socket for a client's notifications.
  ///
  /// - Returns: bluetoothd's end of the socket; nil if the client is unknown.
  func acquireNotify(_ options: ServedCharacteristic.CallOptions) throws(DBusError) -> FileDescriptor?
  /// Opens a socket for a client's writes.
  ///
  /// - Returns: bluetoothd's end of the socket; nil if the client is unknown.
  func acquireWrite(_ options: ServedCharacteristic.CallOptions) throws(DBusError) -> FileDescriptor?
}

/// One of our characteristics on the bus, as `GattCharacteristic1`: the methods that bluetoothd calls when clients
/// write, read and subscribe. It checks each call, and passes it to its handler.
///
/// bluetoothd from 5.76 on is offered `AcquireNotify`. It opens one socket for each client that subscribes, and closes
/// it when the client unsubscribes. By a fault, it also closes sockets when another client leaves. bluetoothd before
/// 5.76 would use one socket for all clients. It is offered `StartNotify`, which reports the first subscriber without
/// naming it.
///
/// From 5.76 on `AcquireWrite` is offered if the service accepts all writes, and while all clients are known and stream
/// (`WriteOffer`). A write through its socket cannot be refused.
@LoopActor
final class ServedCharacteristic {
  let application: ApplicationID
  let id: CharacteristicID
  let path: ObjectPath
  let declaration: GATTCharacteristic
  /// The handle of the value in bluetoothd's database, which bluetoothd writes here when it registers the application;
  /// 0 before.
  private(set) var handle: UInt16 = 0
  weak var handler: (any CharacteristicHandler)?

  private let daemon: BluetoothDaemon
  private let counters: BlueZCounters
  private var object: ExportedObject?

  private static let cannotNotify = DBusError(
    name: BlueZName.Failure.notSupported, message: "This characteristic does not notify.")
  private static let noLink = DBusError(
    name: BlueZName.Failure.failed, message: "This client has no link.")

  init(
    _ declaration: GATTCharacteristic, in service: BluetoothUUID, of application: ApplicationID, at path: ObjectPath,
    daemon: BluetoothDaemon, counters: BlueZCounters
  ) {
    id = CharacteristicID(service: service, characteristic: declaration.uuid)
    self.application = application
    self.path = path
    self.declaration = declaration
    self.daemon = daemon
    self.counters = counters
  }

  /// The handle of the Client Characteristic Configuration. bluetoothd puts it after the value if the service has no
  /// descriptors of its own.
  var configurationHandle: UInt16 { handle &+ 1 }
  var canNotify: Bool { declaration.canNotify }
  var isExact: Bool { declaration.reach == .exact }

  /// Exports the object.
  ///
  /// - Parameter hasSockets: whether bluetoothd may request a socket for each client.
  func export(of service: ObjectPath, manager: ObjectPath, on tree: ObjectTree, hasSockets: Bool) {
    object = tree.export(path, interfaces: [interface(of: service, hasSockets: hasSockets)], manager: manager)
  }

  /// Removes the object from the bus.
  func close() { object?.cancel() }

  /// Handles that bluetoothd has dropped the characteristic. Its handle becomes 0, and the next registration sets it
  /// again.
  func dropped() { handle = 0 }

  /// Signals to bluetoothd that the property `Notifying` has changed.
  func notifyingChanged() { object?.changed("Notifying") }

  // MARK: Methods for bluetoothd

  private func interface(of service: ObjectPath, hasSockets: Bool) -> Interface {
    let options = Argument("options", "a{sv}")
    var methods = [
      method("ReadValue", [options], [Argument("value", "ay")]) { (self, call) throws(DBusError) in
        [.bytes(try self.read(CallOptions(call.arguments.first)))]
      },
      method("WriteValue", [Argument("value", "ay"), options]) { (self, call) throws(DBusError) in
        try self.write(call)
        return []
      },
      method("StartNotify") { (self, _) throws(DBusError) in
        guard self.canNotify else { throw Self.cannotNotify }
        try self.handler?.startNotify()
        return []
      },
      method("StopNotify") { (self, _) throws(DBusError) in
        self.handler?.stopNotify()
        return []
      },
      method("Confirm") { (_, _) throws(DBusError) in [] },
    ]
    var properties = [
      Property("UUID", "s", emits: .const, get: { [id] in .string(id.characteristic.description) }),
      Property("Service", "o", emits: .const, get: { .objectPath(service) }),
      Property("Flags", "as", emits: .const, get: { [declaration] in .strings(declaration.properties.flags) }),
      Property(
        "Handle", "q", emits: .none, get: { [weak self] in .uint16(self?.handle ?? 0) },
        set: { [weak self] (value) throws(DBusError) in self?.handle = value.asUInt16 ?? 0 }),
      // Values are sent only to bluetoothd: by a separate signal, by a socket, and in the answer to `ReadValue`.
      Property("Value", "ay", emits: .none, get: { .bytes([]) }),
      Property("Notifying", "b", get: { [weak self] in .bool(self?.handler?.hasSubscribers ?? false) }),
    ]
    if hasSockets, canNotify {
      methods.append(
        method("AcquireNotify", [options], [Argument("fd", "h"), Argument("mtu", "q")]) {
          (self, call) throws(DBusError) in
          let options = CallOptions(call.arguments.first)
          guard let end = try self.handler?.acquireNotify(options) else { throw Self.noLink }
          return [.descriptor(end), .uint16(options.mtuToReport)]
        })
      properties.append(
        Property("NotifyAcquired", "b", emits: .none, get: { [weak self] in .bool(self?.handler?.hasSockets ?? false) })
      )
    }
    if hasSockets, declaration.takesAllWrites, declaration.canBeWritten {
      methods.append(
        method("AcquireWrite", [options], [Argument("fd", "h"), Argument("mtu", "q")]) {
          (self, call) throws(DBusError) in
          let options = CallOptions(call.arguments.first)
          guard let end = try self.handler?.acquireWrite(options) else { throw Self.noLink }
          return [.descriptor(end), .uint16(options.mtuToReport)]
        })
    }
    return Interface(BlueZName.gattCharacteristic, methods: methods, properties: properties)
  }

  private func method(
    _ name: String, _ arguments: [Argument] = [], _ out: [Argument] = [],
    _ body: @escaping @LoopActor (ServedCharacteristic, MethodCall) throws(DBusError) -> [DBusValue]
  ) -> Method {
    Method(
      name, in: arguments, out: out,
      returning: { [weak self] (call) throws(DBusError) in
        guard let self, daemon.isCaller(of: call) else { throw .denied("Only bluetoothd may call this.") }
        return try body(self, call)
      })
  }

  // MARK: Writing and reading

  private func write(_ call: MethodCall) throws(DBusError) {
    do throws(ATTError) {
      try write(call.arguments.first?.asBytes ?? [], CallOptions(call.arguments.last))
    } catch {
      counters.refusedWrites += 1
      throw DBusError(answering: error)
    }
  }

  private func write(_ value: [UInt8], _ options: CallOptions) throws(ATTError) {
    guard declaration.canBeWritten else { throw .writeNotPermitted }
    guard options.offset == 0 else { throw .invalidOffset }
    guard value.count <= ATT.valueLimit else { throw .invalidLength }
    if options.isQuestion { return }
    guard let handler else { throw .unlikely }
    try handler.write(value, options)
  }

  private func read(_ options: CallOptions) throws(DBusError) -> [UInt8] {
    guard declaration.properties.contains(.read), let value = handler?.read(options) else {
      throw DBusError(name: BlueZName.Failure.notPermitted, message: "No value can be read.")
    }
    guard let offset = options.offset, offset <= value.count else {
      throw DBusError(name: BlueZName.Failure.invalidOffset, message: "The value has \(value.count) bytes.")
    }
    return Array(value.dropFirst(offset))
  }

  // MARK: Options

  /// The options of bluetoothd's calls of a characteristic, which describe the client and the value.
  ///
  /// | option | type | |
  /// | --- | --- | --- |
  /// | `device` | o | the client |
  /// | `mtu` | q | the ATT MTU of its link |
  /// | `offset` | q | the offset in the value; omitted for 0 |
  /// | `prepare-authorize` | b | the call only asks whether a prepared write may follow |
  struct CallOptions: Sendable {
    var device: ObjectPath?
    var mtu: Int?
    /// The offset in the value; nil if the option is not a valid offset.
    var offset: Int? = 0
    var isQuestion = false
    /// Number of options of a wrong type.
    var malformed: UInt64 = 0

    /// Parses `a{sv}` in one pass. For duplicate keys the last value counts.
    init(_ options: DBusValue?) {
      guard case .dictionary(_, _, let entries)? = options else { return }
      for entry in entries {
        guard case .string(let key) = entry.key else { continue }
        switch key {
        case "device": device = entry.value.asObjectPath
        case "mtu":
          mtu = ATT.mtu(entry.value)
          if mtu == nil { malformed += 1 }
        case "offset": offset = entry.value.asInteger.flatMap { $0 >= 0 ? $0 : nil }
        case "prepare-authorize": isQuestion = entry.value.asBool == true
        default: break
        }
      }
    }

    /// The MTU in the answer to `AcquireNotify` and `AcquireWrite`.
    fileprivate var mtuToReport: UInt16 { UInt16(clamping: mtu ?? ATT.firstMTU) }
  }
}
