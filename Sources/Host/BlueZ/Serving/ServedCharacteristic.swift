import Common
import DBus
import Journal
import Loop
import Radio

/// One of our characteristics on the bus, as `GattCharacteristic1`: the methods that bluetoothd calls when clients write, read and
/// subscribe, and the state of the subscribers.
///
/// bluetoothd from 5.76 on is offered `AcquireNotify`. It opens one socket for each client that subscribes, and closes it when the client
/// unsubscribes; by a fault also when another client leaves. bluetoothd before 5.76 would use one socket for all clients. It is offered
/// `StartNotify`, which reports the first subscriber without naming it.
///
/// From 5.76 on `AcquireWrite` is offered if the service accepts all writes, and while all clients are known and stream (`WriteOffer`). A
/// write through its socket cannot be refused.
@LoopActor
final class ServedCharacteristic {
  let application: ApplicationID
  let id: CharacteristicID
  let path: ObjectPath
  let reach: GATTCharacteristic.Reach
  let canNotify: Bool
  /// The handle of the value in bluetoothd's database, which bluetoothd writes here when it registers the application;
  /// 0 before.
  private(set) var handle: UInt16 = 0
  /// The handle of the Client Characteristic Configuration. bluetoothd places it after the value if the service has no
  /// descriptors of its own.
  var configurationHandle: UInt16 { handle &+ 1 }
  /// The sockets of subscribed clients, if bluetoothd has one for each client.
  var sockets: [LinkID: PacketSocket] = [:]
  /// Clients whose sockets bluetoothd has closed, until the reason is known.
  var closing: [LinkID: Registration] = [:]
  /// Clients with orphaned subscriptions: bluetoothd closed their sockets when another client left. They receive values
  /// that are sent to all.
  var stranded: Set<LinkID> = []
  /// When the last subscribed client left.
  private(set) var lastLeft: Instant?
  /// The sockets of clients that wrote, if bluetoothd has one for each client.
  var writers: [LinkID: PacketSocket] = [:]
  /// Nil if `AcquireWrite` is never offered.
  private(set) var writeOffer: WriteOffer?
  /// Clients that have unsubscribed while bluetoothd keeps their sockets open, with the timers that close the sockets.
  var ending: [LinkID: Registration] = [:]
  /// The last value sent on each socket, for characteristics whose values must arrive without a subscription too.
  private var lastSent: [LinkID: [UInt8]] = [:]
  /// Whether a client is subscribed, if bluetoothd does not distinguish clients.
  var isNotifying = false
  /// Number of calls of `StartNotify` and `StopNotify`, by which bluetoothd reports changes of subscriptions.
  private(set) var changes: UInt64 = 0
  /// The subscribed client, if it is certain.
  var subscriber: LinkID?

  private let properties: GATTCharacteristic.Properties
  private let takesAllWrites: Bool
  /// The last notified value, which clients can read, and the links that may read it; nil for all.
  private var last: (value: [UInt8], readers: [LinkID]?)?
  private weak var radio: BlueZRadio?
  private var object: ExportedObject?

  init(
    _ characteristic: GATTCharacteristic, in service: GATTService, of application: ApplicationID, at path: ObjectPath,
    radio: BlueZRadio
  ) {
    id = CharacteristicID(service: service.uuid, characteristic: characteristic.uuid)
    self.application = application
    self.path = path
    self.radio = radio
    properties = characteristic.properties
    reach = characteristic.reach
    canNotify = characteristic.canNotify
    takesAllWrites = characteristic.takesAllWrites && characteristic.canBeWritten
  }

  func export(of service: ObjectPath, manager: ObjectPath) {
    guard let radio else { return }
    if radio.keepsClientsApart, takesAllWrites {
      writeOffer = WriteOffer(scheduler: radio.scheduler) { [weak self] in self?.tell(ofOffer: $0) }
      for link in radio.links.all { writeOffer?.opened(link.id) }
    }
    object = radio.bus.objects.export(
      path, interfaces: [interface(of: service, keepsApart: radio.keepsClientsApart)], manager: manager)
  }

  /// Reports a changed offer. bluetoothd checks whether the property exists, and ignores its value.
  private func tell(ofOffer isMade: Bool) {
    guard let radio, let owner = radio.place?.owner else { return }
    Log.shared.debug(isMade ? "Sockets for writes are offered" : "No more sockets for writes are offered for now")
    let changed: [String: DBusValue] = isMade ? ["WriteAcquired": .bool(false)] : [:]
    radio.bus.emit(
      path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(changed), .strings(isMade ? [] : ["WriteAcquired"])], to: owner)
  }

  /// Removes the characteristic from the bus. Ends of subscriptions are no longer reported.
  func close() {
    object?.cancel()
    closeSockets()
  }

  private func closeSockets() {
    for socket in Array(sockets.values) + Array(writers.values) { socket.close() }
    (sockets, writers, closing, stranded, ending, lastSent) = ([:], [:], [:], [], [:], [:])
  }

  /// bluetoothd has dropped the characteristic. Its handle is void: the next registration sets it again.
  ///
  /// - Returns: the links whose subscriptions ended.
  func reset() -> [LinkID] {
    handle = 0
    let ended = subscribers + (subscriber.map { [$0] } ?? [])
    closeSockets()
    writeOffer?.reset()
    if radio?.hasUnlinkedPeers == true { writeOffer?.expectUnlinkedPeers() }
    setNotifying(false)
    return ended
  }

  /// A link has ended, together with its subscription.
  func forget(_ link: LinkID) {
    if subscribers.contains(link) { lastLeft = radio?.scheduler.now }
    sockets.removeValue(forKey: link)?.close()
    (closing[link], ending[link], lastSent[link]) = (nil, nil, nil)
    stranded.remove(link)
    writers.removeValue(forKey: link)?.close()
    writeOffer?.closed(link)
    if subscriber == link { subscriber = nil }
  }

  /// The subscribed clients, if bluetoothd distinguishes clients.
  var subscribers: [LinkID] {
    (Array(sockets.keys) + Array(closing.keys) + Array(stranded)).sorted { $0.number < $1.number }
  }

  func setNotifying(_ isNotifying: Bool, for subscriber: LinkID? = nil) {
    self.subscriber = subscriber
    guard isNotifying != self.isNotifying else { return }
    self.isNotifying = isNotifying
    object?.changed("Notifying")
  }

  /// Stores a value that was sent through the socket of a client.
  func sent(_ value: [UInt8], to link: LinkID) {
    if reach == .exact { lastSent[link] = value }
  }

  /// The last value that was sent through a closed socket; nil if bluetoothd has read everything from it.
  func takeUnread(of link: LinkID, from socket: PacketSocket) -> [UInt8]? {
    let value = lastSent.removeValue(forKey: link)
    return socket.hasLostPackets ? value : nil
  }

  /// Stores `value` for clients that read the characteristic. If its reach is exact, only the recipients can read it.
  func remember(_ value: [UInt8], for recipients: Recipients) {
    guard properties.contains(.read) else { return }
    switch (reach, recipients) {
    case (.subscribers, _), (_, .subscribers): last = (value, nil)
    case (.exact, .link(let link)): last = (value, [link])
    case (.exact, .links(let links)): last = (value, links)
    }
  }

  // MARK: Methods for bluetoothd

  private func interface(of service: ObjectPath, keepsApart: Bool) -> Interface {
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
        try self.start(keepsApart)
        return []
      },
      method("StopNotify") { (self, _) throws(DBusError) in
        self.changes += 1
        if self.isNotifying { self.radio?.unsubscribed(from: self) }
        return []
      },
      method("Confirm") { (_, _) throws(DBusError) in [] },
    ]
    var properties = [
      Property("UUID", "s", emits: .const, get: { [id] in .string(id.characteristic.description) }),
      Property("Service", "o", emits: .const, get: { .objectPath(service) }),
      Property("Flags", "as", emits: .const, get: { [properties] in .strings(properties.flags) }),
      Property(
        "Handle", "q", emits: .none, get: { [weak self] in .uint16(self?.handle ?? 0) },
        set: { [weak self] (value) throws(DBusError) in self?.handle = value.asUInt16 ?? 0 }),
      // Values are sent only to bluetoothd: by a separate signal, by a socket, and in the answer to `ReadValue`.
      Property("Value", "ay", emits: .none, get: { .bytes([]) }),
      Property("Notifying", "b", get: { [weak self] in .bool(self?.hasSubscribers ?? false) }),
    ]
    if keepsApart, canNotify {
      methods.append(
        method("AcquireNotify", [options], [Argument("fd", "h"), Argument("mtu", "q")]) {
          (self, call) throws(DBusError) in try self.acquire(CallOptions(call.arguments.first))
        })
      properties.append(
        Property("NotifyAcquired", "b", emits: .none, get: { [weak self] in .bool(self?.sockets.isEmpty == false) }))
    }
    if keepsApart, takesAllWrites {
      methods.append(
        method("AcquireWrite", [options], [Argument("fd", "h"), Argument("mtu", "q")]) {
          (self, call) throws(DBusError) in try self.acquireWrites(CallOptions(call.arguments.first))
        })
    }
    return Interface(BlueZName.gattCharacteristic, methods: methods, properties: properties)
  }

  private var hasSubscribers: Bool { isNotifying || !subscribers.isEmpty }

  private func method(
    _ name: String, _ arguments: [Argument] = [], _ out: [Argument] = [],
    _ body: @escaping @LoopActor (ServedCharacteristic, MethodCall) throws(DBusError) -> [DBusValue]
  ) -> Method {
    Method(
      name, in: arguments, out: out,
      returning: { [weak self] (call) throws(DBusError) in
        guard let self, radio?.isFromBluetoothd(call) == true else { throw .denied("Only bluetoothd may call this.") }
        return try body(self, call)
      })
  }

  // MARK: Writing and reading

  private func write(_ call: MethodCall) throws(DBusError) {
    do throws(ATTError) {
      try write(call.arguments.first?.asBytes ?? [], CallOptions(call.arguments.last))
    } catch {
      radio?.counters.refusedWrites += 1
      throw DBusError(answering: error)
    }
  }

  private func write(_ value: [UInt8], _ options: CallOptions) throws(ATTError) {
    guard !properties.isDisjoint(with: [.write, .writeWithoutResponse]) else { throw .writeNotPermitted }
    guard options.offset == 0 else { throw .invalidOffset }
    guard value.count <= ATT.valueLimit else { throw .invalidLength }
    if options.isQuestion { return }
    guard let radio else { throw .unlikely }
    try radio.written(value, to: self, options)
  }

  private func read(_ options: CallOptions) throws(DBusError) -> [UInt8] {
    let nothing = DBusError(name: BlueZName.Failure.notPermitted, message: "There is nothing to read.")
    guard properties.contains(.read) else { throw nothing }
    let link = radio?.read(self, options)
    guard let last, last.readers.map({ readers in link.map(readers.contains) ?? false }) ?? true else { throw nothing }
    let value = last.value
    guard let offset = options.offset, offset <= value.count else {
      throw DBusError(name: BlueZName.Failure.invalidOffset, message: "The value has \(value.count) bytes.")
    }
    return Array(value.dropFirst(offset))
  }

  // MARK: Subscribing

  private static let cannotNotify = DBusError(
    name: BlueZName.Failure.notSupported, message: "This characteristic does not notify.")

  private func start(_ keepsApart: Bool) throws(DBusError) {
    guard canNotify else { throw Self.cannotNotify }
    guard !keepsApart else {
      throw DBusError(name: BlueZName.Failure.notSupported, message: "Values go by AcquireNotify only.")
    }
    changes += 1
    if !isNotifying { radio?.subscribed(to: self) }
  }

  private func acquire(_ options: CallOptions) throws(DBusError) -> [DBusValue] {
    guard canNotify else { throw Self.cannotNotify }
    guard let end = try radio?.acquired(self, options) else {
      throw DBusError(name: BlueZName.Failure.failed, message: "There is no link with this client.")
    }
    return [.descriptor(end), .uint16(UInt16(clamping: options.mtu ?? ATT.firstMTU))]
  }

  private func acquireWrites(_ options: CallOptions) throws(DBusError) -> [DBusValue] {
    guard let end = try radio?.acquiredWrites(self, options) else {
      throw DBusError(name: BlueZName.Failure.failed, message: "There is no link with this client.")
    }
    return [.descriptor(end), .uint16(UInt16(clamping: options.mtu ?? ATT.firstMTU))]
  }
}

extension ServedCharacteristic {
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
    /// Nil if the option is not a valid offset.
    var offset: Int? = 0
    var isQuestion = false
    /// Number of options of a wrong type.
    var malformed: UInt64 = 0

    /// Parses `a{sv}` in one pass; of duplicate keys the last counts.
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
  }
}

extension GATTCharacteristic.Properties {
  /// The flags of `GattCharacteristic1`.
  private static let names: [(Self, String)] = [
    (.read, "read"), (.writeWithoutResponse, "write-without-response"), (.write, "write"), (.notify, "notify"),
    (.indicate, "indicate"),
  ]

  var flags: [String] {
    Self.names.filter { contains($0.0) }.map(\.1)
  }

  /// Converts the known flags of a peer's characteristic.
  init(flags: [String]) {
    self.init(Self.names.filter { flags.contains($0.1) }.map(\.0))
  }
}
