import DBus
import Loop

/// The simulated bluetoothd as programs in the central role use it: connections, discovery, writes and subscriptions.
/// Facts: bluez.md section 3.
extension FakeBlueZ {
  private static let failed = "org.bluez.Error.Failed"

  // MARK: Peers

  /// Connects a peer that initiates the link, and discovers its services.
  public func arrive(_ peer: FakePeer) {
    let path = devicePath(peer.address, on: peer.adapter)
    setConnected(path, true)
    resolve(peer, path)
  }

  /// Takes a peer out of range.
  public func lose(_ peer: FakePeer) {
    let path = devicePath(peer.address, on: peer.adapter)
    guard devices[path]?.isConnected == true else { return }
    setConnected(path, false)
    peer.onDisconnect()
  }

  /// Sends a value of a peer to the subscribers.
  public func notify(_ value: [UInt8], of uuid: String, from peer: FakePeer) {
    let path = devicePath(peer.address, on: peer.adapter)
    guard devices[path]?.isConnected == true, peer.subscriptions.contains(uuid),
      let characteristic = attributePath(uuid, of: peer)
    else { return }
    connection.emit(
      characteristic, "org.freedesktop.DBus.Properties", "PropertiesChanged",
      [.string("org.bluez.GattCharacteristic1"), .options(["Value": .bytes(value)]), .strings([])])
  }

  /// The path of a peer's characteristic.
  public func attributePath(_ uuid: String, of peer: FakePeer) -> ObjectPath? {
    for (index, service) in peer.services.enumerated() {
      guard let position = service.characteristics.firstIndex(where: { $0.uuid == uuid }) else { continue }
      return characteristicPath(peer, index, position)
    }
    return nil
  }

  private func servicePath(_ peer: FakePeer, _ index: Int) -> ObjectPath {
    devicePath(peer.address, on: peer.adapter).child("service00\(String(16 + index, radix: 16))")
  }

  private func characteristicPath(_ peer: FakePeer, _ index: Int, _ position: Int) -> ObjectPath {
    servicePath(peer, index).child("char00\(String(16 + position, radix: 16))")
  }

  // MARK: Device1

  func exportDevice(_ path: ObjectPath) {
    let heard = devices[path]?.heard?.properties ?? [:]
    var properties = [
      Property("Adapter", "o", get: { .objectPath(path.parent ?? .root) }),
      Property("Address", "s", get: { [weak self] in .string(self?.devices[path]?.address ?? "") }),
      Property("Connected", "b", get: { [weak self] in .bool(self?.devices[path]?.isConnected ?? false) }),
      Property("Paired", "b", get: { [weak self] in .bool(self?.devices[path]?.isPaired ?? false) }),
      Property("ServicesResolved", "b", get: { [weak self] in .bool(self?.devices[path]?.isResolved ?? false) }),
    ]
    for (name, value) in heard { properties.append(Property(name, value.signature, get: { value })) }
    let interface = Interface(
      "org.bluez.Device1",
      methods: [
        Method("Connect") { [weak self] in self?.connect($0) },
        Method("Disconnect") { [weak self] in self?.disconnect($0) },
      ], properties: properties)
    // The exported properties read their values from `devices`.
    let object = connection.objects.export(path, interfaces: [interface], manager: .root)
    devices[path]?.object = object
    tell("added \(path.lastElement)")
  }

  private func connect(_ call: MethodCall) {
    let path = call.path
    calls.put("Connect \(path.lastElement)")
    guard devices[path]?.isConnected == false else {
      return devices[path] == nil ? call.fail(.unknownObject("It is gone.")) : call.reply()
    }
    guard let peer = peers[path], peer.refusals.isEmpty else {
      let error = peers[path]?.refusals.removeFirst()
      return call.fail(error ?? DBusError(name: Self.failed, message: "le-connection-abort-by-local"))
    }
    if peer.isDeaf {
      peer.connecting = call
      return tell("connecting to \(path.lastElement)")
    }
    if peer.isLostAtOnce { return call.reply() }
    if peer.isNeverTold {
      setConnected(path, true, isOutgoing: true)
      peer.onConnect()
      if !peer.isUnreadable { resolve(peer, path) }
      return EventLoop.shared.soon { call.reply() }
    }
    if peer.isToldLate {
      call.reply()
      signal(["RSSI": .int16(-50)], of: path)
      return EventLoop.shared.soon { [weak self] in
        self?.setConnected(path, true, isOutgoing: true)
        peer.onConnect()
        self?.resolve(peer, path)
      }
    }
    setConnected(path, true, isOutgoing: true)
    peer.onConnect()
    // The signal precedes the reply.
    EventLoop.shared.soon { [weak self] in
      call.reply()
      if !peer.isUnreadable { self?.resolve(peer, path) }
    }
  }

  private func disconnect(_ call: MethodCall) {
    calls.put("Disconnect \(call.path.lastElement)")
    if let pending = peers[call.path]?.connecting {
      peers[call.path]?.connecting = nil
      pending.fail(DBusError(name: Self.failed, message: "le-connection-abort-by-local"))
    }
    guard cutRefusals.isEmpty else { return call.fail(cutRefusals.removeFirst()) }
    guard !holdsCuts else { return heldCuts.append(call) }
    cut(call)
  }

  private func cut(_ call: MethodCall) {
    let wasConnected = devices[call.path]?.isConnected == true
    setConnected(call.path, false)
    if wasConnected { peers[call.path]?.onDisconnect() }
    EventLoop.shared.soon { call.reply() }
  }

  /// Completes the disconnections that bluetoothd delays by two seconds.
  public func endCuts() {
    let calls = heldCuts
    heldCuts = []
    for call in calls { cut(call) }
  }

  /// Reports the peer's services as bluetoothd does: the objects first, then ServicesResolved.
  private func resolve(_ peer: FakePeer, _ path: ObjectPath) {
    guard devices[path]?.isConnected == true else { return }
    let isKnown = devices[path]?.attributes.isEmpty == false
    for (index, service) in peer.services.enumerated() where !isKnown {
      let servicePath = servicePath(peer, index)
      let properties = [
        Property("UUID", "s", get: { .string(service.uuid) }), Property("Primary", "b", get: { .bool(true) }),
      ]
      show(path, Interface("org.bluez.GattService1", properties: properties), at: servicePath)
      for (position, characteristic) in service.characteristics.enumerated() {
        show(
          path, interface(of: characteristic, in: servicePath, of: peer, path),
          at: characteristicPath(peer, index, position))
      }
    }
    devices[path]?.isResolved = true
    devices[path]?.object?.changed("ServicesResolved")
    tell("resolved \(path.lastElement)")
  }

  /// Removes a characteristic of a connected peer, as bluetoothd does when it discovers the services again.
  public func takeAway(_ uuid: String, of peer: FakePeer) {
    guard let path = attributePath(uuid, of: peer) else { return }
    peer.writers[uuid]?.close()
    let device = devicePath(peer.address, on: peer.adapter)
    for object in devices[device]?.attributes ?? [] where object.path == path { object.cancel() }
    devices[device]?.attributes.removeAll { $0.path == path }
  }

  private func show(_ device: ObjectPath, _ interface: Interface, at path: ObjectPath) {
    let object = connection.objects.export(path, interfaces: [interface], manager: .root)
    devices[device]?.attributes.append(object)
  }

  func unresolve(_ path: ObjectPath) {
    let isKept = peers[path]?.isKept == true
    if !isKept { peers[path]?.subscriptions = [] }
    peers[path]?.busy = []
    peers[path]?.held = []
    peers[path]?.endWrites()
    guard devices[path]?.isResolved == true else { return }
    if !isKept {
      for object in devices[path]?.attributes ?? [] { object.cancel() }
      devices[path]?.attributes = []
    }
    devices[path]?.isResolved = false
    devices[path]?.object?.changed("ServicesResolved")
  }

  // MARK: GattCharacteristic1

  private func interface(
    of characteristic: FakePeer.Characteristic, in service: ObjectPath, of peer: FakePeer, _ device: ObjectPath
  ) -> Interface {
    var properties = [
      Property("UUID", "s", get: { .string(characteristic.uuid) }),
      Property("Service", "o", get: { .objectPath(service) }),
      Property("Flags", "as", get: { .strings(characteristic.flags) }),
    ]
    if let mtu = peer.mtu { properties.append(Property("MTU", "q", get: { .uint16(peer.mtu ?? mtu) })) }
    let options = Argument("options", "a{sv}")
    return Interface(
      "org.bluez.GattCharacteristic1",
      methods: [
        Method("WriteValue", in: [Argument("value", "ay"), options]) { [weak self] in
          self?.write($0, characteristic, peer, device)
        },
        Method("AcquireWrite", in: [options], out: [Argument("fd", "h"), Argument("mtu", "q")]) { [weak self] in
          self?.acquireWrite($0, characteristic, peer)
        },
        Method("StartNotify") { [weak self] in self?.startNotify($0, characteristic, peer) },
        Method("StopNotify") { [weak self] in self?.stopNotify($0, characteristic, peer) },
      ], properties: properties)
  }

  private func startNotify(_ call: MethodCall, _ characteristic: FakePeer.Characteristic, _ peer: FakePeer) {
    guard !Set(["notify", "indicate"]).isDisjoint(with: characteristic.flags) else {
      return call.fail(DBusError(name: "org.bluez.Error.NotSupported", message: "Operation is not supported"))
    }
    guard !peer.isOutdated else { return call.fail(peer.outdatedAnswer) }
    if let refusal = peer.subscriptionRefusal { return call.fail(refusal) }
    peer.subscriptions.insert(characteristic.uuid)
    peer.onSubscribe(characteristic.uuid) { [weak self] in
      call.reply()
      self?.tell("subscribed \(characteristic.uuid)")
    }
  }

  private func stopNotify(_ call: MethodCall, _ characteristic: FakePeer.Characteristic, _ peer: FakePeer) {
    calls.put("StopNotify \(characteristic.uuid.prefix(8))")
    peer.subscriptions.remove(characteristic.uuid)
    call.reply()
  }

  private func acquireWrite(_ call: MethodCall, _ characteristic: FakePeer.Characteristic, _ peer: FakePeer) {
    calls.put("AcquireWrite \(characteristic.uuid.prefix(8))")
    if let refusal = peer.socketRefusal { return call.fail(refusal) }
    guard characteristic.flags.contains("write-without-response") else {
      return call.fail(DBusError(name: "org.bluez.Error.NotSupported", message: "Operation is not supported"))
    }
    guard peer.writers[characteristic.uuid]?.isOpen != true else {
      return call.fail(DBusError(name: "org.bluez.Error.NotPermitted", message: "Write acquired"))
    }
    guard let (socket, end) = try? PacketSocket.pair() else { return call.fail(.failed("No sockets")) }
    peer.writers[characteristic.uuid] = socket
    if !peer.leavesWrites { peer.listen(to: socket, characteristic.uuid) }
    call.reply(.descriptor(end), .uint16(peer.mtu ?? 23))
  }

  private func write(
    _ call: MethodCall, _ characteristic: FakePeer.Characteristic, _ peer: FakePeer, _ device: ObjectPath
  ) {
    let value = call.arguments.first?.asBytes ?? []
    let type = call.arguments.last?["type"]?.asString ?? ""
    let needed = ["request": "write", "command": "write-without-response"][type] ?? "reliable-write"
    guard characteristic.flags.contains(needed) else {
      return call.fail(DBusError(name: "org.bluez.Error.NotSupported", message: "Operation is not supported"))
    }
    guard devices[device]?.isConnected == true else {
      return call.fail(DBusError(name: Self.failed, message: "Not connected"))
    }
    guard peer.writers[characteristic.uuid]?.isOpen != true else {
      return call.fail(DBusError(name: "org.bluez.Error.NotPermitted", message: "Write acquired"))
    }
    guard !peer.isOutdated || type == "command" else { return call.fail(peer.outdatedAnswer) }
    let answer: @LoopActor (DBusError?) -> Void = { error in
      let give: @LoopActor () -> Void = { error.map { call.fail($0) } ?? call.reply() }
      if peer.holdsAnswers { peer.held.append(give) } else { give() }
    }
    let write = FakePeer.Write(uuid: characteristic.uuid, value: value, type: type)
    if type == "command" {
      // A write command is answered when bluetoothd has sent the value, even if the peer does not receive it.
      guard value.count + 3 <= Int(peer.mtu ?? 23) else {
        return call.fail(DBusError(name: Self.failed, message: "Failed to initiate write"))
      }
      answer(nil)
      peer.writes.put(write)
      peer.onWrite(write) { _ in }
    } else {
      guard peer.busy.insert(characteristic.uuid).inserted else {
        return call.fail(DBusError(name: "org.bluez.Error.InProgress", message: "Operation already in progress"))
      }
      peer.writes.put(write)
      peer.onWrite(write) { error in
        peer.busy.remove(characteristic.uuid)
        answer(error)
      }
    }
    tell("written \(characteristic.uuid)")
  }
}
