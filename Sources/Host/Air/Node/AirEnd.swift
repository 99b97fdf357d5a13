import Common
import Loop
import Radio

/// One node's end of a link. Each of the two ends is both a GATT client and a GATT server.
@LoopActor
final class AirEnd {
  static let disconnected = "Disconnected."
  static let peerDisconnected = "The peer has disconnected."

  let node: AirRadio
  /// This node's number of the link.
  let id: LinkID
  /// The central's number of the link.
  let centralID: LinkID
  let origin: LinkOrigin
  /// The addresses of the two nodes when the link came up.
  let address: BluetoothAddress
  let peerAddress: BluetoothAddress
  let since: Instant
  /// The other end; nil when the link has ended.
  private(set) var peer: AirEnd?
  /// The ATT MTU that this node knows.
  var mtu = ATT.firstMTU
  /// The direction from this node to the other.
  var outgoing = AirChannel()

  // State of the GATT client role.
  var clients: [AirClient] = []
  var operations = Fifo<(operation: Operation, client: AirClient)>()
  /// The request whose answer is pending; nothing else is sent meanwhile.
  var request: Request?
  var lastRequest: UInt64 = 0
  /// Number of commands in transit.
  var commands = 0

  // State of the GATT server role.
  /// The peer's subscriptions, with the application of each.
  var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Number of values for the peer that are not transmitted yet.
  var notifications = 0
  /// Whether a value was refused because the link was full.
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
    /// The application that answers the request, once the request has arrived.
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

  /// Ends the link immediately; values in transit are lost. This node is notified in the next event, the other one
  /// after the latency of a packet, or both at once (`atOnce`).
  ///
  /// - Parameter reason: the reason for this node's clients. Clients of the other node receive `forPeer`, or else the
  ///   same reason.
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
