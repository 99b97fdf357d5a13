import Common
import Loop
import Radio

/// Served applications: writes and reads of clients, and values for clients.
extension SharedRadio {
  func serve(
    _ application: GATTApplication, for tenant: LinkPlan.TenantID, delegate: any GATTServerDelegate
  ) -> SharedServer {
    let id = ApplicationID(nextNumber())
    applications[id] = SharedApplication(delegate)
    decide(.applicationOpened(id, tenant))
    driver.serve(application, as: id)
    return SharedServer(id, self)
  }

  func stopServing(_ id: ApplicationID) {
    guard let application = applications.removeValue(forKey: id) else { return }
    application.close()
    driver.stopServing(id)
    decide(.applicationClosed(id))
  }

  public func used(_ application: ApplicationID, by link: LinkID, _ use: Use) {
    if case .unsubscribed(let characteristic) = use {
      if isUser(application, link) { applications[application]?.delegate?.subscribed(link, to: characteristic, false) }
      return
    }
    takeUser(link, of: application)
    guard case .subscribed(let characteristic) = use, isUser(application, link) else { return }
    applications[application]?.delegate?.subscribed(link, to: characteristic, true)
  }

  public func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    guard let delegate = applications[application]?.delegate else { throw .unlikely }
    if !isUser(application, link) {
      takeUser(link, of: application)
      // A link that is being ended accepts no new user.
      guard isUser(application, link) else { throw .unlikely }
    }
    try delegate.written(value, to: characteristic, on: link)
  }

  public func hasRoom(_ link: LinkID) {
    for user in plan[link]?.users ?? [] {
      if case .application(let application) = user { applications[application]?.delegate?.hasRoom(link) }
    }
  }

  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    // A service can reach only the links that it was notified of, and receives results only for them.
    var delivery: Delivery
    switch recipients {
    case .subscribers: delivery = driver.notify(value, of: characteristic, in: application, to: .subscribers)
    case .link(let link):
      guard isUser(application, link) else { return Delivery(unreachable: [link]) }
      delivery = driver.notify(value, of: characteristic, in: application, to: recipients)
    case .links(let links):
      let strangers = links.filter { !isUser(application, $0) }
      let own = strangers.isEmpty ? links : links.filter { isUser(application, $0) }
      delivery = driver.notify(value, of: characteristic, in: application, to: .links(own))
      delivery.unreachable += strangers
    }
    if !delivery.overheard.isEmpty { delivery.overheard.removeAll { !isUser(application, $0) } }
    return delivery
  }

  func expectStream(from link: LinkID, in application: ApplicationID) {
    if isUser(application, link) { driver.expectStream(from: link, in: application) }
  }

  /// Adds an application to the users of a link. A closed application may still be served briefly, but gets no new
  /// links.
  private func takeUser(_ link: LinkID, of application: ApplicationID) {
    if applications[application] != nil, !isUser(application, link) { decide(.used(link, application)) }
  }

  private func isUser(_ application: ApplicationID, _ link: LinkID) -> Bool {
    plan[link]?.isUsed(by: application) ?? false
  }
}

/// An application on the shared radio, while its service serves it.
@LoopActor
final class SharedApplication {
  private(set) weak var delegate: (any GATTServerDelegate)?
  /// Links whose end the service will be notified of.
  private var ending: Set<LinkID> = []

  init(_ delegate: any GATTServerDelegate) {
    self.delegate = delegate
  }

  func opened(_ link: LinkID, _ address: BluetoothAddress, since: Instant, mtu: Int?) {
    // A driver may reuse the number of a link that has just ended.
    tellEnd(of: link)
    delegate?.linkOpened(link, address: address, since: since)
    if let mtu { delegate?.linkChanged(link, mtu: mtu) }
  }

  /// Reports the end in a later event, because the service may be within a call.
  func closed(_ link: LinkID, _ scheduler: any Scheduler) {
    ending.insert(link)
    scheduler.soon { [weak self] in self?.tellEnd(of: link) }
  }

  private func tellEnd(of link: LinkID) {
    if ending.remove(link) != nil { delegate?.linkClosed(link) }
  }

  /// Stops reporting events to a service that no longer serves the application.
  func close() { delegate = nil }
}

/// The service's handle of an application; releasing it closes the application.
@LoopActor
final class SharedServer: GATTServer {
  let id: ApplicationID
  private let radio: SharedRadio
  private let registration: Registration

  init(_ id: ApplicationID, _ radio: SharedRadio) {
    self.id = id
    self.radio = radio
    registration = Registration { [weak radio] in radio?.stopServing(id) }
  }

  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
    radio.notify(value, of: characteristic, in: id, to: recipients)
  }

  func expectStream(from link: LinkID) { radio.expectStream(from: link, in: id) }

  func disconnect(_ link: LinkID) { radio.decide(.released(link, .application(id))) }

  func close() { registration.cancel() }
}
