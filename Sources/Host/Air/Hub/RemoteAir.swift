import Bytes
import Common
import Journal
import Loop
import Radio

/// The radio driver on a node of a hub's air, over the hub's socket.
///
/// While the hub is away the driver waits and tries again; when it is back, advertisements, applications and the scan are set
/// up anew. Links end with the connection to the hub.
@LoopActor
public final class RemoteAir: RadioDriver, AirSocketOwner {
  /// The longest pause between two attempts to reach the hub.
  static let longestPause = Duration.seconds(5)
  /// With more bytes waiting for the hub than this, links have no room for values.
  static let congestion = 1 << 20

  public let path: String
  private let wanted: BluetoothAddress?
  private let firstPause: Duration
  private let log: Log
  let loop = EventLoop.shared

  var socket: AirSocket?
  private var pause: Duration
  private var retry: Registration?
  var abilities = AirAbilities(AirController())
  /// What the hub says of the node; waiting without the hub.
  private var nodeStatus: RadioStatus
  var slots: [Int: EncodedAdvertisement] = [:]
  /// The same as they were given.
  var advertisements: [Int: Advertisement] = [:]
  /// What the delegate knows to be on the air.
  var toldOnAir: [Int: Advertisement] = [:]
  var slotErrors: [Int: RadioError] = [:]
  var listening: Listening?
  /// In the order in which they were served.
  var applications: [RemoteApplication] = []
  /// The links that are up, as this process numbers them.
  var peers: [LinkID: RemotePeer] = [:]
  /// The same by the hub's numbers.
  var links: [LinkID: LinkID] = [:]
  var connections: [UInt32: RemoteConnection] = [:]
  private var lastConnection: UInt32 = 0

  struct RemoteApplication {
    let number: ApplicationID
    let application: GATTApplication
    let characteristics: [CharacteristicID: GATTCharacteristic]
    var isServed = false
  }

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
    nodeStatus = RadioStatus(.waiting, reason: Self.absence(path))
    status = nodeStatus
    reach()
  }

  private static func absence(_ path: String) -> String {
    "The simulated air at \(path) is not there; start earshot-air."
  }

  /// The node's address, once the hub has let it in.
  public private(set) var address: BluetoothAddress?

  public weak var delegate: (any RadioDriverDelegate)?

  public let tallies: [Tally] = []

  // MARK: Status

  public private(set) var status: RadioStatus {
    didSet {
      guard status != oldValue else { return }
      let status = status
      loop.soon { [weak self] in self?.delegate?.statusChanged(status) }
    }
  }

  func updateStatus() {
    onAirMayHaveChanged()
    guard nodeStatus.state == .ready, let error = slotErrors.min(by: { $0.key < $1.key })?.value else {
      status = nodeStatus
      return
    }
    status = RadioStatus(.degraded, reason: error.sentence, adapters: nodeStatus.adapters)
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

  /// Whether the hub has let the node in.
  var isIn: Bool { nodeStatus.state != .waiting }

  private func enter(_ address: BluetoothAddress, _ abilities: AirAbilities) {
    self.address = address
    pause = firstPause
    nodeStatus = RadioStatus(.ready, adapters: ["air0"])
    changed(abilities)
    for (slot, content) in slots.sorted(by: { $0.key < $1.key }) {
      send(.advertise(slot: UInt8(clamping: slot), content))
    }
    for served in applications { serve(served) }
    if listening != nil { sendListening() }
    updateStatus()
  }

  private func lose(_ reason: String, mayReturn: Bool = true) {
    socket?.close()
    socket = nil
    let connections = connections.sorted { $0.key < $1.key }.map(\.value)
    let links = peers.keys.sorted { $0.number < $1.number }
    let served = applications.filter(\.isServed).map(\.number)
    self.connections = [:]
    self.links = [:]
    peers = [:]
    for index in applications.indices { applications[index].isServed = false }
    nodeStatus = RadioStatus(.waiting, reason: reason)
    updateStatus()
    loop.soon { [weak self] in
      for connection in connections { connection.end("The simulated air is gone.") }
      for link in links { self?.delegate?.linkDown(link) }
      for number in served { self?.delegate?.applicationChanged(number, isServed: false) }
    }
    if mayReturn { tryLater() } else { retry = nil }
  }

  func ended(_ reason: String) {
    if reason != AirSocket.hasGone { log.warning("The connection to the simulated air ended: \(reason).") }
    lose(Self.absence(path))
  }

  func drained() {
    makeRoom()
  }

  func send(_ frame: NodeFrame) {
    socket?.send(frame.write(to:))
  }

  func receive(_ reader: inout ByteReader) throws(WireError) {
    let frame = try HubFrame(reading: &reader)
    switch frame {
    case .welcome(let address, let abilities): enter(address, abilities)
    case .refused(let reason):
      // Another program may have got the address that this one had before the hub was away.
      address = nil
      lose(reason)
    case .status(let state, let reason):
      nodeStatus = RadioStatus(state, reason: reason, adapters: state == .waiting ? [] : ["air0"])
      updateStatus()
    case .abilities(let abilities): changed(abilities)
    case .addressChanged(let address): self.address = address
    default: happened(frame)
    }
  }

  private func changed(_ abilities: AirAbilities) {
    let old = advertisingSlots
    self.abilities = abilities
    guard advertisingSlots != old else { return }
    slots = slots.filter { $0.key < advertisingSlots }
    advertisements = advertisements.filter { $0.key < advertisingSlots }
    slotErrors = slotErrors.filter { $0.key < advertisingSlots }
    updateStatus()
    loop.soon { [weak self] in self?.delegate?.advertisingSlotsChanged() }
  }

  // MARK: Connecting

  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard isIn else { throw .notReady(status.reason) }
    lastConnection &+= 1
    let number = lastConnection
    let shared = peers.first { $0.value.address == address }?.key
    let connection = RemoteConnection(
      shared ?? Self.newLinkID(), address, isShared: shared != nil, handler)
    connections[number] = connection
    send(.connect(connection: number, address))
    return RemoteLink(air: self, number: number, connection)
  }

  /// Gives up a connection before it is there, and leaves the link alone that it was to share.
  func forget(_ number: UInt32) {
    guard let connection = connections.removeValue(forKey: number) else { return }
    loop.soon { connection.end(AirEnd.disconnected) }
  }
}
