import Common
import Loop
import Radio

/// A node of an air: the radio port, simulated.
@LoopActor
public final class AirRadio: Radio {
  public let address: BluetoothAddress
  let air: AirSpace
  private let adapter: String

  var isRemoved = false
  private var advertisements: Roster<OwnAdvertisement> = Roster()
  private var ownScans: Roster<OwnScan> = Roster()
  private var statusHandlers: Roster<@LoopActor (RadioStatus) -> Void> = Roster()
  private(set) var applications: Roster<AirApplication> = Roster()
  private(set) var connections: [AirConnection] = []

  private struct OwnAdvertisement {
    var data: [UInt8]
    var scanResponse: [UInt8]
    var interval: Duration
    var onAir: UInt64?
  }

  private struct OwnScan {
    var scan: AirScan
    var running: UInt64?
  }

  init(air: AirSpace, address: BluetoothAddress, adapter: String, position: AirPosition) {
    self.air = air
    self.address = address
    self.adapter = adapter
    self.position = position
  }

  /// Where the node is. Links to those who are out of range now end.
  public var position: AirPosition {
    didSet { air.rangeChanged() }
  }

  // MARK: Power

  /// Whether there is an adapter, and it is on. Without one the links end, and advertisements, scans and applications
  /// wait until it is back.
  public var power = true {
    didSet {
      if isRemoved { power = false }
      guard power != oldValue else { return }
      if power { switchOn() } else { switchOff() }
      let status = status
      for (id, _) in statusHandlers.entries {
        air.agenda.next { [weak self] in self?.statusHandlers[id]?(status) }
      }
    }
  }

  public var status: RadioStatus {
    if power { return RadioStatus(.ready, adapters: [adapter]) }
    return RadioStatus(.waiting, reason: "The simulated adapter is switched off.")
  }

  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    let id = statusHandlers.add(handler)
    return Registration { [weak self] in self?.statusHandlers.remove(id) }
  }

  private func switchOn() {
    for (id, own) in advertisements.entries { startAdvertising(id, own) }
    for (id, own) in ownScans.entries {
      own.scan.restart()
      startScanning(id, own)
    }
  }

  private func switchOff() {
    for connection in connections {
      connection.close(reason: "The Bluetooth adapter is gone.", by: connection.central === self ? .client : .server)
    }
    for (id, own) in advertisements.entries {
      own.onAir.map(air.takeOffAir)
      advertisements[id]?.onAir = nil
    }
    for (id, own) in ownScans.entries {
      own.running.map { _ = air.scans.remove($0) }
      ownScans[id]?.running = nil
    }
  }

  // MARK: Advertising

  public func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    let data = try advertisement.data.encoded()
    let scanResponse = try advertisement.scanResponse.encoded()
    return advertise(data: data, scanResponse: scanResponse, interval: advertisement.interval)
  }

  func advertise(data: [UInt8], scanResponse: [UInt8], interval: Duration) -> Registration {
    let own = OwnAdvertisement(data: data, scanResponse: scanResponse, interval: interval)
    let id = advertisements.add(own)
    if power { startAdvertising(id, own) }
    return Registration { [weak self] in
      guard let self, let own = advertisements.remove(id) else { return }
      own.onAir.map(air.takeOffAir)
    }
  }

  private func startAdvertising(_ id: UInt64, _ own: OwnAdvertisement) {
    let onAir = air.putOnAir(self, data: own.data, scanResponse: own.scanResponse, interval: own.interval)
    advertisements[id]?.onAir = onAir
    air.retryConnecting()
  }

  /// The next moment at which somebody can connect; nil when nothing is advertised.
  func nextAdvertisingEvent(from now: Instant) -> Instant? {
    advertisements.entries.compactMap { $0.value.onAir.flatMap { air.onAir[$0]?.nextEvent(from: now) } }.min()
  }

  // MARK: Scanning

  /// No service at all means every advertiser.
  public func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void
  ) throws(RadioError) -> Registration {
    scan(for: services, raw: { sighting, _, _ in handler(sighting) })
  }

  func scan(for services: [BluetoothUUID], raw handler: @escaping AirScan.Handler) -> Registration {
    let own = OwnScan(scan: AirScan(node: self, services: services, handler: handler))
    let id = ownScans.add(own)
    if power { startScanning(id, own) }
    return Registration { [weak self] in
      guard let self, let own = ownScans.remove(id) else { return }
      own.running.map { _ = self.air.scans.remove($0) }
    }
  }

  private func startScanning(_ id: UInt64, _ own: OwnScan) {
    let running = air.start(own.scan)
    ownScans[id]?.running = running
  }

  // MARK: Serving

  public func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    serve(application, answerer: DelegateAnswerer(delegate))
  }

  func serve(_ application: GATTApplication, answerer: any AirAnswerer) -> AirServer {
    let id = applications.add(AirApplication(application, answerer))
    return AirServer(radio: self, id: id, Registration { [weak self] in self?.stopServing(id) })
  }

  private func stopServing(_ id: UInt64) {
    guard let application = applications.remove(id) else { return }
    application.close()
    for connection in connections { connection.applicationClosed(application) }
  }

  func application(with characteristic: CharacteristicID) -> AirApplication? {
    applications.entries.first { $0.value.properties[characteristic] != nil }?.value
  }

  // MARK: Connecting

  /// Waits for the peer to advertise in range, for `AirConditions.connectTimeout`. One link to a peer at a time: a second
  /// one ends at once.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard power else { throw .notReady(status.reason) }
    let isDouble = connections.contains { $0.central === self && $0.target == address }
    let connection = AirConnection(air: air, central: self, target: address, handler: handler)
    add(connection)
    air.keep(connection)
    if isDouble {
      connection.close(reason: "There is a connection to \(address) already.", by: .client)
    } else {
      air.startConnecting(connection)
    }
    return AirLink(connection)
  }

  func add(_ connection: AirConnection) {
    connections.append(connection)
  }

  /// Those with whom there is a link.
  var peers: [BluetoothAddress] { connections.map { $0.central === self ? $0.target : $0.central.address } }

  func remove(_ connection: AirConnection) {
    connections.removeAll { $0 === connection }
  }
}
