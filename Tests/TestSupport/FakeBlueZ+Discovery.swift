import DBus
import Loop

/// The simulated bluetoothd as scanning programs use it. Facts: bluez-debian13.md section 2.
extension FakeBlueZ {
  private static let failed = "org.bluez.Error.Failed"

  // MARK: Discovery

  func discoveryMethods(_ adapter: String) -> [Method] {
    [
      Method("SetDiscoveryFilter", in: [Argument("properties", "a{sv}")]) { [weak self] in self?.setFilter($0) },
      Method("StartDiscovery") { [weak self] in self?.startDiscovery($0, adapter) },
      Method("StopDiscovery") { [weak self] in self?.stopDiscovery($0, adapter) },
      Method("RemoveDevice", in: [Argument("device", "o")]) { [weak self] in self?.removeDevice($0) },
    ]
  }

  private func setFilter(_ call: MethodCall) {
    follow(call.sender)
    filters[call.sender] = call.arguments.first?.asDictionary
    call.reply()
  }

  private func startDiscovery(_ call: MethodCall, _ adapter: String) {
    calls.put("StartDiscovery \(adapter)")
    follow(call.sender)
    guard refusals.isEmpty else {
      call.fail(refusals.removeFirst())
      return tell("refused discovery")
    }
    guard adapters[adapter]?.isPowered == true else {
      return call.fail(DBusError(name: "org.bluez.Error.NotReady", message: "Resource Not Ready"))
    }
    guard discoverers[adapter, default: []].insert(call.sender).inserted else {
      return call.fail(DBusError(name: "org.bluez.Error.InProgress", message: "Operation already in progress"))
    }
    // The kernel continues a discovery that another client needs.
    if discoverers[adapter]?.count == 1 { stoppedScans.remove(adapter) }
    call.reply()
    tell("discovering on \(adapter)")
  }

  private func stopDiscovery(_ call: MethodCall, _ adapter: String) {
    calls.put("StopDiscovery \(adapter)")
    guard discoverers[adapter]?.remove(call.sender) != nil else {
      return call.fail(DBusError(name: Self.failed, message: "No discovery started"))
    }
    call.reply()
    tell("discovery on \(adapter) stopped")
  }

  private func removeDevice(_ call: MethodCall) {
    guard let path = call.arguments.first?.asObjectPath, devices[path] != nil else {
      return call.fail(DBusError(name: "org.bluez.Error.DoesNotExist", message: "Does Not Exist"))
    }
    let isPowered = adapters.contains { name, adapter in adapter.isPowered && path.isWithin(adapterPath(name)) }
    guard isPowered else {
      return call.fail(DBusError(name: "org.bluez.Error.NotReady", message: "Resource Not Ready"))
    }
    calls.put("RemoveDevice \(path.lastElement)")
    removeDevice(path)
    call.reply()
  }

  /// Whether a program discovers on an adapter.
  public func isDiscovering(_ adapter: String = "hci0") -> Bool { discoverers[adapter]?.isEmpty == false }

  /// Makes the controller stop scanning without notice to the kernel and bluetoothd. No report arrives until the
  /// discovery is restarted.
  public func stopScanning(_ adapter: String = "hci0") { stoppedScans.insert(adapter) }

  /// Records that the kernel's discovery was stopped by the management socket; bluetoothd restarts it for the
  /// programs that need it.
  public func restartScanning(_ adapter: String = "hci0") { stoppedScans.remove(adapter) }

  // MARK: Peers

  /// Adds a peer in range of its adapter, which was not received yet.
  @discardableResult
  public func add(_ peer: FakePeer) -> ObjectPath {
    let path = devicePath(peer.address, on: peer.adapter)
    peers[path] = peer
    return path
  }

  /// Makes the controller receive an advertisement of a peer. It is reported only while the controller scans for a
  /// discovery.
  ///
  /// - Parameters:
  ///   - uuids: UUIDs in this report; bluetoothd's list only grows.
  ///   - serviceData: replaces the data of the previous report.
  ///   - manufacturerData: replaces the data of the previous report.
  ///   - name: signalled where this report contains one.
  public func hear(
    _ peer: FakePeer, uuids: [String] = [], serviceData: [String: [UInt8]] = [:],
    manufacturerData: [UInt16: [UInt8]] = [:], name: String? = nil, rssi: Int16 = -60
  ) {
    guard isDiscovering(peer.adapter), !stoppedScans.contains(peer.adapter) else { return }
    let path = devicePath(peer.address, on: peer.adapter)
    let known = devices[path]?.heard?.uuids ?? []
    let heard = FakeDevice.Heard(
      uuids: known + uuids.filter { !known.contains($0) }, serviceData: serviceData,
      manufacturerData: manufacturerData, rssi: rssi, name: name)
    if devices[path] == nil {
      devices[path] = FakeDevice(address: peer.address, isConnected: false, isPaired: false)
      devices[path]?.heard = heard
      exportDevice(path)
    } else {
      devices[path]?.heard = heard
      var changed = heard.properties
      if heard.uuids == known { changed["UUIDs"] = nil }
      signal(changed, of: path)
    }
  }
}
