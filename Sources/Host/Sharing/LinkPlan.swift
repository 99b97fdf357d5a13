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

  /// A service's call of `connect`.
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
    /// The service has chosen this link to release, on request.
    case givenUp(LinkID, TenantID)
    /// An unused link may belong to another program, and was not ended.
    case spared(LinkID)
    /// An unused link is being ended.
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
    /// Notify an application of a link.
    case open(ApplicationID, LinkID, BluetoothAddress, since: Instant, mtu: Int?)
    case change(ApplicationID, LinkID, mtu: Int)
    case close(User, LinkID)
    case cut(LinkID)
    /// End an unused link if the peer made it: `cutting` or `spared` follows.
    case cutUnused(LinkID)
    /// Begin to connect.
    case attempt(ConnectionID, BluetoothAddress)
    /// Cancel an attempt that has begun; `ended` follows.
    case giveUp(ConnectionID, reason: String)
    /// Refuse an attempt that has not begun. No further events follow for it.
    case refuse(ConnectionID, reason: String)
    /// Ask a service to choose and release one of these links: `givenUp`.
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
    /// Services use it.
    case used
    /// No service has used it since then.
    case unused(since: Instant)
    /// No service uses it, and it was not ended then because it may belong to another program.
    case spared(since: Instant)
    /// The link is being ended since then; `asUnused`: only if the peer made it.
    case ending(since: Instant, asUnused: Bool)
  }

  struct Counters: Hashable, Sendable {
    /// Links that were ended because they were unused for too long, or exceeded the limit of unused links.
    var unusedLinks: UInt64 = 0
    /// Links that a service released for another one.
    var yieldedLinks: UInt64 = 0
    /// Attempts to connect that were refused before they began.
    var refusedAttempts: UInt64 = 0
  }

  var limits: LinkLimits
  var counters = Counters()
  var links: [LinkID: Entry] = [:]
  var shares: [TenantID: LinkShare] = [:]
  var owners: [ApplicationID: TenantID] = [:]
  var connections: [ConnectionID: Connection] = [:]
  /// Waiting attempts, the oldest first.
  var queue: [ConnectionID] = []
  /// The attempt that is under way.
  var current: ConnectionID?
  var nextAttempt = Instant.zero
  /// Number of requested releases that each service has not performed yet.
  var asked: [TenantID: Int] = [:]

  /// When the last event was handled.
  var latest = Instant.zero

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
}
