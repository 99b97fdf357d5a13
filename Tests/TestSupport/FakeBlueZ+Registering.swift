import DBus
import Loop

/// The simulated bluetoothd as programs register at it: applications and advertisements, at the adapter objects.
extension FakeBlueZ {
  private static let failed = "org.bluez.Error.Failed"
  private static let maximumAdvertisements = 3

  // MARK: Objects

  func export(_ name: String) {
    export([adapterInterface(name)], of: name)
    if adapters[name]?.isComplete == true { exportManagers(name) }
  }

  func exportManagers(_ name: String) {
    export([gattManager(name), advertisingManager(name)], of: name)
  }

  private func export(_ interfaces: [Interface], of name: String) {
    let path = adapterPath(name)
    let objects = interfaces.map {
      FakeAdapter.Object(exported: connection.objects.export(path, interfaces: [$0], manager: .root), interface: $0)
    }
    adapters[name]?.objects += objects
    tell("added \(name)")
  }

  private func adapterInterface(_ name: String) -> Interface {
    Interface(
      "org.bluez.Adapter1", methods: discoveryMethods(name),
      properties: [
        Property("Address", "s", get: { [weak self] in .string(self?.adapters[name]?.address ?? "") }),
        Property("Powered", "b", get: { [weak self] in .bool(self?.adapters[name]?.isPowered ?? false) }),
        Property("Roles", "as", get: { [weak self] in .strings(self?.adapters[name]?.roles ?? []) }),
      ] + (adapters[name]?.powerState == nil ? [] : [powerState(name)]))
  }

  private func powerState(_ name: String) -> Property {
    Property("PowerState", "s", get: { [weak self] in .string(self?.adapters[name]?.powerState ?? "") })
  }

  private func gattManager(_ name: String) -> Interface {
    let (path, options) = (Argument("application", "o"), Argument("options", "a{sv}"))
    return Interface(
      "org.bluez.GattManager1",
      methods: [
        Method("RegisterApplication", in: [path, options]) { [weak self] in self?.registerApplication($0, name) },
        Method("UnregisterApplication", in: [path]) { [weak self] in self?.unregisterApplication($0, name) },
      ])
  }

  private func advertisingManager(_ name: String) -> Interface {
    let (path, options) = (Argument("advertisement", "o"), Argument("options", "a{sv}"))
    return Interface(
      "org.bluez.LEAdvertisingManager1",
      methods: [
        Method("RegisterAdvertisement", in: [path, options]) { [weak self] in self?.registerAdvertisement($0, name) },
        Method("UnregisterAdvertisement", in: [path]) { [weak self] in self?.unregisterAdvertisement($0, name) },
      ],
      properties: [
        Property("ActiveInstances", "y", get: { [weak self] in .byte(self?.activeInstances(name) ?? 0) }),
        Property(
          "SupportedInstances", "y",
          get: { [weak self] in
            .byte(UInt8(clamping: Self.maximumAdvertisements - Int(self?.activeInstances(name) ?? 0)))
          }),
      ])
  }

  /// Records a registration call. If a refusal is configured, answers the call with it and returns nil.
  private func begin(_ call: MethodCall, _ adapter: String) -> ObjectPath? {
    let path = call.arguments.first?.asObjectPath ?? .root
    calls.put("\(call.member) \(adapter) \(path)")
    follow(call.sender)
    guard !refusals.isEmpty, call.member.hasPrefix("Register") else { return path }
    call.fail(refusals.removeFirst())
    tell("refused \(path)")
    return nil
  }

  private func answer(_ call: MethodCall, _ error: DBusError?) {
    let give: @LoopActor () -> Void = { error.map { call.fail($0) } ?? call.reply() }
    if holdsAnswers { held.append(give) } else { give() }
    tell("answered \(call.member)")
  }

  // MARK: Applications

  private func registerApplication(_ call: MethodCall, _ adapter: String) {
    guard let path = begin(call, adapter) else { return }
    let owner = call.sender
    guard !applications.contains(where: { $0.owner == owner && $0.path == path }) else {
      return call.fail(DBusError(name: "org.bluez.Error.AlreadyExists", message: "Already Exists"))
    }
    applications.append(FakeApplication(owner: owner, path: path, adapter: adapter))
    connection.call(owner, path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects") { [weak self] result in
      guard let self, let index = applications.firstIndex(where: { $0.owner == owner && $0.path == path }) else {
        return
      }
      do {
        let objects = try result.get().first?.asDictionary ?? [:]
        applications[index].characteristics = try parse(objects)
        try giveHandles(index, objects)
        writeHandles(index)
        answer(call, nil)
      } catch {
        applications.remove(at: index)
        answer(call, DBusError(name: Self.failed, message: "\(error)"))
      }
    }
  }

  private func unregisterApplication(_ call: MethodCall, _ adapter: String) {
    guard let path = begin(call, adapter) else { return }
    let isThere = applications.contains { $0.owner == call.sender && $0.path == path && $0.adapter == adapter }
    applications.removeAll { $0.owner == call.sender && $0.path == path && $0.adapter == adapter }
    isThere ? call.reply() : call.fail(DBusError(name: "org.bluez.Error.DoesNotExist", message: "Does Not Exist"))
    tell("unregistered \(path)")
  }

  /// The characteristics of an application by UUID, checked as bluetoothd checks them.
  private func parse(
    _ objects: [String: DBusValue]
  ) throws(DBusError) -> [String: FakeApplication.Characteristic] {
    var characteristics: [String: FakeApplication.Characteristic] = [:]
    for (path, interfaces) in objects.sorted(by: { $0.key < $1.key }) {
      guard let properties = interfaces["org.bluez.GattCharacteristic1"] else { continue }
      guard let path = ObjectPath(path), let uuid = properties["UUID"]?.asString,
        let flags = properties["Flags"]?.asStrings, let service = properties["Service"]?.asObjectPath,
        let serviceUUID = objects[service.string]?["org.bluez.GattService1"]?["UUID"]?.asString,
        objects[service.string]?["org.bluez.GattService1"]?["Primary"]?.asBool == true
      else { throw DBusError(name: Self.failed, message: "Failed to parse characteristic \(path)") }
      guard keepsClientsApart || properties["NotifyAcquired"] == nil && properties["WriteAcquired"] == nil else {
        throw DBusError(name: Self.failed, message: "This bluetoothd mixes up clients.")
      }
      let canNotify = !Set(["notify", "indicate"]).isDisjoint(with: flags)
      guard properties["NotifyAcquired"].map({ $0.asBool == false && canNotify }) ?? true else {
        throw DBusError(
          name: Self.failed, message: "A socket is acquired already, or by a characteristic without values.")
      }
      guard properties["Handle"]?.asUInt16 == 0 else {
        throw DBusError(name: Self.failed, message: "The handle is taken.")
      }
      characteristics[characteristics[uuid] == nil ? uuid : "\(serviceUUID) \(uuid)"] = .init(
        path: path, service: serviceUUID, flags: flags, offersSockets: properties["NotifyAcquired"] != nil,
        offersWriteSockets: properties["WriteAcquired"] != nil)
    }
    guard !characteristics.isEmpty else { throw DBusError(name: Self.failed, message: "No object received") }
    return characteristics
  }

  /// Gives each service of an application its requested handles, or else the next ones. Facts:
  /// `gatt_db_insert_service`.
  private func giveHandles(_ index: Int, _ objects: [String: DBusValue]) throws(DBusError) {
    let application = applications[index]
    let adapter = application.adapter
    for (path, interfaces) in objects.sorted(by: { $0.key < $1.key }) {
      guard let service = interfaces["org.bluez.GattService1"] else { continue }
      let own = application.characteristics.filter { $0.value.path.string.hasPrefix(path + "/") }
        .sorted { $0.value.path.string < $1.value.path.string }
      let count = 1 + own.reduce(0) { $0 + $1.value.handleCount }
      let last = lastHandles[adapter] ?? Self.ownHandles
      let asked = service["Handle"]?.asUInt16 ?? 0
      let first = asked == 0 ? last + 1 : asked
      let range = first...(first + count - 1)
      guard !applications.contains(where: { $0.adapter == adapter && $0.handles.contains { $0.overlaps(range) } }),
        first > Self.ownHandles
      else { throw DBusError(name: Self.failed, message: "Failed to create entry in database") }
      applications[index].handles.append(range)
      lastHandles[adapter] = max(last, range.upperBound)
      var next = first + 1
      for (uuid, characteristic) in own {
        // The declaration precedes the value.
        applications[index][uuid]?.handle = next + 1
        next += characteristic.handleCount
      }
    }
  }

  /// Reserves these attribute handles, as if the application of another program used them.
  public func occupy(_ handles: ClosedRange<UInt16>, of adapter: String = "hci0") {
    var application = FakeApplication(owner: ":0.0", path: "/other", adapter: adapter)
    application.handles = [handles]
    applications.append(application)
    lastHandles[adapter] = max(lastHandles[adapter] ?? Self.ownHandles, handles.upperBound)
  }

  /// The last handle of bluetoothd's own services.
  private static let ownHandles: UInt16 = 0x003B

  private func writeHandles(_ index: Int) {
    let application = applications[index]
    for characteristic in application.characteristics.values {
      connection.call(
        application.owner, characteristic.path, "org.freedesktop.DBus.Properties", "Set",
        [.string("org.bluez.GattCharacteristic1"), .string("Handle"), .variant(.uint16(characteristic.handle))]
      ) { _ in }
    }
  }

  // MARK: Advertisements

  private func registerAdvertisement(_ call: MethodCall, _ adapter: String) {
    guard let path = begin(call, adapter) else { return }
    let owner = call.sender
    guard !advertisements.contains(where: { $0.owner == owner && $0.path == path }) else {
      return call.fail(DBusError(name: "org.bluez.Error.AlreadyExists", message: "Already Exists"))
    }
    guard
      advertisements.count(where: { $0.adapter == adapter }) + Int(adapters[adapter]?.activeInstances ?? 0)
        < Self.maximumAdvertisements
    else {
      return answer(
        call, DBusError(name: "org.bluez.Error.NotPermitted", message: "Maximum advertisements reached"))
    }
    advertisements.append(FakeAdvertisement(owner: owner, path: path, adapter: adapter))
    connection.call(
      owner, path, "org.freedesktop.DBus.Properties", "GetAll", [.string("org.bluez.LEAdvertisement1")]
    ) { [weak self] result in
      guard let self, let index = advertisements.firstIndex(where: { $0.owner == owner && $0.path == path })
      else { return }
      guard let values = try? result.get().first?.asDictionary, Self.canBeParsed(values) else {
        advertisements.remove(at: index)
        return answer(call, DBusError(name: Self.failed, message: "Failed to parse advertisement"))
      }
      advertisements[index].values = values
      advertisements[index].isOnAir = true
      // The signal precedes the reply.
      countAdvertisements(adapter)
      EventLoop.shared.soon { [weak self] in self?.answer(call, nil) }
    }
  }

  /// Whether bluetoothd 5.66 accepts these advertisement properties. Facts: bluez.md section 6.
  private static func canBeParsed(_ values: [String: DBusValue]) -> Bool {
    guard let type = values["Type"]?.asString, ["peripheral", "broadcast"].contains(type) else { return false }
    if type == "broadcast", values["LocalName"] != nil || values["Discoverable"] != nil { return false }
    guard case .dictionary("y", _, let entries)? = values["Data"] else { return values["Data"] == nil }
    return entries.allSatisfy { ![0x01, 0x03, 0x07, 0x08, 0x09, 0x16, 0x21, 0xFF].contains($0.key.asByte) }
  }

  private func unregisterAdvertisement(_ call: MethodCall, _ adapter: String) {
    guard let path = begin(call, adapter) else { return }
    let isThere = advertisements.contains { $0.owner == call.sender && $0.path == path }
    advertisements.removeAll { $0.owner == call.sender && $0.path == path }
    countAdvertisements(adapter)
    EventLoop.shared.soon {
      isThere ? call.reply() : call.fail(DBusError(name: "org.bluez.Error.DoesNotExist", message: "Does Not Exist"))
    }
    tell("unregistered \(path)")
  }
}
