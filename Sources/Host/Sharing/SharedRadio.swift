import Common
import Loop
import Radio

/// A radio that several services share: it carries out the decisions of `LinkPlan`, `AdvertisingPlan` and
/// `ScanResultTable`.
///
/// Each service has its own view of the radio, a `Tenant`.
@LoopActor
public final class SharedRadio {
  let driver: any RadioDriver
  let scheduler: any Scheduler
  let statusObservers = Observers<RadioStatus>()
  /// The status that the driver reported last. The driver's present status may differ for a moment, and change back
  /// without a report: a service that had read it would not read it again.
  public private(set) var status: RadioStatus

  // Links and applications: also SharedRadio+Serving, SharedRadio+Connecting.
  var plan: LinkPlan
  var applications: [ApplicationID: SharedApplication] = [:]
  var connections: [LinkPlan.ConnectionID: SharedLink] = [:]
  var tenants: [LinkPlan.TenantID: WeakTenant] = [:]
  private lazy var linkTimer = Deadline(scheduler) { [weak self] in self?.decide(.timer) }

  // Advertisements: SharedRadio+Advertising.
  var advertisingPlan: AdvertisingPlan
  var advertisements: [AdvertisingPlan.ID: SharedAdvertisement] = [:]
  /// The advertisements that were passed to the driver, by slot.
  var shown: [Int: Advertisement] = [:]
  var isAdvertisingDue = false
  /// The advertisements that the driver reported as active, by slot.
  var confirmed: [Int: Advertisement] = [:]
  var sets: [AdvertisingPlan.ID: WeakSet] = [:]
  /// When each advertisement last waited, or had a time slice instead of a higher priority.
  var lastShared: [AdvertisingPlan.ID: Instant] = [:]
  lazy var sharingTimer = Deadline(scheduler) { [weak self] in self?.sharingMayHaveEnded() }
  let advertisingObservers = Observers<Void>()
  lazy var advertisingTimer = Deadline(scheduler) { [weak self] in self?.plan(.timer) }

  // Scanning: SharedRadio+Scanning.
  var scanResults = ScanResultTable()
  var scanHandlers: [ScanResultTable.ScanID: @LoopActor (ScanEvent) -> Void] = [:]
  let packetObservers = Observers<AdvertisingPacket>()
  /// The patterns of each scanning service.
  var listeners: [Int: [AdvertisingPattern]] = [:]
  lazy var scanResultTimer = Deadline(scheduler) { [weak self] in self?.expireScanResults() }

  // Radio inhibit: the priorities of the services that requested it.
  var quiet: [Int: Int] = [:]
  let quietObservers = Observers<Void>()

  private var lastNumber = 0

  /// A weak reference, because a tenant must not outlive its service.
  struct WeakTenant {
    let name: String
    weak var tenant: Tenant?
  }

  /// A weak reference, because a set must not outlive the service's handle.
  struct WeakSet {
    weak var set: SharedSet?
  }

  /// - Parameter driver: a driver without another delegate.
  public init(driver: any RadioDriver, scheduler: any Scheduler, limits: LinkLimits = LinkLimits()) {
    self.driver = driver
    self.scheduler = scheduler
    status = driver.status
    plan = LinkPlan(limits: limits)
    advertisingPlan = AdvertisingPlan(slots: driver.advertisingSlots)
    driver.delegate = self
  }

  /// Creates a service's view of the radio.
  public func tenant(_ name: String, share: LinkShare) -> Tenant {
    let id = LinkPlan.TenantID(number: nextNumber())
    plan.shares[id] = share
    let tenant = Tenant(name, id, of: self)
    tenants[id] = WeakTenant(name: name, tenant: tenant)
    return tenant
  }

  /// Applies new limits; excess links end as services release them.
  public func apply(_ limits: LinkLimits) {
    plan.limits = limits
    decide(.timer)
  }

  /// Counts of actions by peers and other programs, since the start.
  public var tallies: [Tally] {
    driver.tallies + [
      Tally("UnusedLinks", plan.counters.unusedLinks), Tally("YieldedLinks", plan.counters.yieldedLinks),
      Tally("RefusedAttempts", plan.counters.refusedAttempts),
    ]
  }

  /// The present status of the driver, for decisions whose result is not stored.
  var presentStatus: RadioStatus { driver.status }

  /// Calls `handler` on every change of `status` from now on.
  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    statusObservers.add(handler)
  }

  /// Restores settings that the radio changed for other programs, too. The services have stopped.
  ///
  /// - Parameter then: called once, when that is done; at the latest after `limit`, or after the time limit of links
  ///   that are being ended.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    driver.rest(within: limit, then: then)
  }

  func nextNumber() -> Int {
    lastNumber += 1
    return lastNumber
  }

  // MARK: Links

  /// Passes an event to the link plan, and performs the resulting actions in order.
  func decide(_ event: LinkPlan.Event) {
    for action in plan.handle(event, at: scheduler.now) { perform(action) }
    linkTimer.set(plan.deadline)
  }
}

extension SharedRadio: RadioDriverDelegate {
  public func statusChanged(_ status: RadioStatus) {
    self.status = status
    if status.state == .waiting { tell(scanResults.loseAll()) }
    statusObservers.call(status)
  }
}

/// Links: passes the driver's reports to the plan, and performs the plan's actions.
extension SharedRadio {
  public func linkUp(_ link: DriverLink) { decide(.linkUp(link)) }

  public func linkChanged(_ link: LinkID, mtu: Int) { decide(.linkChanged(link, mtu: mtu)) }

  public func linkDown(_ link: LinkID) { decide(.linkDown(link)) }

  /// Sets the backlog of a link, if the service uses the link.
  func allow(_ backlog: Backlog, on link: LinkID, by tenant: LinkPlan.TenantID) {
    if plan.isUsed(link, by: tenant) { driver.allow(backlog, on: link) }
  }

  func perform(_ action: LinkPlan.Action) {
    switch action {
    case .open(let application, let link, let address, let since, let mtu):
      applications[application]?.opened(link, address, since: since, mtu: mtu)
    case .change(let application, let link, let mtu): applications[application]?.delegate?.linkChanged(link, mtu: mtu)
    case .close(.application(let application), let link): applications[application]?.closed(link, scheduler)
    case .close(.connection(let connection), _): letGo(connection)
    case .cut(let link): driver.cut(link)
    case .cutUnused(let link): cutUnused(link)
    case .attempt(let connection, let address): attempt(connection, address)
    case .giveUp(let connection, let reason): connections[connection]?.giveUp(reason)
    case .refuse(let connection, let reason): connections[connection]?.end(reason, scheduler)
    case .ask(let tenant, let links): ask(tenant, links)
    }
  }

  /// Ends an unused link that the peer made: any other link may belong to another program.
  private func cutUnused(_ link: LinkID) {
    guard driver.origin(of: link) == .peer else { return decide(.spared(link)) }
    decide(.cutting(link))
    driver.cut(link)
  }

  private func ask(_ id: LinkPlan.TenantID, _ links: [LinkID]) {
    guard let newest = links.last else { return }
    let choice = tenants[id]?.tenant?.linkWanted(links) ?? newest
    decide(.givenUp(links.contains(choice) ? choice : newest, id))
  }
}

/// Radio inhibit: while a service serves a peer, services of lower priority neither scan nor connect, and few new
/// advertisements begin.
extension SharedRadio {
  func askForQuiet(for tenant: LinkPlan.TenantID) -> Registration {
    let id = nextNumber()
    quiet[id] = plan.priority(of: tenant)
    plan(.serving(true))
    quietObservers.call()
    return Registration { [weak self] in
      guard let self, quiet.removeValue(forKey: id) != nil else { return }
      plan(.serving(!quiet.isEmpty))
      quietObservers.call()
    }
  }

  func isQuietWanted(by tenant: LinkPlan.TenantID) -> Bool {
    let own = plan.priority(of: tenant)
    return quiet.values.contains { $0 > own }
  }

  /// Reports only changes, in the next loop iteration, so that a service does not act within another service's call.
  func onQuiet(of tenant: LinkPlan.TenantID, _ handler: @escaping @LoopActor (Bool) -> Void) -> Registration {
    var told = isQuietWanted(by: tenant)
    return quietObservers.add { [weak self] in
      self?.scheduler.soon { [weak self] in
        guard let now = self?.isQuietWanted(by: tenant), now != told else { return }
        told = now
        handler(now)
      }
    }
  }
}
