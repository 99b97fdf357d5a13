import Common
import Loop
import Radio

/// One radio that several services share: it carries out what `LinkPlan`, `AdvertisingPlan` and `SightingTable` decide.
///
/// Each service gets a radio of its own to look at, a `Tenant`.
@LoopActor
public final class SharedRadio {
  let driver: any RadioDriver
  let scheduler: any Scheduler
  let statusObservers = Observers<RadioStatus>()

  // Links and applications: SharedRadio+Links, SharedRadio+Serving, SharedRadio+Connecting.
  var plan: LinkPlan
  var applications: [ApplicationID: SharedApplication] = [:]
  var connections: [LinkPlan.ConnectionID: SharedLink] = [:]
  var tenants: [LinkPlan.TenantID: WeakTenant] = [:]
  private lazy var linkTimer = Deadline(scheduler) { [weak self] in self?.decide(.timer) }

  // Advertisements: SharedRadio+Advertising.
  var advertisingPlan: AdvertisingPlan
  var advertisements: [AdvertisingPlan.ID: SharedAdvertisement] = [:]
  /// What the driver was told to show, by slots.
  var shown: [Int: Advertisement] = [:]
  var isAdvertisingDue = false
  /// What the driver says is on the air, by slots.
  var confirmed: [Int: Advertisement] = [:]
  var sets: [AdvertisingPlan.ID: WeakSet] = [:]
  /// When each advertisement last waited, or had a turn in place of a higher priority.
  var lastShared: [AdvertisingPlan.ID: Instant] = [:]
  lazy var sharingTimer = Deadline(scheduler) { [weak self] in self?.sharingMayHaveEnded() }
  let advertisingObservers = Observers<Void>()
  lazy var advertisingTimer = Deadline(scheduler) { [weak self] in self?.plan(.timer) }

  // Scanning: SharedRadio+Scanning.
  var sightings = SightingTable()
  var scanHandlers: [SightingTable.ScanID: @LoopActor (ScanEvent) -> Void] = [:]
  let packetObservers = Observers<AdvertisingPacket>()
  /// The patterns of each service that listens.
  var listeners: [Int: [AdvertisingPattern]] = [:]
  lazy var sightingTimer = Deadline(scheduler) { [weak self] in self?.expireSightings() }

  // Quiet: SharedRadio+Quiet. The priorities of those who asked for it.
  var quiet: [Int: Int] = [:]
  let quietObservers = Observers<Void>()

  private var lastNumber = 0

  /// A tenant does not outlive the service that it was made for.
  struct WeakTenant {
    let name: String
    weak var tenant: Tenant?
  }

  /// A set does not outlive the service's hold on it.
  struct WeakSet {
    weak var set: SharedSet?
  }

  /// - Parameter driver: a driver of which nobody else is the delegate.
  public init(driver: any RadioDriver, scheduler: any Scheduler, limits: LinkLimits = LinkLimits()) {
    self.driver = driver
    self.scheduler = scheduler
    plan = LinkPlan(limits: limits)
    advertisingPlan = AdvertisingPlan(slots: driver.advertisingSlots)
    driver.delegate = self
  }

  /// The radio as one service sees it.
  public func tenant(_ name: String, share: LinkShare) -> Tenant {
    let id = LinkPlan.TenantID(number: nextNumber())
    plan.shares[id] = share
    let tenant = Tenant(name, id, of: self)
    tenants[id] = WeakTenant(name: name, tenant: tenant)
    return tenant
  }

  /// Takes new bounds over; links beyond them end as the services can spare them.
  public func apply(_ limits: LinkLimits) {
    plan.limits = limits
    decide(.timer)
  }

  public var status: RadioStatus { driver.status }

  /// What others did to the radio, in numbers since the start.
  public var tallies: [Tally] {
    driver.tallies + [
      Tally("UnusedLinks", plan.counters.unusedLinks), Tally("YieldedLinks", plan.counters.yieldedLinks),
      Tally("RefusedAttempts", plan.counters.refusedAttempts),
    ]
  }

  /// Calls `handler` at every change of `status` from now on.
  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    statusObservers.add(handler)
  }

  /// Gives back what the radio changed for other programs as well; the services have stopped.
  ///
  /// - Parameter then: called once, when that is done; at the latest after `limit`, or when links that are being cut have had their time.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    driver.rest(within: limit, then: then)
  }

  func nextNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }

  // MARK: Links

  /// Has the plan decide, and carries out what it decided, in order.
  func decide(_ event: LinkPlan.Event) {
    for action in plan.handle(event, at: scheduler.now) { perform(action) }
    linkTimer.set(plan.deadline)
  }
}

extension SharedRadio: RadioDriverDelegate {
  public func statusChanged(_ status: RadioStatus) {
    if status.state == .waiting { tell(sightings.loseAll()) }
    statusObservers.call(status)
  }
}
