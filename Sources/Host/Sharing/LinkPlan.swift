import Common
import Radio

/// Decides about the links of one adapter: the services that use each link, links to end, and the next attempt to
/// connect. A value type: events and time are inputs, actions are outputs.
///
/// A link belongs to its users: the applications that its peer has used, and the connection that made it. A link
/// without users is ended after `LinkLimits.unusedTime` if the peer made it.
struct LinkPlan: Sendable {
  /// A service on the shared radio.
  struct TenantID: Hashable, Sendable, Comparable {
    let number: Int

    static func < (left: TenantID, right: TenantID) -> Bool { left.number < right.number }
  }

  /// Identifies one call of `connect` by a service.
  struct ConnectionID: Hashable, Sendable {
    let number: Int
  }

  enum User: Hashable, Sendable {
    case application(ApplicationID)
    case connection(ConnectionID)
  }

  enum Event: Sendable {
    case linkUp(DriverLink)
    case linkChanged(LinkID, mtu: Int)
    case linkDown(LinkID)
    /// The peer of a link wrote to an application, read from it or subscribed.
    case used(LinkID, ApplicationID)
    /// A service no longer uses a link.
    case released(LinkID, User)
    /// The service released this link because it was asked to.
    case givenUp(LinkID, TenantID)
    /// The driver did not end an unused link, because the link may belong to another program.
    case spared(LinkID)
    /// The driver is ending an unused link.
    case cutting(LinkID)
    case applicationOpened(ApplicationID, TenantID)
    case applicationClosed(ApplicationID)
    /// A service requests a connection.
    case connect(ConnectionID, TenantID, BluetoothAddress)
    /// The attempt succeeded; `linkUp` preceded.
    case connected(ConnectionID, LinkID)
    /// The attempt failed or was cancelled, or its link has ended.
    case ended(ConnectionID)
    /// `deadline` is reached.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Notify an application that a link begins to use it, with the start time and the MTU of the link.
    case open(ApplicationID, LinkID, BluetoothAddress, since: Instant, mtu: Int?)
    case change(ApplicationID, LinkID, mtu: Int)
    case close(User, LinkID)
    case cut(LinkID)
    /// End an unused link if the peer initiated it. `cutting` or `spared` follows.
    case cutUnused(LinkID)
    /// Begin the attempt to connect to the peer at this address.
    case attempt(ConnectionID, BluetoothAddress)
    /// Cancel an attempt that has begun; `ended` follows.
    case giveUp(ConnectionID, reason: String)
    /// Refuse an attempt that has not begun. No further events follow for it.
    case refuse(ConnectionID, reason: String)
    /// Ask a service to release one of these links. The service answers with `givenUp`.
    case ask(TenantID, [LinkID])
  }

  struct Entry: Sendable {
    let address: BluetoothAddress
    let since: Instant
    var mtu: Int?
    var users: [User] = []
    var condition = Condition.used

    var isEnding: Bool { if case .ending = condition { true } else { false } }

    func isUsed(by application: ApplicationID) -> Bool { users.contains(.application(application)) }
  }

  /// The state of a link.
  enum Condition: Hashable, Sendable {
    /// At least one service uses the link.
    case used
    /// No service has used the link since the given time.
    case unused(since: Instant)
    /// No service uses the link, and it was not ended at the given time because it may belong to another program.
    case spared(since: Instant)
    /// The link has been ending since the given time; `asUnused`: only if the peer made it.
    case ending(since: Instant, asUnused: Bool)
  }

  struct Counters: Hashable, Sendable {
    /// Links that were ended because they were unused for too long, or exceeded the limit of unused links.
    var unusedLinks: UInt64 = 0
    /// Number of links that a service released because another service needed a link.
    var yieldedLinks: UInt64 = 0
    /// Connection attempts that were refused before they began.
    var refusedAttempts: UInt64 = 0
  }

  var limits: LinkLimits
  var counters = Counters()
  var links: [LinkID: Entry] = [:]
  var shares: [TenantID: LinkShare] = [:]
  private var owners: [ApplicationID: TenantID] = [:]
  var connections: [ConnectionID: Connection] = [:]
  /// Waiting connection attempts, the oldest first.
  private var queue: [ConnectionID] = []
  /// The connection attempt that is under way.
  private var current: ConnectionID?
  private var nextAttempt = Instant.zero
  /// Number of links that each service was asked to release and has not released yet.
  private var asked: [TenantID: Int] = [:]

  /// When the last event was handled.
  private var latest = Instant.zero

  init(limits: LinkLimits = LinkLimits()) {
    self.limits = limits
  }

  subscript(link: LinkID) -> Entry? { links[link] }

  /// When `Event.timer` is due; nil if nothing is timed.
  var deadline: Instant? {
    var moments = [attemptDeadline].compactMap(\.self)
    let dependsOnArrivals = dependsOnArrivals(at: latest)
    for entry in links.values {
      switch entry.condition {
      case .unused(let since):
        moments.append(since.advanced(by: limits.unusedTime))
        let arrived = since.advanced(by: limits.arrivalTime)
        if dependsOnArrivals, arrived > latest { moments.append(arrived) }
      case .spared(let since): moments.append(since.advanced(by: limits.sparedTime))
      case .ending(let since, _): moments.append(since.advanced(by: limits.cutTime))
      case .used: break
      }
    }
    return moments.min()
  }

  mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    latest = now
    var actions: [Action] = []
    switch event {
    case .linkUp(let link): actions = up(link, at: now)
    case .linkChanged(let link, let mtu): actions = change(link, mtu: mtu)
    case .linkDown(let link): actions = down(link)
    case .used(let link, let application): actions = use(link, by: application)
    case .released(let link, let user): actions = release(link, by: user)
    case .givenUp(let link, let tenant): actions = giveUp(link, by: tenant)
    case .spared(let link): if links[link]?.isEnding == true { links[link]?.condition = .spared(since: now) }
    case .cutting(let link): links[link]?.condition = .ending(since: now, asUnused: true)
    case .applicationOpened(let application, let tenant): owners[application] = tenant
    case .applicationClosed(let application): actions = close(application)
    case .connect(let id, let tenant, let address): actions = connect(id, tenant, address, at: now)
    case .connected(let id, let link): connected(id, link)
    case .ended(let id): ended(id, at: now)
    case .timer: actions = cutLate(at: now)
    }
    return actions + balance(at: now) + beginAttempts(at: now)
  }

  // MARK: Links

  // Links that come up and end, and the services that use them.

  mutating func up(_ link: DriverLink, at now: Instant) -> [Action] {
    guard links[link.id] == nil else { return [] }
    var entry = Entry(address: link.address, since: link.since)
    if let current, connections[current]?.address == link.address {
      entry.users = [.connection(current)]
    } else {
      entry.condition = .unused(since: now)
    }
    links[link.id] = entry
    let unused = unusedLinks
    guard unused.count > limits.unusedLinks, let oldest = unused.first else { return [] }
    // Otherwise a series of connecting peers could displace a peer that has just connected and is about to use an
    // application.
    return [cutUnused(isArriving(oldest, at: now) ? link.id : oldest)]
  }

  mutating func change(_ link: LinkID, mtu: Int) -> [Action] {
    guard links[link]?.mtu != mtu else { return [] }
    links[link]?.mtu = mtu
    return applications(of: link).map { .change($0, link, mtu: mtu) }
  }

  /// Handles the end of a link. The driver reports the end of a connection separately, with the reason: `ended`.
  private mutating func down(_ link: LinkID) -> [Action] {
    let users = links.removeValue(forKey: link)?.users ?? []
    return users.filter { if case .application = $0 { true } else { false } }.map { .close($0, link) }
  }

  mutating func use(_ link: LinkID, by application: ApplicationID) -> [Action] {
    guard let entry = links[link], !entry.isEnding, !entry.isUsed(by: application) else { return [] }
    links[link]?.users.append(.application(application))
    links[link]?.condition = .used
    return [.open(application, link, entry.address, since: entry.since, mtu: entry.mtu)]
  }

  /// Handles a service's release of a link. The last user ends the link, and is notified when it has ended.
  private mutating func release(_ link: LinkID, by user: User) -> [Action] {
    guard let entry = links[link], !entry.isEnding, entry.users.contains(user) else { return [] }
    guard entry.users.count > 1 else { return end(link) }
    remove(user, from: link)
    return [.close(user, link)]
  }

  /// Removes an application from all links. A closed application is not notified.
  mutating func close(_ application: ApplicationID) -> [Action] {
    owners[application] = nil
    return sortedLinks.flatMap { link -> [Action] in
      guard let entry = links[link], entry.isUsed(by: application) else { return [] }
      links[link]?.users.removeAll { $0 == .application(application) }
      return entry.users.count == 1 && !entry.isEnding ? end(link) : []
    }
  }

  mutating func giveUp(_ link: LinkID, by tenant: TenantID) -> [Action] {
    asked[tenant] = asked[tenant].flatMap { $0 > 1 ? $0 - 1 : nil }
    guard let entry = links[link], entry.condition == .used else { return [] }
    let given = entry.users.filter { owner(of: $0) == tenant }
    guard !given.isEmpty else { return [] }
    counters.yieldedLinks += 1
    for user in given { remove(user, from: link) }
    let isLast = given.count == entry.users.count
    return given.map { .close($0, link) } + (isLast ? end(link) : [])
  }

  /// Ends links that were unused for too long, checks spared links again, and repeats requests to end links that had no
  /// effect.
  private mutating func cutLate(at now: Instant) -> [Action] {
    let late = unusedLinks.filter { unusedSince($0).map { $0.advanced(by: limits.unusedTime) <= now } ?? false }
    let actions = late.map { cutUnused($0) }
    let spared = sortedLinks.filter { link in
      guard case .spared(let since)? = links[link]?.condition else { return false }
      return since.advanced(by: limits.sparedTime) <= now
    }
    for link in spared { links[link]?.condition = .spared(since: now) }
    return actions + spared.map { .cutUnused($0) } + cutAgain(at: now)
  }

  /// Repeats requests to end links that are still up, because the driver may have refused them.
  private mutating func cutAgain(at now: Instant) -> [Action] {
    sortedLinks.compactMap { link in
      guard case .ending(let since, let asUnused)? = links[link]?.condition, since.advanced(by: limits.cutTime) <= now
      else { return nil }
      links[link]?.condition = .ending(since: now, asUnused: asUnused)
      return asUnused ? .cutUnused(link) : .cut(link)
    }
  }

  mutating func cutUnused(_ link: LinkID) -> Action {
    counters.unusedLinks += 1
    links[link]?.condition = .ending(since: latest, asUnused: true)
    return .cutUnused(link)
  }

  /// Removes a user from a link. A connection that has released its link is removed, although the link may continue for
  /// others.
  private mutating func remove(_ user: User, from link: LinkID) {
    links[link]?.users.removeAll { $0 == user }
    guard case .connection(let id) = user else { return }
    connections[id] = nil
    if current == id { current = nil }
  }

  private mutating func end(_ link: LinkID) -> [Action] {
    links[link]?.condition = .ending(since: latest, asUnused: false)
    return [.cut(link)]
  }

  // MARK: Queries

  /// Links that no service uses and that are not being ended, the one unused longest first.
  var unusedLinks: [LinkID] {
    links.compactMap { link, _ in unusedSince(link).map { (link, $0) } }
      .sorted { ($0.1, $0.0.number) < ($1.1, $1.0.number) }.map(\.0)
  }

  private func unusedSince(_ link: LinkID) -> Instant? {
    if case .unused(let since)? = links[link]?.condition { since } else { nil }
  }

  func isUsed(_ link: LinkID, by tenant: TenantID) -> Bool {
    links[link]?.users.contains { owner(of: $0) == tenant } ?? false
  }

  private func owner(of user: User) -> TenantID? {
    switch user {
    case .application(let application): owners[application]
    case .connection(let connection): connections[connection]?.tenant
    }
  }

  private var sortedLinks: [LinkID] { links.keys.sorted { $0.number < $1.number } }

  private func applications(of link: LinkID) -> [ApplicationID] {
    (links[link]?.users ?? []).compactMap { if case .application(let id) = $0 { id } else { nil } }
  }

  // MARK: Budget

  // The budget of links. The minimum links of every active service are kept free: services above their minimum release
  // links, and links without users are ended.

  /// Frees links until every active service can have its minimum: ends unused links first, then asks services that have
  /// more than their minimum to release some.
  private mutating func balance(at now: Instant) -> [Action] {
    var actions: [Action] = []
    while shortage(at: now) > 0 {
      if let link = unusedLinks.first, !isArriving(link, at: now) {
        actions.append(cutUnused(link))
      } else if let (tenant, links) = yielder {
        asked[tenant, default: 0] += 1
        actions.append(.ask(tenant, links))
      } else {
        break
      }
    }
    return actions
  }

  /// Number of links that must become free so that the services can reach their minimum numbers of links. A new link
  /// may be one that a service expects, and counts as such for `LinkLimits.arrivalTime`.
  func shortage(at now: Instant) -> Int {
    let reserve = reserve
    return reserve - free - min(arrivals(at: now), reserve)
  }

  /// Whether the absence of a shortage depends on new links that may turn out to belong to no service.
  private func dependsOnArrivals(at now: Instant) -> Bool { arrivals(at: now) > 0 && reserve - free > 0 }

  /// Whether a service may begin a connection attempt now.
  func hasRoom(for tenant: TenantID, at now: Instant) -> Bool {
    guard free > 0 else { return false }
    let isNeeded = held(by: tenant) < needs(of: tenant)
    let reserve = reserve - (isNeeded ? 1 : 0)
    return free - 1 >= reserve - min(arrivals(at: now), reserve)
  }

  /// Number of links that are free, or about to become free.
  var free: Int {
    let taken = links.values.count { !$0.isEnding }
    return limits.links - taken - (isTrying ? 1 : 0) + asked.values.reduce(0, +)
  }

  /// Number of links that must stay free for services that have not reached their minimum numbers of links.
  var reserve: Int {
    shares.reduce(0) { $0 + min($1.value.spare, max(0, needs(of: $1.key) - held(by: $1.key))) }
  }

  /// The minimum links of a service: 0 while it neither serves nor connects.
  func needs(of tenant: TenantID) -> Int {
    let isAtWork = owners.values.contains(tenant) || connections.values.contains { $0.tenant == tenant }
    return isAtWork ? shares[tenant]?.needs ?? 0 : 0
  }

  /// Number of links that a service uses, including its attempt under way.
  func held(by tenant: TenantID) -> Int {
    let used = links.values.count { entry in
      entry.condition == .used && entry.users.contains { owner(of: $0) == tenant }
    }
    let isTrying = isTrying && current.flatMap { connections[$0]?.tenant } == tenant
    return used + (isTrying ? 1 : 0)
  }

  /// The service that is to release the next link, with the links that no other service uses; nil if none can.
  private var yielder: (TenantID, [LinkID])? {
    let candidates = shares.compactMap { tenant, share -> (tenant: TenantID, surplus: Int, links: [LinkID])? in
      let surplus = held(by: tenant) - needs(of: tenant) - (asked[tenant] ?? 0)
      let own = links.filter { _, entry in
        entry.condition == .used && entry.users.allSatisfy { owner(of: $0) == tenant }
      }
      guard surplus > 0, own.count > asked[tenant] ?? 0 else { return nil }
      return (tenant, surplus, own.keys.sorted { $0.number < $1.number })
    }
    let first = candidates.min {
      (priority(of: $0.tenant), -$0.surplus, $0.tenant) < (priority(of: $1.tenant), -$1.surplus, $1.tenant)
    }
    return first.map { ($0.tenant, $0.links) }
  }

  func priority(of tenant: TenantID) -> Int { shares[tenant]?.priority ?? 0 }

  private func arrivals(at now: Instant) -> Int { links.keys.count { isArriving($0, at: now) } }

  private func isArriving(_ link: LinkID, at now: Instant) -> Bool {
    unusedSince(link).map { now < $0.advanced(by: limits.arrivalTime) } ?? false
  }

  /// Whether an attempt is under way whose link is not up yet.
  private var isTrying: Bool {
    guard let current else { return false }
    return !links.values.contains { $0.users.contains(.connection(current)) }
  }

  // MARK: Connecting

  // Outgoing connections: one attempt at a time, with pauses, in the order of the services' priorities.

  struct Connection: Sendable {
    enum State: Hashable, Sendable {
      case waiting(since: Instant)
      case trying
      /// The attempt is cancelled for one of higher priority.
      case yielding
      case linked(LinkID)
    }

    let tenant: TenantID
    let address: BluetoothAddress
    var state: State
  }

  mutating func connect(
    _ id: ConnectionID, _ tenant: TenantID, _ address: BluetoothAddress, at now: Instant
  ) -> [Action] {
    let wanted = connections.values.count { connection in
      if case .waiting = connection.state { connection.tenant == tenant } else { false }
    }
    let isLinked = links.values.contains { $0.address == address && !$0.isEnding }
    if held(by: tenant) + wanted >= shares[tenant]?.may ?? 0, !isLinked {
      return [refuse(id, "This service has reached its limit of links.")]
    }
    connections[id] = Connection(tenant: tenant, address: address, state: .waiting(since: now))
    if isLinked {
      // The attempt uses an existing link.
      connections[id]?.state = .trying
      return [.attempt(id, address)]
    }
    let isNeeded = held(by: tenant) + wanted < needs(of: tenant)
    guard queue.count < limits.queueLength, isNeeded || hasRoom(for: tenant, at: now) else {
      connections[id] = nil
      return [refuse(id, "The radio has no free link.")]
    }
    queue.append(id)
    return []
  }

  /// Whether an attempt has succeeded and still holds its link.
  func isLinked(_ id: ConnectionID) -> Bool {
    if case .linked(let link)? = connections[id]?.state { links[link] != nil } else { false }
  }

  mutating func connected(_ id: ConnectionID, _ link: LinkID) {
    guard connections[id] != nil else { return }
    connections[id]?.state = .linked(link)
    if current == id { current = nil }
    guard let entry = links[link], !entry.isEnding else { return }
    if !entry.users.contains(.connection(id)) { links[link]?.users.append(.connection(id)) }
    links[link]?.condition = .used
  }

  mutating func ended(_ id: ConnectionID, at now: Instant) {
    queue.removeAll { $0 == id }
    if current == id { current = nil }
    connections[id] = nil
    for (link, entry) in links where entry.users.contains(.connection(id)) {
      links[link]?.users.removeAll { $0 == .connection(id) }
      if entry.users.count == 1, entry.condition == .used { links[link]?.condition = .unused(since: now) }
    }
  }

  /// Begins the next attempt, and refuses those that have waited too long.
  private mutating func beginAttempts(at now: Instant) -> [Action] {
    let late = queue.filter { waitingSince($0).map { $0.advanced(by: limits.queueTime) <= now } ?? true }
    queue.removeAll { late.contains($0) }
    var actions = late.map { id in
      connections[id] = nil
      return refuse(id, "No link became free within \(limits.queueTime.components.seconds) s.")
    }
    guard let next = nextInQueue(at: now) else { return actions }
    if let current {
      if rank(of: next) > rank(of: current), connections[current]?.state == .trying {
        connections[current]?.state = .yielding
        actions.append(.giveUp(current, reason: "Another service preempted the connection attempt."))
      }
    } else if now >= nextAttempt, let address = connections[next]?.address {
      queue.removeAll { $0 == next }
      connections[next]?.state = .trying
      current = next
      nextAttempt = now.advanced(by: limits.attemptPause)
      actions.append(.attempt(next, address))
    }
    return actions
  }

  /// When an attempt may begin, or has waited too long; nil if none waits.
  private var attemptDeadline: Instant? {
    let ends = queue.compactMap { waitingSince($0)?.advanced(by: limits.queueTime) }
    guard current == nil, nextAttempt > latest, nextInQueue(at: nextAttempt) != nil else { return ends.min() }
    return ends.min().map { min($0, nextAttempt) } ?? nextAttempt
  }

  /// The first waiting attempt of the highest priority for which a link is free.
  private func nextInQueue(at now: Instant) -> ConnectionID? {
    queue.enumerated().filter { _, id in
      connections[id].map { hasPlace(for: $0.tenant, at: now) } ?? false
    }.min { (-rank(of: $0.element), $0.offset) < (-rank(of: $1.element), $1.offset) }?.element
  }

  /// Whether a link is free for an attempt. The link of the attempt under way counts as free, because the new attempt
  /// replaces it.
  private func hasPlace(for tenant: TenantID, at now: Instant) -> Bool {
    guard current == nil else {
      var plan = self
      plan.current = nil
      return plan.hasRoom(for: tenant, at: now)
    }
    return hasRoom(for: tenant, at: now)
  }

  private func rank(of id: ConnectionID) -> Int { connections[id].map { priority(of: $0.tenant) } ?? .min }

  private func waitingSince(_ id: ConnectionID) -> Instant? {
    if case .waiting(let since)? = connections[id]?.state { since } else { nil }
  }

  private mutating func refuse(_ id: ConnectionID, _ reason: String) -> Action {
    counters.refusedAttempts += 1
    return .refuse(id, reason: reason)
  }
}

/// The limits of a radio's links.
public struct LinkLimits: Hashable, Sendable {
  /// Maximum links of the adapter, in either role.
  public var links = 8
  /// Maximum time in which a connected peer uses no application before its link is ended.
  public var unusedTime = Duration.seconds(10)
  /// Time after which a spared link is checked again: the other program that it may have belonged to may be gone.
  public var sparedTime = Duration.seconds(60)
  /// Time after which an unsuccessful request to end a link is repeated. bluetoothd takes two seconds.
  public var cutTime = Duration.seconds(10)
  /// Maximum links without users. Beyond it the oldest one is ended at once if it is older than `arrivalTime`,
  /// otherwise the new one.
  public var unusedLinks = 4
  /// Time in which a new unused link counts as one that a service expects.
  public var arrivalTime = Duration.seconds(4)
  /// Minimum time between the starts of two outgoing attempts.
  public var attemptPause = Duration.milliseconds(500)
  /// Maximum waiting time of an attempt.
  public var queueTime = Duration.seconds(30)
  /// Maximum waiting attempts of all services.
  public var queueLength = 64

  public init() {}
}
