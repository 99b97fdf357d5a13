import Common
import Loop
import Radio

extension AirRadio {
  /// - Precondition: the number is not in use.
  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    precondition(self.application(number) == nil, "\(number) is served already")
    let application = AirApplication(number, application)
    applications.append(application)
    if power { register(application) }
    statusMayHaveChanged()
  }

  public func stopServing(_ number: ApplicationID) {
    guard let application = application(number) else { return }
    applications.removeAll { $0 === application }
    application.registering.map(air.agenda.cancel)
    for end in ends { end.applicationEnded(number) }
    statusMayHaveChanged()
  }

  public func isServed(_ number: ApplicationID) -> Bool { application(number)?.isServed ?? false }

  func application(_ number: ApplicationID) -> AirApplication? { applications.first { $0.number == number } }

  /// The first served application with the characteristic.
  func application(with characteristic: CharacteristicID) -> AirApplication? {
    applications.first { $0.isServed && $0.characteristics[characteristic] != nil }
  }

  /// The services that a peer discovers, without the reach of their characteristics.
  var discoverableServices: [GATTService] {
    applications.filter(\.isServed).flatMap(\.services).map { service in
      GATTService(
        uuid: service.uuid,
        characteristics: service.characteristics.map { .init(uuid: $0.uuid, properties: $0.properties) })
    }
  }

  func register(_ application: AirApplication) {
    let moment = air.agenda.now.advanced(by: controller.servingDelay)
    application.registering = air.agenda.at(moment) { [weak self] in
      application.registering = nil
      application.isServed = true
      self?.delegate?.applicationChanged(application.number, isServed: true)
    }
  }

  func unregister(_ application: AirApplication) {
    application.registering.map(air.agenda.cancel)
    application.registering = nil
    guard application.isServed else { return }
    application.isServed = false
    air.agenda.next { [weak self] in
      // The application may have been removed, or registered again, meanwhile.
      guard let self, applications.contains(where: { $0 === application }), !application.isServed else { return }
      delegate?.applicationChanged(application.number, isServed: false)
    }
  }

  /// A client has written.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID,
    answer: AirAnswer?
  ) {
    if let owner {
      owner.written(value, to: characteristic, of: application, on: link, answer: answer)
    } else if let delegate {
      do throws(ATTError) {
        try delegate.written(value, to: characteristic, of: application, on: link)
        answer?(nil)
      } catch {
        answer?(error)
      }
    } else {
      answer?(.unlikely)
    }
  }

  // MARK: Notifying

  public func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    notify(value, of: characteristic, in: application, to: recipients, then: { _ in })
  }

  /// - Parameter gone: called for each link that accepted the value, when the value has been transmitted.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in number: ApplicationID, to recipients: Recipients,
    then gone: @escaping @LoopActor (LinkID) -> Void
  ) -> Delivery {
    let meant = links(of: recipients, characteristic, number)
    guard let application = application(number), application.isServed,
      let declared = application.characteristics[characteristic], declared.canNotify
    else { return Delivery(unreachable: meant) }
    var delivery = Delivery()
    var taking: [AirEnd] = []
    for link in meant {
      if let end = end(link), end.reaches(characteristic, of: number, declared.reach) {
        if end.takesNotification() {
          delivery.accepted.append(link)
          taking.append(end)
        } else {
          delivery.full.append(link)
        }
      } else {
        delivery.unreachable.append(link)
      }
    }
    for end in taking {
      end.notify(value, of: characteristic, declared.properties) { gone(end.id) }
    }
    if !taking.isEmpty, controller.reachesEverySubscriber, declared.reach == .subscribers || !controller.hasRawHCI {
      for end in ends where end.subscriptions[characteristic] == number && !meant.contains(end.id) {
        end.notify(value, of: characteristic, declared.properties, then: {})
        delivery.overheard.append(end.id)
      }
    }
    return delivery
  }

  /// The links that a value is sent to, without duplicates.
  private func links(
    of recipients: Recipients, _ characteristic: CharacteristicID, _ application: ApplicationID
  ) -> [LinkID] {
    switch recipients {
    case .link(let link): return [link]
    case .links(let links):
      var seen: Set<LinkID> = []
      return links.filter { seen.insert($0).inserted }
    case .subscribers: return ends.filter { $0.subscriptions[characteristic] == application }.map(\.id)
    }
  }
}
