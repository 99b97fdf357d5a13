import Common
import Loop
import Radio

/// Outgoing connections of services, in the order that the plan decides.
extension SharedRadio {
  func connect(
    to address: BluetoothAddress, for tenant: LinkPlan.TenantID, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard presentStatus.state != .waiting else { throw .notReady(presentStatus.reason) }
    let id = LinkPlan.ConnectionID(number: nextNumber())
    let state = SharedLink(id, handler, self)
    connections[id] = state
    decide(.connect(id, tenant, address))
    return SharedLinkHandle(state)
  }

  func attempt(_ id: LinkPlan.ConnectionID, _ address: BluetoothAddress) {
    guard let connection = connections[id] else { return }
    do throws(RadioError) {
      connection.began(try driver.connect(to: address) { [weak self] in self?.happened($0, on: id) })
    } catch {
      connection.end(error.sentence, scheduler)
      decide(.ended(id))
    }
  }

  private func happened(_ event: LinkEvent, on id: LinkPlan.ConnectionID) {
    guard let connection = connections[id] else { return }
    switch event {
    case .connected:
      if let link = connection.link?.id { decide(.connected(id, link)) }
      connection.handler?(event)
    case .disconnected(let reason):
      forget(id)
      connection.ended(reason)
    default: connection.handler?(event)
    }
  }

  /// Handles the end of the driver's link, or the failure of the attempt.
  func forget(_ id: LinkPlan.ConnectionID) {
    guard connections.removeValue(forKey: id) != nil else { return }
    decide(.ended(id))
  }

  /// Handles the release of a connection by its service: cancels the attempt or releases the link.
  func release(_ connection: SharedLink) {
    guard connections[connection.id] != nil else { return }
    guard let link = connection.link else {
      // The attempt has not begun.
      connection.end("Disconnected.", scheduler)
      return forget(connection.id)
    }
    if plan.isLinked(connection.id) {
      decide(.released(link.id, .connection(connection.id)))
    } else {
      // This also applies if the peer has connected meanwhile, and the driver does not know yet which end made the
      // link.
      link.disconnect()
    }
  }

  /// Ends a service's connection whose link continues for other services. The driver's handle is released: otherwise it
  /// would occupy one of the driver's connections until the link ends.
  func letGo(_ id: LinkPlan.ConnectionID) {
    guard let connection = connections.removeValue(forKey: id) else { return }
    connection.end("Disconnected.", scheduler)
    connection.drop()
  }
}

/// Streams. They use links of BR/EDR, which do not count against the limits of LE links.
extension SharedRadio {
  var publicAddress: BluetoothAddress? { driver.publicAddress }

  func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    try driver.listen(on: profile, handler)
  }

  func connect(
    to address: BluetoothAddress, on profile: StreamProfile, for tenant: LinkPlan.TenantID,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    guard presentStatus.state != .waiting else { throw .notReady(presentStatus.reason) }
    guard !isQuietWanted(by: tenant) else { throw .notReady("Another service needs the radio at the moment.") }
    return try driver.connect(to: address, on: profile, then: then)
  }
}

/// A connection, from the call of `connect` to its end.
@LoopActor
final class SharedLink {
  let id: LinkPlan.ConnectionID
  private(set) var handler: (@LoopActor (LinkEvent) -> Void)?
  /// The driver's handle, from the start of the attempt. It is stored until the link ends, or continues only for
  /// others: a driver may end a link whose handle is released.
  private(set) var link: (any Link)?
  /// The driver's link number, also after the handle was released; 0 until the attempt begins.
  private(set) var linkID = LinkID(0)
  /// The operations that the service requested before its connection attempt began, in order.
  private var waiting: [@LoopActor (any Link) -> Void] = []
  /// Maximum operations that wait for an attempt.
  private static let waitingLimit = 64
  private weak var radio: SharedRadio?
  /// The reason why the connection attempt is being cancelled; nil if it is not.
  private var reason: String?

  init(_ id: LinkPlan.ConnectionID, _ handler: @escaping @LoopActor (LinkEvent) -> Void, _ radio: SharedRadio) {
    self.id = id
    self.handler = handler
    self.radio = radio
  }

  func release() { radio?.release(self) }

  func began(_ link: any Link) {
    (self.link, linkID) = (link, link.id)
    let operations = waiting
    waiting = []
    for operation in operations { operation(link) }
  }

  /// Performs an operation on the link, or stores it until the link exists.
  func ask(_ operation: @escaping @LoopActor (any Link) -> Void) {
    if let link {
      operation(link)
    } else if waiting.count < Self.waitingLimit {
      waiting.append(operation)
    } else {
      release()
    }
  }

  /// Cancels a connection attempt that has begun, for this reason.
  func giveUp(_ reason: String) {
    self.reason = reason
    link?.disconnect()
  }

  func drop() { link = nil }

  /// Notifies the service in the next loop iteration that the link has ended.
  func end(_ reason: String, _ scheduler: any Scheduler) {
    scheduler.soon { [self] in ended(reason) }
    if link == nil { scheduler.soon { [weak radio, id] in radio?.forget(id) } }
  }

  func ended(_ reason: String) {
    let handler = handler
    self.handler = nil
    handler?(.disconnected(reason: self.reason ?? reason))
  }
}

/// The service's handle of a connection; releasing it is equivalent to `disconnect`. Its `id` is 0 until the attempt
/// begins.
@LoopActor
final class SharedLinkHandle: Link {
  private let state: SharedLink
  private let registration: Registration

  init(_ state: SharedLink) {
    self.state = state
    registration = Registration { state.release() }
  }

  var id: LinkID { state.linkID }

  func discover() { state.ask { $0.discover() } }

  func exchangeMTU(_ mtu: Int) { state.ask { $0.exchangeMTU(mtu) } }

  func subscribe(to characteristic: CharacteristicID) { state.ask { $0.subscribe(to: characteristic) } }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    state.ask { $0.write(value, to: characteristic, as: kind) }
  }

  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
    state.link?.streamNow(value, to: characteristic) ?? false
  }

  var writeLimit: Int { state.link?.writeLimit ?? ATT.valueLimit }

  func disconnect() { registration.cancel() }
}
