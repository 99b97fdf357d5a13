import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("Random requests for links")
struct LinkPlanRandomTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "In 25,000 random requests a wallet always gets a link, and the plan agrees with the existing links",
    arguments: [1, 2, 3, 4] as [UInt64])
  @LoopActor
  func world(seed: UInt64) async {
    let world = World(seed: seed)
    world.run(requests: 25_000)
    #expect(world.violations == [])
    #expect(world.visitorsServed > 500, "seed \(seed): \(world.visitorsServed) visitors")
    #expect(world.plan.counters.yieldedLinks > 100, "seed \(seed): \(world.plan.counters.yieldedLinks) links given up")
    #expect(world.plan.counters.unusedLinks > 100)
    #expect(world.spared > 10, "seed \(seed): \(world.spared) spared")
  }
}

/// A controller with eight links, peers that come and go, services that connect, and the plan that shares the links.
@LoopActor
private final class World {
  static let kiosk = LinkPlan.TenantID(number: 1)
  static let chat = LinkPlan.TenantID(number: 2)
  static let wallet = LinkPlan.TenantID(number: 3)
  static let kioskServer = ApplicationID(10)
  static let chatServer = ApplicationID(20)
  static let places = 8
  /// Maximum time that a client waits for a link: the arrival time of an earlier stranger, and the disconnection.
  static let longestWait = Duration.seconds(5)

  var plan: LinkPlan
  private(set) var violations: [String] = []
  private(set) var visitorsServed = 0
  private(set) var spared = 0
  private let time = VirtualTime()
  private var dice: Dice
  /// The links of the controller.
  private var links: [LinkID: Users] = [:]
  private var lastLink: UInt64 = 0
  private var lastConnection = 0
  /// Attempts that the plan has begun.
  private var trying: [LinkPlan.ConnectionID: BluetoothAddress] = [:]
  /// Connections with a link whose end was not reported yet.
  private var linked: [LinkPlan.ConnectionID: LinkID] = [:]
  /// A link that another program may have made, which the plan must tolerate while it exists.
  private var foreign: LinkID?
  private var visitorSince: Instant?
  private lazy var timer = Deadline(time) { [weak self] in self?.tell(.timer) }

  private struct Users {
    var applications: Set<ApplicationID> = []
    var isEnding = false
  }

  init(seed: UInt64) {
    dice = Dice(seed)
    var limits = LinkLimits()
    limits.links = Self.places
    plan = LinkPlan(limits: limits)
    plan.shares = [
      Self.kiosk: LinkShare(needs: 1, may: 4, priority: 10), Self.chat: LinkShare(needs: 0, may: 8, priority: 1),
      Self.wallet: LinkShare(needs: 1, may: 2, priority: 5),
    ]
    tell(.applicationOpened(Self.kioskServer, Self.kiosk))
    tell(.applicationOpened(Self.chatServer, Self.chat))
  }

  func run(requests: Int) {
    for _ in 0..<requests {
      _ = time.run(until: { false }, limit: .milliseconds(dice.below(300)))
      request()
      checkVisitor()
    }
  }

  private func request() {
    switch dice.below(10) {
    case 0, 1: if !arrive(as: Self.chatServer, after: dice.below(3000)) { break }
    case 2: _ = arrive(as: nil, after: 0)
    case 3: if visitorSince == nil, plan.held(by: Self.kiosk) == 0 { visitorSince = time.now }
    case 4: leave()
    case 5: release()
    case 6, 7: connect(dice.below(3) == 0 ? Self.wallet : Self.chat)
    case 8:
      // A peer may also use the application of another service on the same link.
      if let link = someLink { use(link, Self.chatServer) }
    default: tell(.linkChanged(someLink ?? LinkID(0), mtu: 23 + dice.below(500)))
    }
  }

  // MARK: Peers

  /// Connects a peer if the controller has a free link; it uses an application some milliseconds later, or never.
  private func arrive(as application: ApplicationID?, after delay: Int) -> Bool {
    guard links.count + trying.count < Self.places else { return false }
    // A waiting client is served before other peers.
    guard visitorSince == nil || application == Self.kioskServer else { return false }
    let link = makeLink(BluetoothAddress(0xC000_0000_0000 | UInt64(dice.below(100_000))))
    guard let application else { return true }
    after(delay) { self.use(link, application) }
    return true
  }

  private func makeLink(_ address: BluetoothAddress) -> LinkID {
    lastLink += 1
    let link = LinkID(lastLink)
    links[link] = Users()
    tell(.linkUp(DriverLink(id: link, address: address, since: time.now)))
    return link
  }

  private func use(_ link: LinkID, _ application: ApplicationID) {
    guard links[link] != nil else { return }
    tell(.used(link, application))
    if application == Self.kioskServer, links[link]?.applications.contains(application) == true {
      visitorsServed += 1
      after(2000) { self.tell(.released(link, .application(application))) }
    }
  }

  private func leave() {
    guard let link = someLink else { return }
    links[link] = nil
    tellEnd(of: link)
  }

  /// Reports the end of a link, and then the end of its connections.
  private func tellEnd(of link: LinkID) {
    tell(.linkDown(link))
    for (id, own) in linked.sorted(by: { $0.key.number < $1.key.number }) where own == link {
      linked[id] = nil
      tell(.ended(id))
    }
  }

  private func release() {
    guard let link = someLink, let application = links[link]?.applications.first else { return }
    tell(.released(link, .application(application)))
  }

  /// Lets a refused client retry, and checks that it gets a link within `longestWait`.
  private func checkVisitor() {
    guard let since = visitorSince else { return }
    if arrive(as: Self.kioskServer, after: 200) {
      visitorSince = nil
    } else if since.duration(to: time.now) > Self.longestWait {
      violations.append("a visitor waits since \(since): \(links.count) links, \(trying.count) attempts")
      visitorSince = nil
    }
  }

  private var someLink: LinkID? {
    let known = links.keys.sorted { $0.number < $1.number }
    return known.isEmpty ? nil : known[dice.below(known.count)]
  }

  // MARK: Attempts

  private func connect(_ tenant: LinkPlan.TenantID) {
    lastConnection += 1
    let id = LinkPlan.ConnectionID(number: lastConnection)
    // Never a linked peer: a second connection to a peer would not wait for its turn.
    tell(.connect(id, tenant, BluetoothAddress(0xD000_0000_0000 | UInt64(lastConnection))))
  }

  private func attempt(_ id: LinkPlan.ConnectionID, _ address: BluetoothAddress) {
    trying[id] = address
    if trying.count > 1 { violations.append("two attempts at one time") }
    after(dice.below(1500)) {
      guard self.trying.removeValue(forKey: id) != nil else { return }
      guard self.dice.below(3) > 0, self.links.count < Self.places else { return self.tell(.ended(id)) }
      // The service may have to give up the link as soon as it exists.
      self.linked[id] = LinkID(self.lastLink + 1)
      let link = self.makeLink(address)
      self.tell(.connected(id, link))
      self.after(self.dice.below(8000)) {
        if self.linked[id] != nil { self.tell(.released(link, .connection(id))) }
      }
    }
  }

  // MARK: The plan

  private func tell(_ event: LinkPlan.Event) {
    for action in plan.handle(event, at: time.now) { perform(action) }
    timer.set(plan.deadline)
  }

  private func perform(_ action: LinkPlan.Action) {
    switch action {
    case .open(let application, let link, _, _, _):
      if links[link]?.applications.insert(application).inserted != true { violations.append("\(link) opened twice") }
    case .change(let application, let link, _):
      if links[link]?.applications.contains(application) != true { violations.append("\(link) is told to a stranger") }
    case .close(.application(let application), let link):
      // The link may have ended before the delayed use.
      if let users = links[link], !users.applications.contains(application) {
        violations.append("\(link) closed for a stranger")
      }
      links[link]?.applications.remove(application)
    case .close(.connection(let id), let link):
      if linked.removeValue(forKey: id) != link { violations.append("\(id) hears twice of its end, or of another's") }
    case .cut(let link): cut(link)
    case .cutUnused(let link): cutUnused(link)
    case .attempt(let id, let address): attempt(id, address)
    case .giveUp(let id, _):
      after(10) {
        if self.trying.removeValue(forKey: id) != nil { self.tell(.ended(id)) }
      }
    case .refuse(let id, _): if trying[id] != nil { violations.append("an attempt is refused that has begun") }
    case .ask(let tenant, let offered):
      let choice = offered[dice.below(offered.count)]
      if links[choice] == nil { violations.append("\(choice) is offered and gone") }
      tell(.givenUp(choice, tenant))
    }
  }

  /// Closes an unused link; some links are spared for a minute, as links that may belong to another program.
  private func cutUnused(_ link: LinkID) {
    if foreign.map({ links[$0] == nil }) ?? true, links[link] != nil, dice.below(3) == 0 {
      foreign = link
      spared += 1
      tell(.spared(link))
    } else {
      foreign = foreign == link ? nil : foreign
      tell(.cutting(link))
      cut(link)
    }
  }

  /// Closes a link after a random delay.
  private func cut(_ link: LinkID) {
    guard links[link]?.isEnding == false else { return violations.append("\(link) is cut and not there, or cut twice") }
    links[link]?.isEnding = true
    after(dice.below(500)) {
      guard self.links.removeValue(forKey: link) != nil else { return }
      self.tellEnd(of: link)
    }
  }

  private func after(_ milliseconds: Int, _ body: @escaping @LoopActor () -> Void) {
    let keeper = Keeper()
    keeper.registration = time.schedule(after: .milliseconds(milliseconds)) {
      keeper.registration = nil
      body()
    }
  }

  /// Retains a timer registration until the timer has fired.
  private final class Keeper {
    var registration: Registration?
  }
}
