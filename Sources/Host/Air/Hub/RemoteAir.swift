import Bytes
import Common
import Journal
import Loop
import Radio

/// The radio driver for a node of a hub's simulated radio, over the hub's socket.
///
/// While the hub is not reachable the driver retries. After a reconnection it restores advertisements, applications and the scan. Links end
/// with the connection to the hub.
@LoopActor
public final class RemoteAir: RadioDriver, AirSocketOwner {
  /// Maximum pause between two attempts to reach the hub.
  static let longestPause = Duration.seconds(5)
  /// Unsent bytes for the hub beyond which links report that they are full.
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
  /// The node's status as the hub reports it; waiting without the hub.
  private var nodeStatus: RadioStatus
  var slots: [Int: EncodedAdvertisement] = [:]
  /// The advertisements of `slots` before encoding.
  var advertisements: [Int: Advertisement] = [:]
  /// The advertisements that the delegate was notified of.
  var toldOnAir: [Int: Advertisement] = [:]
  var slotErrors: [Int: RadioError] = [:]
  var listening: Listening?
  /// Applications in the order in which they were served.
  var applications: [RemoteApplication] = []
  /// The links that are up, by this process's numbers.
  var peers: [LinkID: RemotePeer] = [:]
  /// This process's numbers of the links, by the hub's numbers.
  var links: [LinkID: LinkID] = [:]
  var connections: [UInt32: RemoteConnection] = [:]
  private var lastConnection: UInt32 = 0

  struct RemoteApplication {
    let number: ApplicationID
    let application: GATTApplication
    let characteristics: [CharacteristicID: GATTCharacteristic]
    var isServed = false
  }

  /// Link numbers are unique in a process, also across reconnections to the hub.
  private static var lastLink: UInt64 = 0

  static func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  /// - Parameters:
  ///   - path: path of the hub's socket.
  ///   - address: the address that the node requests; nil: the hub chooses one.
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
    "The simulated radio at \(path) is not available; start earshot-air."
  }

  /// The node's address, once the hub has accepted the node.
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

  /// Leaves the simulated radio permanently.
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

  /// Whether the hub has accepted the node.
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
      for connection in connections { connection.end("The simulated radio was closed.") }
      for link in links { self?.delegate?.linkDown(link) }
      for number in served { self?.delegate?.applicationChanged(number, isServed: false) }
    }
    if mayReturn { tryLater() } else { retry = nil }
  }

  func ended(_ reason: String) {
    if reason != AirSocket.hasGone { log.warning("The connection to the simulated radio ended: \(reason).") }
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
      // The hub may have given the former address to another program in the meantime.
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

  /// Cancels a connection attempt without affecting the link that it was to share.
  func forget(_ number: UInt32) {
    guard let connection = connections.removeValue(forKey: number) else { return }
    loop.soon { connection.end(AirEnd.disconnected) }
  }
}
