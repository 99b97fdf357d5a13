import Bytes
import Common
import Journal
import Loop
import Radio

/// The radio port on a node of a hub's air, over the hub's socket.
///
/// While the hub is away the radio waits and tries again; when it is back, advertisements, applications and scans are set
/// up anew. Links end with the connection.
@LoopActor
public final class RemoteAir: Radio, AirSocketOwner {
  /// The longest pause between two attempts to reach the hub.
  static let longestPause = Duration.seconds(5)

  public let path: String
  private let wanted: BluetoothAddress?
  private let firstPause: Duration
  private let log: Log
  private let loop = EventLoop.shared

  private var socket: AirSocket?
  private var pause: Duration
  private var retry: Registration?
  private var lastNumber: UInt32 = 0
  private var statusHandlers: Roster<@LoopActor (RadioStatus) -> Void> = Roster()
  private var setups: [UInt32: NodeFrame] = [:]
  private var scans: [UInt32: @LoopActor (Sighting) -> Void] = [:]
  private var applications: [UInt32: RemoteApplication] = [:]
  private var links: [UInt32: RemoteLinkState] = [:]

  /// Numbers of links are given out once in a process, whatever becomes of a hub.
  private static var lastLink: UInt64 = 0

  static func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  /// - Parameters:
  ///   - path: of the hub's socket.
  ///   - address: what the node would like as its address; nil: what the hub gives it.
  ///   - pause: between the first two attempts to reach the hub; it doubles up to 5 s.
  public init(
    path: String, address: BluetoothAddress? = nil, pause: Duration = .milliseconds(100), log: Log = .shared
  ) {
    self.path = path
    self.log = log
    wanted = address
    firstPause = pause
    self.pause = pause
    status = RadioStatus(.waiting, reason: Self.absence(path))
    reach()
  }

  private static func absence(_ path: String) -> String {
    "The simulated air at \(path) is not there; start earshot-air."
  }

  /// The node's address, once the hub has let it in.
  public private(set) var address: BluetoothAddress?

  // MARK: Status

  public private(set) var status: RadioStatus {
    didSet {
      guard status != oldValue else { return }
      let status = status
      for (id, _) in statusHandlers.entries {
        loop.soon { [weak self] in self?.statusHandlers[id]?(status) }
      }
    }
  }

  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    let id = statusHandlers.add(handler)
    return Registration { [weak self] in self?.statusHandlers.remove(id) }
  }

  // MARK: The connection

  /// Leaves the air for good.
  public func close() {
    lose(Self.absence(path), mayReturn: false)
  }

  private func reach() {
    retry = nil
    guard let descriptor = UnixSocket.connect(to: path) else { return tryLater() }
    socket = AirSocket(descriptor, owner: self)
    send(.hello(version: AirWire.version, address: wanted ?? address))
  }

  private func tryLater() {
    retry = loop.schedule(after: pause) { [weak self] in self?.reach() }
    pause = min(pause * 2, Self.longestPause)
  }

  private func lose(_ reason: String, mayReturn: Bool = true) {
    socket?.close()
    socket = nil
    let links = links.sorted { $0.key < $1.key }.map(\.value)
    let applications = applications.sorted { $0.key < $1.key }.map(\.value)
    self.links = [:]
    status = RadioStatus(.waiting, reason: reason)
    loop.soon {
      for link in links { link.end("The simulated air is gone.") }
      for application in applications { application.closeLinks() }
    }
    if mayReturn { tryLater() } else { retry = nil }
  }

  func ended(_ reason: String) {
    if reason != AirSocket.hasGone { log.warning("The connection to the simulated air ended: \(reason).") }
    lose(Self.absence(path))
  }

  func drained() {}

  func send(_ frame: NodeFrame) {
    socket?.send(frame.write(to:))
  }

  private var isReady: Bool { status.state == .ready }

  func receive(_ reader: inout ByteReader) throws(WireError) {
    switch try HubFrame(reading: &reader) {
    case .welcome(let address):
      self.address = address
      pause = firstPause
      for (_, frame) in setups.sorted(by: { $0.key < $1.key }) { send(frame) }
      status = RadioStatus(.ready, adapters: ["air0"])
    case .refused(let reason):
      // Somebody else may have got the address that we had before the hub was away.
      address = nil
      lose(reason)
    case .sighting(let scan, let address, let rssi, let data, let scanResponse):
      scans[scan]?(Sighting(address: address, data: data, scanResponse: scanResponse, rssi: rssi.map { Int($0) }))
    case .event(let number, let event):
      guard let link = links[number] else { return }
      if case .disconnected = event { links[number] = nil }
      link.happened(event)
    case .opened(let id, let link, let address): applications[id]?.opened(link, address)
    case .changed(let id, let link, let mtu): applications[id]?.changed(link, Int(mtu))
    case .closed(let id, let link): applications[id]?.closed(link)
    case .written(let id, let link, let characteristic, let number, let value):
      let error = applications[id]?.written(value, to: characteristic, on: link) ?? .success(())
      guard number != 0 else { return }
      if case .failure(let error) = error { send(.answer(number, error)) } else { send(.answer(number, nil)) }
    }
  }

  // MARK: The port

  /// Sets something up, now or when the hub is there, until the registration goes.
  private func setUp(
    _ frame: (UInt32) -> NodeFrame, takeDown: @escaping @LoopActor (RemoteAir, UInt32) -> Void = { _, _ in }
  ) -> (id: UInt32, registration: Registration) {
    lastNumber += 1
    let id = lastNumber
    let frame = frame(id)
    setups[id] = frame
    if isReady { send(frame) }
    let registration = Registration { [weak self] in
      guard let self, setups.removeValue(forKey: id) != nil else { return }
      takeDown(self, id)
      if isReady { send(.end(id: id)) }
    }
    return (id, registration)
  }

  public func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    let data = try advertisement.data.encoded()
    let scanResponse = try advertisement.scanResponse.encoded()
    return setUp {
      .advertise(id: $0, interval: advertisement.interval, data: data, scanResponse: scanResponse)
    }.registration
  }

  /// No service at all means every advertiser.
  public func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void
  ) throws(RadioError) -> Registration {
    guard services.count <= AirWire.uuidLimit else {
      throw .notSupported("scan for more than \(AirWire.uuidLimit) services at once")
    }
    let (id, registration) = setUp({ .scan(id: $0, services) }, takeDown: { $0.scans[$1] = nil })
    scans[id] = handler
    return registration
  }

  /// - Precondition: at most 64 services of at most 64 characteristics.
  public func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    precondition(
      application.services.count <= AirWire.serviceLimit
        && application.services.allSatisfy { $0.characteristics.count <= AirWire.characteristicLimit })
    let (id, registration) = setUp(
      { .serve(id: $0, application) }, takeDown: { $0.applications.removeValue(forKey: $1)?.close() })
    let state = RemoteApplication(delegate)
    applications[id] = state
    return RemoteServer(air: self, id: id, state, registration)
  }

  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard isReady else { throw .notReady(status.reason) }
    lastNumber += 1
    let number = lastNumber
    let state = RemoteLinkState(handler)
    links[number] = state
    send(.connect(link: number, address))
    return RemoteLink(air: self, number: number, state)
  }
}
