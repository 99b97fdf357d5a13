import Common
import Loop
import Radio

/// An advertisement of a tenant's.
struct SharedAdvertisement {
  let advertisement: Advertisement
  /// What a set says between two messages.
  var resting: Advertisement?
  /// The application that it waits for; nil if it waits for none.
  let application: ApplicationID?
  let owner: LinkPlan.TenantID
}

/// Advertisements, as the plan puts them into the driver's slots.
extension SharedRadio {
  func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for application: ApplicationID?,
    of owner: LinkPlan.TenantID
  ) throws(RadioError) -> Registration {
    try advertisement.checkLengths()
    let id = AdvertisingPlan.ID(number: nextNumber())
    advertisements[id] = SharedAdvertisement(advertisement: advertisement, application: application, owner: owner)
    plan(.add(id, terms, isReady: application.map(driver.isServed) ?? true))
    return Registration { [weak self] in
      guard self?.advertisements.removeValue(forKey: id) != nil else { return }
      self?.plan(.remove(id))
    }
  }

  public func advertisingSlotsChanged() { plan(.slots(driver.advertisingSlots)) }

  public func applicationChanged(_ application: ApplicationID, isServed: Bool) {
    let waiting = advertisements.filter { $0.value.application == application }.map(\.key)
    for id in waiting.sorted(by: { $0.number < $1.number }) { plan(.ready(id, isServed)) }
  }

  /// Has the plan decide. What changes within one turn is shown together: an advertisement that takes the place of one
  /// that went is an exchange.
  func plan(_ event: AdvertisingPlan.Event) {
    let actions = advertisingPlan.handle(event, at: scheduler.now)
    advertisingTimer.set(advertisingPlan.deadline(after: scheduler.now))
    for case .refuse(let id) in actions {
      // Nothing is told from within a call.
      scheduler.soon { [weak self] in self?.sets[id]?.set?.refused() }
    }
    noteSharing()
    guard !actions.isEmpty, !isAdvertisingDue else { return }
    isAdvertisingDue = true
    scheduler.soon { [weak self] in self?.show() }
  }

  private func show() {
    isAdvertisingDue = false
    let wanted = advertisingPlan.onAir.compactMapValues { id in
      advertisingPlan.shows(id) ? advertisements[id]?.advertisement : advertisements[id]?.resting
    }
    for slot in Set(shown.keys).union(wanted.keys).sorted() where shown[slot] != wanted[slot] {
      driver.advertise(wanted[slot], in: slot)
    }
    shown = wanted
    tellSets()
    advertisingObservers.call()
  }

  // MARK: Shares

  /// Whether all advertisements of a service have a place to themselves, and have had it for a while.
  func advertisesAll(of tenant: LinkPlan.TenantID) -> Bool {
    !advertisements.contains { id, entry in entry.owner == tenant && lastShared[id] != nil }
  }

  /// Whether a service of higher priority has an advertisement for a person, on the air or about to be.
  func isPersonAwaited(besides tenant: LinkPlan.TenantID) -> Bool {
    let own = plan.priority(of: tenant)
    return advertisingPlan.entries.contains { entry in
      entry.priority == .person && entry.isReady
        && advertisements[entry.id].map { plan.priority(of: $0.owner) > own } ?? false
    }
  }

  /// Remembers which advertisements wait, or take turns with those of a higher priority.
  private func noteSharing() {
    let (now, sharing) = (scheduler.now, advertisingPlan.sharing)
    for id in sharing { lastShared[id] = now }
    lastShared = lastShared.filter { id, since in
      advertisements[id] != nil && (sharing.contains(id) || since.duration(to: now) < Self.sharingMemory)
    }
    sharingTimer.set(
      lastShared.filter { !sharing.contains($0.key) }.values.min()?.advanced(by: Self.sharingMemory))
  }

  /// A service that shares its place hears so once, and not at each turn.
  private static let sharingMemory = Duration.seconds(30)

  func sharingMayHaveEnded() {
    noteSharing()
    advertisingObservers.call()
  }

  /// Who has the places on the air.
  var advertisingUse: AdvertisingUse {
    let own = confirmed.keys.sorted().compactMap { advertisingPlan.onAir[$0] }
    return AdvertisingUse(
      used: confirmed.count + driver.foreignAdvertisements,
      places: driver.advertisingSlots + driver.foreignAdvertisements,
      onAir: names(own),
      waiting: names(advertisingPlan.waiting).reduce(into: []) { if !$0.contains($1) { $0.append($1) } })
  }

  /// The service of each advertisement.
  private func names(_ ids: [AdvertisingPlan.ID]) -> [String] {
    ids.compactMap { id in advertisements[id].flatMap { tenants[$0.owner]?.name } }
  }
}
