import Common
import Loop
import Radio

/// Advertising sets: data that a service broadcasts for a given time.
extension SharedRadio {
  func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?, of owner: LinkPlan.TenantID
  ) throws(RadioError) -> SharedSet {
    _ = try resting?.encoded()
    let set = SharedSet(
      AdvertisingPlan.ID(number: nextNumber()), terms, interval: interval, resting: resting, owner: owner, of: self)
    sets[set.id] = WeakSet(set: set)
    return set
  }

  /// Requests a slot for a set's data.
  func say(_ advertisement: Advertisement, _ terms: AdvertisingTerms, for set: SharedSet) {
    advertisements[set.id] = SharedAdvertisement(
      advertisement: advertisement, resting: set.resting, application: nil, owner: set.owner)
    plan(.say(set.id, terms))
  }

  func withdraw(_ id: AdvertisingPlan.ID) {
    guard advertisements.removeValue(forKey: id) != nil else { return }
    plan(.remove(id))
  }

  func forgetSet(_ id: AdvertisingPlan.ID) {
    sets[id] = nil
    withdraw(id)
  }

  /// The slot that the plan has assigned to the request; nil if it has none.
  func slot(of id: AdvertisingPlan.ID) -> Int? { advertisingPlan.onAir.first { $0.value == id }?.key }

  /// The reason why data was not broadcast within its longest wait.
  func refusal(of id: AdvertisingPlan.ID, after wait: Duration) -> RadioError {
    guard presentStatus.state != .waiting else { return .notReady(presentStatus.reason) }
    return advertisingPlan.shows(id) ? .timedOut("advertise") : .noSlot(after: wait)
  }

  /// Notifies all sets that the plan has reassigned slots, or that the driver has reported the content of a slot.
  func tellSets() {
    // Swift 6.0 returns nil for a key path that ends in a weak property.
    for (_, held) in sets.sorted(by: { $0.key.number < $1.key.number }) { held.set?.airChanged() }
  }

  public func onAir(_ advertisement: Advertisement?, in slot: Int) {
    confirmed[slot] = advertisement
    tellSets()
    advertisingObservers.call()
  }
}

/// A service's advertising set on the shared radio, and the state of its data.
@LoopActor
final class SharedSet: AdvertisingSet {
  @LoopActor
  private final class Airing {
    let advertisement: Advertisement
    let time: Duration
    /// The handler of the set's events; nil once the service has cancelled its registration.
    var handler: (@LoopActor (AiringEvent) -> Void)?

    init(_ advertisement: Advertisement, _ time: Duration, _ handler: @escaping @LoopActor (AiringEvent) -> Void) {
      (self.advertisement, self.time, self.handler) = (advertisement, time, handler)
    }

    func tell(_ event: AiringEvent) { handler?(event) }
  }

  private enum State {
    /// The set has no slot, and no data that waits for one.
    case silent
    /// The set's data between messages is active, or about to be.
    case resting
    case waiting(Airing)
    case airing(Airing, since: Instant)
    case closed
  }

  /// Maximum time in which the driver must start an advertisement.
  private static let driverLimit = Duration.seconds(10)

  let id: AdvertisingPlan.ID
  let owner: LinkPlan.TenantID
  private let terms: AdvertisingTerms
  private let interval: Duration
  /// The advertising data between two messages.
  let resting: Advertisement?
  private weak var radio: SharedRadio?
  private let scheduler: any Scheduler
  private var state = State.silent
  private var registration: Registration?
  private lazy var timer = Deadline(scheduler) { [weak self] in self?.timeIsOver() }

  init(
    _ id: AdvertisingPlan.ID, _ terms: AdvertisingTerms, interval: Duration, resting: AdvertisingData?,
    owner: LinkPlan.TenantID, of radio: SharedRadio
  ) {
    self.id = id
    self.terms = terms
    self.interval = interval
    self.owner = owner
    self.radio = radio
    scheduler = radio.scheduler
    self.resting = resting.map {
      Advertisement(.nonConnectable(AdvertisingSetID(id.number)), data: $0, interval: interval)
    }
    registration = Registration { [weak radio] in radio?.forgetSet(id) }
  }

  // MARK: Requests of the service

  func air(
    _ data: AdvertisingData, for time: Duration, _ handler: @escaping @LoopActor (AiringEvent) -> Void
  ) throws(RadioError) -> Registration {
    let advertisement = Advertisement(.nonConnectable(AdvertisingSetID(id.number)), data: data, interval: interval)
    try advertisement.checkLengths()
    guard let radio else { throw .notReady("The radio was closed.") }
    if case .closed = state { throw .notReady("The advertisement set is closed.") }
    guard radio.presentStatus.state != .waiting else { throw .notReady(radio.presentStatus.reason) }
    if let (airing, event) = endOfPresent {
      // Events are never sent from within this call.
      scheduler.soon { airing.tell(event) }
    }
    let airing = Airing(advertisement, time, handler)
    state = .waiting(airing)
    timer.set(scheduler.now.advanced(by: terms.longestWait))
    radio.say(advertisement, terms, for: self)
    // The registration of data retains the set, even if its other owners have released it.
    return Registration {
      airing.handler = nil
      self.cancel(airing)
    }
  }

  func close() {
    if case .closed = state { return }
    state = .closed
    timer.set(nil)
    registration = nil
  }

  private func cancel(_ cancelled: Airing) {
    switch state {
    case .waiting(let airing) where airing === cancelled: withdraw()
    case .airing(let airing, _) where airing === cancelled: rest()
    default: break
    }
  }

  /// The data that is being sent or waits, with the event that reports its end, because new data replaces it; nil if
  /// there is none.
  private var endOfPresent: (Airing, AiringEvent)? {
    switch state {
    case .waiting(let airing): (airing, .refused(.refused("New data replaced this data before it was advertised.")))
    case .airing(let airing, let since): (airing, .cutShort(after: since.duration(to: scheduler.now)))
    case .silent, .resting, .closed: nil
    }
  }

  // MARK: Events

  /// Handles a change of the slots that the plan assigned, or of their content that the driver reported.
  func airChanged() {
    guard let radio else { return }
    let shown = radio.slot(of: id).flatMap { radio.confirmed[$0] }
    switch state {
    case .waiting(let airing) where shown == airing.advertisement && radio.advertisingPlan.shows(id):
      let now = scheduler.now
      state = .airing(airing, since: now)
      timer.set(now.advanced(by: airing.time))
      radio.plan(.began(id))
      airing.tell(.began(now))
    case .airing(let airing, let since) where shown != airing.advertisement:
      withdraw()
      // A request for the slot may take it before the timer at the end of the time.
      let (now, time) = (scheduler.now, since.duration(to: scheduler.now))
      airing.tell(time < airing.time ? .cutShort(after: time) : .ended(now))
    case .resting where radio.slot(of: id) == nil: withdraw()
    default: break
    }
  }

  private func timeIsOver() {
    switch state {
    case .waiting(let airing):
      // The plan refuses data that waits for a slot; data with a slot waits for the driver.
      guard let shown = radio?.advertisingPlan.shownSince(id) else { return }
      let limit = shown.advanced(by: Self.driverLimit)
      guard limit <= scheduler.now else { return timer.set(limit) }
      let refusal = radio?.refusal(of: id, after: terms.longestWait) ?? .notReady("The radio was closed.")
      withdraw()
      airing.tell(.refused(refusal))
    case .airing(let airing, _):
      rest()
      airing.tell(.ended(scheduler.now))
    case .silent, .resting, .closed: break
    }
  }

  /// Handles the plan's refusal of the set's data; ignored if the set has new data since.
  func refused() {
    guard case .waiting(let airing) = state, let radio, !radio.advertisingPlan.isSaying(id) else { return }
    timer.set(nil)
    let refusal = radio.refusal(of: id, after: terms.longestWait)
    if radio.slot(of: id) == nil { withdraw() } else { state = .resting }
    airing.tell(.refused(refusal))
  }

  private func rest() {
    guard resting != nil else { return withdraw() }
    state = .resting
    timer.set(nil)
    radio?.plan(.rest(id))
  }

  private func withdraw() {
    state = .silent
    timer.set(nil)
    radio?.withdraw(id)
  }
}
