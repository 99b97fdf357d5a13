import Common
import Loop
import Radio

/// A service's advertisement on the shared radio.
struct SharedAdvertisement {
  let advertisement: Advertisement
  /// The advertising data of a set between two messages.
  var resting: Advertisement?
  /// The application that the advertisement waits for; nil if there is none.
  let application: ApplicationID?
  let owner: LinkPlan.TenantID
}

/// Advertisements: transfers the plan's decisions to the driver's slots.
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

  /// Passes an event to the plan. Changes within one loop iteration are applied together, so that a replaced
  /// advertisement results in one exchange.
  func plan(_ event: AdvertisingPlan.Event) {
    let actions = advertisingPlan.handle(event, at: scheduler.now)
    advertisingTimer.set(advertisingPlan.deadline(after: scheduler.now))
    for case .refuse(let id) in actions {
      // Events are never sent from within a call.
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

  // MARK: Use of slots

  /// Whether no advertisement of a service has waited for a slot, or shared one, within the last `sharingMemory`.
  func advertisesAll(of tenant: LinkPlan.TenantID) -> Bool {
    !advertisements.contains { id, entry in entry.owner == tenant && lastShared[id] != nil }
  }

  /// Whether a service of higher priority has an active or pending advertisement for a person.
  func isPersonAwaited(besides tenant: LinkPlan.TenantID) -> Bool {
    let own = plan.priority(of: tenant)
    return advertisingPlan.entries.contains { entry in
      entry.priority == .person && entry.isReady
        && advertisements[entry.id].map { plan.priority(of: $0.owner) > own } ?? false
    }
  }

  /// Records the advertisements that wait, or take turns with those of a higher priority.
  private func noteSharing() {
    let (now, sharing) = (scheduler.now, advertisingPlan.sharing)
    for id in sharing { lastShared[id] = now }
    lastShared = lastShared.filter { id, since in
      advertisements[id] != nil && (sharing.contains(id) || since.duration(to: now) < Self.sharingMemory)
    }
    sharingTimer.set(
      lastShared.filter { !sharing.contains($0.key) }.values.min()?.advanced(by: Self.sharingMemory))
  }

  /// Time without sharing after which a service counts as not sharing. It is therefore notified once, not at each time
  /// slice.
  private static let sharingMemory = Duration.seconds(30)

  func sharingMayHaveEnded() {
    noteSharing()
    advertisingObservers.call()
  }

  /// The services that use the slots.
  var advertisingUse: AdvertisingUse {
    let own = confirmed.keys.sorted().compactMap { advertisingPlan.onAir[$0] }
    return AdvertisingUse(
      used: confirmed.count + driver.foreignAdvertisements,
      places: driver.advertisingSlots + driver.foreignAdvertisements,
      onAir: names(own),
      waiting: names(advertisingPlan.waiting).reduce(into: []) { if !$0.contains($1) { $0.append($1) } })
  }

  /// The names of the advertisements' services.
  private func names(_ ids: [AdvertisingPlan.ID]) -> [String] {
    ids.compactMap { id in advertisements[id].flatMap { tenants[$0.owner]?.name } }
  }
}
