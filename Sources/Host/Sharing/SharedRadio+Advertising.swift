import Common
import Loop
import Radio

/// An advertisement of a tenant's.
struct SharedAdvertisement {
  let advertisement: Advertisement
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
    guard !actions.isEmpty, !isAdvertisingDue else { return }
    isAdvertisingDue = true
    scheduler.soon { [weak self] in self?.show() }
  }

  private func show() {
    isAdvertisingDue = false
    let wanted = advertisingPlan.onAir.compactMapValues { advertisements[$0]?.advertisement }
    for slot in Set(shown.keys).union(wanted.keys).sorted() where shown[slot] != wanted[slot] {
      driver.advertise(wanted[slot], in: slot)
    }
    shown = wanted
    tellSets()
    advertisingObservers.call()
  }

  /// Whether all advertisements of a service that can be shown are on the air.
  func advertisesAll(of tenant: LinkPlan.TenantID) -> Bool {
    let onAir = Set(advertisingPlan.onAir.values)
    return advertisements.allSatisfy { id, entry in
      entry.owner != tenant || onAir.contains(id) || entry.application.map { !driver.isServed($0) } ?? false
    }
  }
}
