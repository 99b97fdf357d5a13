import Common
import Loop
import Radio

/// One use of a link by the node that requested it: its handler and its subscriptions.
@LoopActor
final class AirClient {
  enum State {
    case connecting(AirAttempt)
    /// The link existed before; `connected` follows as the next event.
    case joining(AirEnd)
    case open(AirEnd)
    case over
  }

  private(set) var state = State.over
  var subscriptions: Set<CharacteristicID> = []
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  /// Operations that were requested before the link was up.
  private var waiting: [AirEnd.Operation] = []

  init(_ handler: @escaping @LoopActor (LinkEvent) -> Void) {
    self.handler = handler
  }

  func connect(_ attempt: AirAttempt) {
    state = .connecting(attempt)
  }

  /// Uses an existing link for the connection.
  func join(_ end: AirEnd) {
    state = .joining(end)
    end.clients.append(self)
    end.node.air.agenda.next { [self] in
      guard case .joining = state else { return }
      state = .open(end)
      begin()
    }
  }

  /// Attaches to a new link; `begin` follows unless the link ends before.
  func attach(to end: AirEnd) {
    state = .open(end)
    end.clients.append(self)
  }

  func begin() {
    happened(.connected)
    guard case .open(let end) = state else { return }
    let operations = waiting
    waiting = []
    for operation in operations { end.submit(operation, for: self) }
  }

  func submit(_ operation: AirEnd.Operation) {
    switch state {
    case .connecting, .joining: waiting.append(operation)
    case .open(let end): end.submit(operation, for: self)
    case .over: break
    }
  }

  /// Cancels the attempt or ends the link. A link that this client was to share stays up for its other users.
  func disconnect() {
    switch state {
    case .connecting(let attempt): attempt.end(AirEnd.disconnected)
    case .joining(let end):
      end.clients.removeAll { $0 === self }
      self.end(AirEnd.disconnected, in: end.air)
    case .open(let end): end.close(AirEnd.disconnected, forPeer: AirEnd.peerDisconnected)
    case .over: break
    }
  }

  /// Handles the release of the service's handle. An attempt is cancelled; a link stays up, because it may have other
  /// users.
  func drop() {
    switch state {
    case .connecting, .joining: disconnect()
    case .open, .over: break
    }
  }

  /// Ends this use; `disconnected` follows as the next event.
  func end(_ reason: String, in air: AirSpace) {
    state = .over
    waiting = []
    air.agenda.next { [self] in happened(.disconnected(reason: reason)) }
  }

  /// Ends this use because the link has ended; `disconnected` follows.
  func detach() {
    state = .over
    waiting = []
  }

  /// Whether events other than `disconnected` may follow.
  private var isOpen: Bool { if case .open = state { true } else { false } }

  func happened(_ event: LinkEvent) {
    if case .disconnected = event {
      let last = handler
      handler = nil
      last?(event)
    } else if isOpen {
      handler?(event)
    }
  }
}

/// The handle of a link on which a node is the GATT client. `disconnect` ends the link for all its users. Releasing the
/// handle cancels an attempt, but does not affect an existing link.
@LoopActor
final class AirLink: Link {
  let id: LinkID
  private let client: AirClient
  private let registration: Registration

  init(_ client: AirClient, _ id: LinkID) {
    self.id = id
    self.client = client
    registration = Registration { client.drop() }
  }

  func discover() { client.submit(.discover) }

  func exchangeMTU(_ mtu: Int) { client.submit(.exchangeMTU(mtu)) }

  func subscribe(to characteristic: CharacteristicID) { client.submit(.subscribe(characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    client.submit(kind == .request ? .request(value, characteristic) : .command(value, characteristic))
  }

  func disconnect() { client.disconnect() }
}

/// A node's attempt to connect to an address, until the link is up or the attempt has failed.
@LoopActor
final class AirAttempt {
  let node: AirRadio
  let target: BluetoothAddress
  /// The identity that the link will have at this node.
  let id: LinkID
  let client: AirClient
  var timeout: TimedQueue.Ticket?
  /// The event at which the link comes up unless something changes.
  var moment: TimedQueue.Ticket?

  init(_ node: AirRadio, _ target: BluetoothAddress, _ id: LinkID, _ client: AirClient) {
    self.node = node
    self.target = target
    self.id = id
    self.client = client
  }

  /// Ends the attempt, which has failed or was cancelled.
  func end(_ reason: String) {
    node.air.stop(self)
    client.end(reason, in: node.air)
  }
}
