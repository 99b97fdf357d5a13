import Common
import Loop
import Radio

/// One node's end of a link. A link has two of them, and either is a GATT client and a GATT server to the other.
@LoopActor
final class AirEnd {
  static let disconnected = "Disconnected."
  static let peerDisconnected = "The peer has disconnected."

  let node: AirRadio
  /// The link as this node numbers it.
  let id: LinkID
  /// The link as its central numbers it.
  let centralID: LinkID
  let origin: LinkOrigin
  /// The addresses that the two nodes had when the link came up.
  let address: BluetoothAddress
  let peerAddress: BluetoothAddress
  let since: Instant
  /// The other end; nil when the link has ended.
  private(set) var peer: AirEnd?
  /// The ATT MTU as far as this node knows.
  var mtu = ATT.firstMTU
  /// What goes from this node to the other one.
  var outgoing = AirChannel()

  // As a client of the peer.
  var clients: [AirClient] = []
  var operations = Fifo<(operation: Operation, client: AirClient)>()
  /// The request whose answer is awaited; nothing else goes out meanwhile.
  var request: Request?
  var lastRequest: UInt64 = 0
  /// Commands that are on their way.
  var commands = 0

  // As a server for the peer.
  /// What the peer has subscribed to, and in which application.
  var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Values that are to reach the peer and have not gone out.
  var notifications = 0
  /// Whether a value was refused because there was no room.
  var wasFull = false

  enum Operation {
    case discover
    case exchangeMTU(Int)
    case subscribe(CharacteristicID)
    case request([UInt8], CharacteristicID)
    case command([UInt8], CharacteristicID)
  }

  struct Request {
    var number: UInt64
    var client: AirClient
    var characteristic: CharacteristicID?
    /// The application that is to answer, once the request has arrived.
    var application: ApplicationID?
    var timeout: TimedQueue.Ticket?
  }

  init(
    _ node: AirRadio, _ id: LinkID, _ origin: LinkOrigin, central: LinkID, since: Instant,
    address: BluetoothAddress, peer: BluetoothAddress
  ) {
    self.node = node
    self.id = id
    self.origin = origin
    centralID = central
    self.address = address
    peerAddress = peer
    self.since = since
  }

  var air: AirSpace { node.air }
  var now: Instant { air.agenda.now }
  var conditions: AirConditions { air.conditions(between: address, and: peerAddress) }
  var isOpen: Bool { peer != nil }
  var description: DriverLink { DriverLink(id: id, address: peerAddress, since: since) }

  func join(_ other: AirEnd) {
    peer = other
    other.peer = self
  }

  /// Ends the link at once; what is on its way is lost. This node hears of it in the next event, the other one a packet's
  /// time later, or both at once.
  ///
  /// - Parameter reason: what the clients of this node hear; those of the other one hear `forPeer`, or else the same.
  func close(_ reason: String, forPeer peerReason: String? = nil, atOnce: Bool = false) {
    guard let peer else { return }
    let later = now.advanced(by: conditions.latency)
    self.peer = nil
    peer.peer = nil
    ended(reason, at: now)
    peer.ended(peerReason ?? reason, at: atOnce ? now : later)
    air.retryConnecting()
  }

  private func ended(_ reason: String, at instant: Instant) {
    air.forget(self)
    operations.removeAll()
    request?.timeout.map(air.agenda.cancel)
    request = nil
    subscriptions = [:]
    let clients = clients
    self.clients = []
    for client in clients { client.detach() }
    node.disconnected(self)
    air.agenda.at(instant) { [self] in
      for client in clients { client.happened(.disconnected(reason: reason)) }
      node.delegate?.linkDown(id)
    }
  }
}
