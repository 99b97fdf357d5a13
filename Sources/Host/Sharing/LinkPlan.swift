import Common
import Radio

/// Decides about the links of one adapter: which service uses which link, which link is cut, which attempt to connect
/// begins. A value: events and time in, actions out.
///
/// A link belongs to its users: the applications that its peer has written to, read or subscribed to, and the connection
/// that made it. A link without users is cut after `LinkLimits.unusedTime`, if the peer made it.
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
    /// The peer of a link wrote to, read or subscribed to something of an application.
    case used(LinkID, ApplicationID)
    /// A service is done with a link.
    case released(LinkID, User)
    /// The service chose this link to give up, as it was asked to.
    case givenUp(LinkID, TenantID)
    /// A link that was to be cut because no service uses it is not the radio's to cut: another program may use it.
    case spared(LinkID)
    /// A link that no service uses is being cut.
    case cutting(LinkID)
    case applicationOpened(ApplicationID, TenantID)
    case applicationClosed(ApplicationID)
    /// A service wants to connect.
    case connect(ConnectionID, TenantID, BluetoothAddress)
    /// The attempt succeeded; `linkUp` came before.
    case connected(ConnectionID, LinkID)
    /// The attempt failed, was given up, or its link is gone.
    case ended(ConnectionID)
    /// `deadline` has come.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Tell an application of a link.
    case open(ApplicationID, LinkID, BluetoothAddress, since: Instant, mtu: Int?)
    case change(ApplicationID, LinkID, mtu: Int)
    case close(User, LinkID)
    case cut(LinkID)
    /// Cut a link that no service uses, if the peer made it: `cutting` follows, or `spared`.
    case cutUnused(LinkID)
    /// Begin to connect.
    case attempt(ConnectionID, BluetoothAddress)
    /// Give up an attempt that has begun; `ended` follows.
    case giveUp(ConnectionID, reason: String)
    /// An attempt does not begin. Nothing more comes for it.
    case refuse(ConnectionID, reason: String)
    /// Have a service choose one of these links and give it up: `givenUp`.
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

  /// How a link stands.
  enum Condition: Hashable, Sendable {
    /// Services use it.
    case used
    /// No service uses it, since then.
    case unused(since: Instant)
    /// No service uses it, and it was not the radio's to cut then.
    case spared(since: Instant)
    /// It is being cut, since then; as one that no service used, only if it is the radio's to cut.
    case ending(since: Instant, asUnused: Bool)
  }

  struct Counters: Hashable, Sendable {
    /// Links that were cut because their peers used no application in time, or there were too many of them.
    var unusedLinks: UInt64 = 0
    /// Links that a service gave up for another one.
    var yieldedLinks: UInt64 = 0
    /// Attempts to connect that did not begin.
    var refusedAttempts: UInt64 = 0
  }

  var limits: LinkLimits
  var counters = Counters()
  var links: [LinkID: Entry] = [:]
  var shares: [TenantID: LinkShare] = [:]
  var owners: [ApplicationID: TenantID] = [:]
  var connections: [ConnectionID: Connection] = [:]
  /// Attempts that wait, the oldest first.
  var queue: [ConnectionID] = []
  /// The attempt that is under way.
  var current: ConnectionID?
  var nextAttempt = Instant.zero
  /// Services that were asked to give a link up and have not yet.
  var asked: [TenantID: Int] = [:]

  /// When the last event was handled.
  var latest = Instant.zero

  init(limits: LinkLimits = LinkLimits()) {
    self.limits = limits
  }

  subscript(link: LinkID) -> Entry? { links[link] }

  /// When `Event.timer` is due; nil when nothing is timed.
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
