import Common
import DBus
import Loop
import Radio

/// Advertisements that bluetoothd sends for us: one registered D-Bus object for each slot.
@LoopActor
final class RegisteredAdvertising: AdvertisingWay {
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let words: ShortfallWords
  private let isFromBluetoothd: @LoopActor (MethodCall) -> Bool
  private let onChange: @LoopActor () -> Void
  private let onSlots: @LoopActor () -> Void
  private let onAir: @LoopActor (Advertisement?, Int) -> Void
  private var slotsByNumber: [Int: RegisteredSlot] = [:]
  private var place: Place?
  private var adapter: Adapter?
  /// Number of registrations whose removal bluetoothd has not confirmed.
  private var leaving = 0
  private(set) var slots = 1
  /// Slots with an advertisement that bluetoothd would alter, and that therefore is not sent.
  private var withheld: Set<Int> = []

  /// - Parameters:
  ///   - onChange: called when `problem` may have changed.
  ///   - onSlots: called when `slots` changed.
  ///   - onAir: called when the advertisement that a slot broadcasts has changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, words: ShortfallWords,
    isFromBluetoothd: @escaping @LoopActor (MethodCall) -> Bool, onChange: @escaping @LoopActor () -> Void,
    onSlots: @escaping @LoopActor () -> Void, onAir: @escaping @LoopActor (Advertisement?, Int) -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.words = words
    self.isFromBluetoothd = isFromBluetoothd
    self.onChange = onChange
    self.onSlots = onSlots
    self.onAir = onAir
  }

  var foreign: Int {
    max(0, (adapter?.activeInstances ?? 0) - slotsByNumber.values.count { $0.registration.isRegistered })
  }

  private var inOrder: [RegisteredSlot] { slotsByNumber.sorted { $0.key < $1.key }.map(\.value) }

  var problem: String? {
    inOrder.lazy.compactMap(\.registration.problem).first ?? (withheld.isEmpty ? nil : words.withheld)
  }

  var shortfall: String? { inOrder.lazy.compactMap { self.words.shortfall(of: $0.advertisement) }.first }

  func owns(_ path: ObjectPath) -> Bool {
    slotsByNumber.values.contains { path.isWithin($0.registration.path) }
  }

  // MARK: Requests

  func show(_ advertisement: Advertisement?, in number: Int) {
    withheld.remove(number)
    guard let advertisement else { return empty(number) }
    if !advertisement.isConnectable, !words.isDegradable {
      withheld.insert(number)
      onChange()
      return empty(number)
    }
    if let slot = slotsByNumber[number] { return slot.show(advertisement) }
    let registration = PersistentRegistration(
      .advertisement, BlueZName.ownRoot.child("adv\(number)"), bus: bus, scheduler: scheduler,
      onRegistered: { [weak self] isRegistered in
        guard let self else { return }
        onAir(isRegistered ? slotsByNumber[number]?.advertisement : nil, number)
        countSlots()
      },
      onChange: { [weak self] in
        self?.onChange()
        self?.countSlots()
      })
    slotsByNumber[number] = RegisteredSlot(
      advertisement, on: bus.objects, registration: registration, isFromBluetoothd: isFromBluetoothd)
    registration.aim(at: place)
  }

  private func empty(_ number: Int) {
    guard let slot = slotsByNumber.removeValue(forKey: number) else { return }
    onAir(nil, number)
    leaving += 1
    slot.close { [weak self] in
      self?.leaving -= 1
      self?.countSlots()
    }
  }

  func aim(at place: Place?) {
    self.place = place
    adapter = nil
    for slot in inOrder { slot.registration.aim(at: place) }
  }

  func renew() {
    for slot in inOrder where slot.advertisement.isConnectable { slot.registration.renew() }
  }

  // MARK: Slots

  func adapterChanged(_ adapter: Adapter) {
    self.adapter = adapter
    countSlots()
  }

  /// Computes `slots`. bluetoothd counts our advertisements as active, so the number is computed only while no
  /// registration is under way.
  private func countSlots() {
    guard leaving == 0, let adapter, let free = adapter.supportedInstances,
      !slotsByNumber.values.contains(where: \.registration.isUnderWay)
    else { return }
    let own = slotsByNumber.values.count { $0.registration.isRegistered }
    let room = max(1, free + own)
    guard room != slots else { return }
    slots = room
    onSlots()
  }
}

/// One slot: an advertisement on the bus, as `LEAdvertisement1`, and its registration with bluetoothd.
///
/// bluetoothd determines the order of the AD structures, always puts the local name into the scan response, and writes
/// 0x06 for all discoverable flags. Facts: bluez.md section 6.
@LoopActor
final class RegisteredSlot {
  let registration: PersistentRegistration
  private(set) var advertisement: Advertisement
  private let tree: ObjectTree
  private let isFromBluetoothd: @LoopActor (MethodCall) -> Bool
  private var object: ExportedObject?

  /// The range of intervals that controllers accept, in milliseconds.
  private nonisolated static let intervals = 20...10_240
  /// AD types that have their own properties in `LEAdvertisement1`, which refuses them in `Data`.
  nonisolated static let ownTypes: Set<UInt8> = [
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x14, 0x15, 0x16, 0x19, 0x1F, 0x20, 0x21, 0xFF,
  ]

  init(
    _ advertisement: Advertisement, on tree: ObjectTree, registration: PersistentRegistration,
    isFromBluetoothd: @escaping @LoopActor (MethodCall) -> Bool
  ) {
    self.advertisement = advertisement
    self.registration = registration
    self.tree = tree
    self.isFromBluetoothd = isFromBluetoothd
    export()
  }

  /// Replaces the advertisement. bluetoothd reads the properties only at registration, so the object is registered
  /// again.
  func show(_ advertisement: Advertisement) {
    guard advertisement != self.advertisement else { return }
    self.advertisement = advertisement
    object?.cancel()
    export()
    registration.renew()
  }

  func close(then: @escaping @LoopActor () -> Void) {
    registration.close(then: then)
    object?.cancel()
  }

  private func export() {
    let release = Method(
      "Release",
      returning: { [weak registration, isFromBluetoothd] (call) throws(DBusError) in
        guard isFromBluetoothd(call) else { throw .denied("Only bluetoothd may call this.") }
        registration?.released()
        return []
      })
    object = tree.export(
      registration.path,
      interfaces: [
        Interface(
          BlueZName.advertisement, methods: [release],
          properties: Self.values(advertisement).map { name, value in
            Property(name, value.signature, emits: .const, get: { value })
          })
      ])
  }

  // MARK: The properties

  /// The local name; nil for a connectable advertisement whose scan response has no space for it.
  nonisolated static func name(of advertisement: Advertisement) -> String? {
    let scanResponse = advertisement.scanResponse
    guard advertisement.isConnectable else { return advertisement.data.localName }
    if let name = scanResponse.localName { return name }
    guard let name = advertisement.data.localName else { return nil }
    return (try? AdvertisingData(scanResponse.structures + [.localName(name)]).encoded()) == nil ? nil : name
  }

  /// The properties of `LEAdvertisement1`, without empty ones.
  nonisolated static func values(_ advertisement: Advertisement) -> [(String, DBusValue)] {
    let data = advertisement.data
    let name = name(of: advertisement)
    // bluetoothd accepts no name for a broadcast.
    let isPeripheral = advertisement.isConnectable || name != nil
    var values: [(String, DBusValue)] = [("Type", .string(isPeripheral ? "peripheral" : "broadcast"))]
    values += payload(data, prefix: "")
    if isPeripheral {
      values += payload(advertisement.scanResponse, prefix: "ScanResponse")
      // Limited and general discoverable: bits 0 and 1.
      if let flags = data.flags { values.append(("Discoverable", .bool(flags & 0x03 != 0))) }
    }
    if let name { values.append(("LocalName", .string(name))) }
    let asked = Int(clamping: advertisement.interval.wholeNanoseconds / 1_000_000)
    let interval = UInt32(min(max(asked, intervals.lowerBound), intervals.upperBound))
    values.append(("MinInterval", .uint32(interval)))
    values.append(("MaxInterval", .uint32(interval)))
    return values
  }

  private nonisolated static func payload(_ data: AdvertisingData, prefix: String) -> [(String, DBusValue)] {
    var values: [(String, DBusValue)] = []
    if !data.serviceUUIDs.isEmpty {
      values.append((prefix + "ServiceUUIDs", .strings(data.serviceUUIDs.map(\.advertisedText))))
    }
    if !data.serviceData.isEmpty {
      let entries = data.serviceData.map { DBusEntry(.string($0.service.advertisedText), .variant(.bytes($0.bytes))) }
      values.append((prefix + "ServiceData", .dictionary(key: "s", value: "v", entries)))
    }
    if !data.manufacturerData.isEmpty {
      let entries = data.manufacturerData.map { DBusEntry(.uint16($0.company), .variant(.bytes($0.bytes))) }
      values.append((prefix + "ManufacturerData", .dictionary(key: "q", value: "v", entries)))
    }
    let others = data.structures.compactMap { structure -> DBusEntry? in
      guard case .other(let type, let bytes) = structure, !ownTypes.contains(type) else { return nil }
      return DBusEntry(.byte(type), .variant(.bytes(bytes)))
    }
    if !others.isEmpty { values.append((prefix + "Data", .dictionary(key: "y", value: "v", others))) }
    return values
  }
}

extension BluetoothUUID {
  /// Text form of the UUID for bluetoothd: four hex digits for a 16-bit UUID, so that bluetoothd sends two bytes.
  fileprivate var advertisedText: String {
    guard let short else { return description }
    let digits = String(short, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }
}
