import Common
import Radio
import Testing

@testable import Sharing

@Suite("The link plan")
struct LinkPlanTests {
  static let kiosk = LinkPlan.TenantID(number: 1)
  static let chat = LinkPlan.TenantID(number: 2)
  static let kioskServer = ApplicationID(10)
  static let chatServer = ApplicationID(20)

  static func at(_ milliseconds: Int) -> Instant { Instant.zero.advanced(by: .milliseconds(milliseconds)) }

  static func link(_ number: UInt64) -> LinkID { LinkID(number) }

  static func address(_ number: UInt64) -> BluetoothAddress { BluetoothAddress(0xC000_0000_0000 | number) }

  static func up(_ number: UInt64, at milliseconds: Int = 0) -> LinkPlan.Event {
    .linkUp(DriverLink(id: link(number), address: address(number), since: at(milliseconds)))
  }

  /// A plan with a kiosk, which needs a link, and a chat, which uses the remaining links.
  static func plan(links: Int = 8) -> LinkPlan {
    var limits = LinkLimits()
    limits.links = links
    var plan = LinkPlan(limits: limits)
    plan.shares = [
      kiosk: LinkShare(needs: 1, may: 4, priority: 10), chat: LinkShare(needs: 0, may: 8, priority: 1),
    ]
    _ = plan.handle(.applicationOpened(kioskServer, kiosk), at: .zero)
    _ = plan.handle(.applicationOpened(chatServer, chat), at: .zero)
    return plan
  }

  // MARK: Users

  @Test("An application is notified of a link at the link's first use, with the time when it came up")
  func introduction() {
    var plan = Self.plan()
    #expect(plan.handle(Self.up(1), at: .zero) == [])
    #expect(plan.handle(.linkChanged(Self.link(1), mtu: 185), at: Self.at(1)) == [])
    #expect(
      plan.handle(.used(Self.link(1), Self.chatServer), at: Self.at(5000))
        == [.open(Self.chatServer, Self.link(1), Self.address(1), since: .zero, mtu: 185)])
    #expect(plan.handle(.used(Self.link(1), Self.chatServer), at: Self.at(5001)) == [])
    #expect(
      plan.handle(.linkChanged(Self.link(1), mtu: 517), at: Self.at(6000))
        == [.change(Self.chatServer, Self.link(1), mtu: 517)])
    #expect(plan.handle(.linkChanged(Self.link(1), mtu: 517), at: Self.at(6001)) == [])
    #expect(
      plan.handle(.linkDown(Self.link(1)), at: Self.at(7000)) == [.close(.application(Self.chatServer), Self.link(1))])
  }

  @Test("When two services use a link, the first that releases it is notified of its end, and the second cuts it")
  func lastUser() {
    var plan = Self.plan()
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.chatServer), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.kioskServer), at: .zero)
    #expect(
      plan.handle(.released(Self.link(1), .application(Self.kioskServer)), at: .zero)
        == [.close(.application(Self.kioskServer), Self.link(1))])
    #expect(plan.handle(.released(Self.link(1), .application(Self.kioskServer)), at: .zero) == [])
    #expect(
      plan.handle(.released(Self.link(1), .application(Self.chatServer)), at: .zero) == [.cut(Self.link(1))])
    // The link gets no new user, and its end is reported to the service that closed it.
    #expect(plan.handle(.used(Self.link(1), Self.kioskServer), at: .zero) == [])
    #expect(
      plan.handle(.linkDown(Self.link(1)), at: .zero) == [.close(.application(Self.chatServer), Self.link(1))])
  }

  @Test("A closing application cuts the links that no other application uses")
  func closing() {
    var plan = Self.plan()
    for number in 1...2 as ClosedRange<UInt64> {
      _ = plan.handle(Self.up(number), at: .zero)
      _ = plan.handle(.used(Self.link(number), Self.chatServer), at: .zero)
    }
    _ = plan.handle(.used(Self.link(2), Self.kioskServer), at: .zero)
    #expect(plan.handle(.applicationClosed(Self.chatServer), at: .zero) == [.cut(Self.link(1))])
    #expect(plan.handle(.linkDown(Self.link(1)), at: .zero) == [])
    #expect(
      plan.handle(.linkDown(Self.link(2)), at: .zero) == [.close(.application(Self.kioskServer), Self.link(2))])
  }

  // MARK: Links without users

  @Test("A link that no service uses is cut after 10 s, or checked again after 60 s if another program may use it")
  func unused() {
    var plan = Self.plan()
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(Self.up(2, at: 1000), at: Self.at(1000))
    #expect(plan.deadline == Self.at(10_000))
    #expect(plan.handle(.timer, at: Self.at(9999)) == [])
    #expect(plan.handle(.timer, at: Self.at(10_000)) == [.cutUnused(Self.link(1))])
    #expect(plan.handle(.linkDown(Self.link(1)), at: Self.at(10_500)) == [])
    #expect(plan.deadline == Self.at(11_000))
    #expect(plan.handle(.timer, at: Self.at(11_000)) == [.cutUnused(Self.link(2))])
    #expect(plan.handle(.spared(Self.link(2)), at: Self.at(11_000)) == [])
    #expect(plan.deadline == Self.at(71_000))
    // The other program may have exited by then.
    #expect(plan.handle(.timer, at: Self.at(70_999)) == [])
    #expect(plan.handle(.timer, at: Self.at(71_000)) == [.cutUnused(Self.link(2))])
    #expect(plan.handle(.spared(Self.link(2)), at: Self.at(71_000)) == [])
    #expect(plan.deadline == Self.at(131_000))
    #expect(plan.counters.unusedLinks == 2)
    var other = plan
    _ = other.handle(.cutting(Self.link(2)), at: Self.at(71_500))
    #expect(other.handle(.used(Self.link(2), Self.chatServer), at: Self.at(71_600)) == [], "it is being cut")
    // A spared peer may still turn out to be a client.
    #expect(plan.handle(.used(Self.link(2), Self.chatServer), at: Self.at(72_000)).count == 1)
    #expect(plan.deadline == nil)
  }

  @Test("A link that does not end when it is cut is cut again every 10 s")
  func cutAgain() {
    var plan = Self.plan()
    for number in 1...2 as ClosedRange<UInt64> { _ = plan.handle(Self.up(number), at: .zero) }
    _ = plan.handle(.used(Self.link(2), Self.chatServer), at: Self.at(500))
    #expect(
      plan.handle(.released(Self.link(2), .application(Self.chatServer)), at: Self.at(1000)) == [.cut(Self.link(2))]
    )
    #expect(plan.handle(.timer, at: Self.at(10_000)) == [.cutUnused(Self.link(1))])
    #expect(plan.handle(.cutting(Self.link(1)), at: Self.at(10_000)) == [])
    #expect(plan.deadline == Self.at(11_000))
    #expect(plan.handle(.timer, at: Self.at(10_999)) == [])
    #expect(plan.handle(.timer, at: Self.at(11_000)) == [.cut(Self.link(2))])
    #expect(plan.deadline == Self.at(20_000))
    // A different program may serve something by now.
    #expect(plan.handle(.timer, at: Self.at(20_000)) == [.cutUnused(Self.link(1))])
    #expect(plan.handle(.linkDown(Self.link(1)), at: Self.at(20_500)) == [])
    #expect(plan.handle(.timer, at: Self.at(21_000)) == [.cut(Self.link(2))])
    #expect(plan.counters.unusedLinks == 1)
    _ = plan.handle(.linkDown(Self.link(2)), at: Self.at(22_000))
    #expect(plan.deadline == nil)
  }

  @Test("A link whose peer uses any application is not cut as unused")
  func tenancy() {
    var plan = Self.plan()
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.chatServer), at: Self.at(500))
    #expect(plan.deadline == nil)
    #expect(plan.handle(.timer, at: Self.at(600_000)) == [])
  }

  @Test("Above the limit of unused links the new one is cut, or the oldest if it is at least 4 s old")
  func bound() {
    var plan = Self.plan()
    for number in 1...4 as ClosedRange<UInt64> { #expect(plan.handle(Self.up(number), at: Self.at(Int(number))) == []) }
    #expect(plan.handle(Self.up(5), at: Self.at(4000)) == [.cutUnused(Self.link(5))])
    #expect(plan.handle(.linkDown(Self.link(5)), at: Self.at(4000)) == [])
    #expect(plan.handle(Self.up(6), at: Self.at(4001)) == [.cutUnused(Self.link(1))])
  }

  // MARK: The budget of links

  private static func full(_ plan: inout LinkPlan, chat count: UInt64) {
    for number in 1...count {
      _ = plan.handle(up(number), at: .zero)
      _ = plan.handle(.used(link(number), chatServer), at: .zero)
    }
  }

  @Test("A service that has all links is asked to give up one when another service needs a link")
  func askedToYield() {
    var plan = Self.plan(links: 3)
    _ = plan.handle(.applicationClosed(Self.kioskServer), at: .zero)
    Self.full(&plan, chat: 3)
    let asked = plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1))
    #expect(asked == [.ask(Self.chat, [1, 2, 3].map { Self.link($0) })])
    #expect(plan.handle(.timer, at: Self.at(2)) == [], "it is asked once")
    #expect(
      plan.handle(.givenUp(Self.link(2), Self.chat), at: Self.at(3))
        == [.close(.application(Self.chatServer), Self.link(2)), .cut(Self.link(2))])
    #expect(plan.counters.yieldedLinks == 1)
    #expect(plan.handle(.linkDown(Self.link(2)), at: Self.at(9)) == [])
    #expect(plan.free == 1)
  }

  @Test(
    "A new link may belong to the expected wallet, and is cut after 4 s if it does not")
  func arrival() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    #expect(plan.free == 1)
    #expect(plan.handle(Self.up(9), at: Self.at(100)) == [], "it may be the visitor")
    #expect(plan.deadline == Self.at(4100))
    #expect(plan.handle(.timer, at: Self.at(4100)) == [.cutUnused(Self.link(9))])
    #expect(plan.handle(.linkDown(Self.link(9)), at: Self.at(4200)) == [])
    #expect(plan.handle(Self.up(10), at: Self.at(5000)) == [])
    #expect(plan.handle(.used(Self.link(10), Self.kioskServer), at: Self.at(5100)).count == 1)
    #expect(plan.shortage(at: Self.at(60_000)) <= 0, "the visitor has what the service needs")
  }

  @Test("If several links are missing, a service is asked to release one, and no new link is cut")
  func arrivalsAreFewer() {
    var plan = Self.plan(links: 3)
    plan.shares[Self.kiosk]?.needs = 2
    _ = plan.handle(.applicationClosed(Self.kioskServer), at: .zero)
    Self.full(&plan, chat: 2)
    _ = plan.handle(Self.up(9), at: .zero)
    #expect(
      plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1))
        == [.ask(Self.chat, [Self.link(1), Self.link(2)])])
    #expect(plan.links[Self.link(9)]?.condition == .unused(since: .zero))
  }

  @Test("Of two new links only one counts as the expected client, so another service is asked to release a link")
  func arrivalsAreMore() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    #expect(plan.handle(Self.up(8), at: .zero) == [])
    #expect(plan.handle(Self.up(9), at: .zero) == [.ask(Self.chat, [Self.link(1), Self.link(2)])])
  }

  @Test("If an unused link may not be cut yet, a service is asked for one of its links instead")
  func sparedStranger() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    _ = plan.handle(Self.up(9), at: .zero)
    #expect(plan.handle(.timer, at: Self.at(4000)) == [.cutUnused(Self.link(9))])
    #expect(plan.handle(.spared(Self.link(9)), at: Self.at(4000)) == [.ask(Self.chat, [Self.link(1), Self.link(2)])])
  }

  @Test("For a service whose peers connect one after another one link stays free, up to the number that it needs")
  func spare() {
    var plan = Self.plan(links: 6)
    plan.shares[Self.kiosk] = LinkShare(needs: 3, spare: 1, may: 4, priority: 10)
    for number in 1...5 as ClosedRange<UInt64> {
      _ = plan.handle(Self.up(number), at: .zero)
      let actions = plan.handle(.used(Self.link(number), Self.chatServer), at: .zero)
      #expect(actions.count == 1, "nobody has to go: \(number)")
    }
    #expect(!plan.hasRoom(for: Self.chat, at: .zero))
    // The client gets the free link, and one more is freed for the next one, until the service has the links that it
    // needs.
    for number in 6...8 as ClosedRange<UInt64> {
      _ = plan.handle(Self.up(number), at: .zero)
      let actions = plan.handle(.used(Self.link(number), Self.kioskServer), at: .zero)
      let asked = actions.contains { if case .ask = $0 { true } else { false } }
      #expect(asked == (number < 8), "\(number)")
      if asked { _ = plan.handle(.givenUp(Self.link(number - 5), Self.chat), at: .zero) }
      _ = plan.handle(.linkDown(Self.link(number - 5)), at: .zero)
    }
  }

  static let mesh = LinkPlan.TenantID(number: 3)
  static let meshServer = ApplicationID(30)

  /// A plan with a third service, of medium priority, that also needs one link. These two are not running yet.
  private static func planOfThree(links: Int) -> LinkPlan {
    var plan = plan(links: links)
    plan.shares[mesh] = LinkShare(needs: 1, may: 8, priority: 5)
    _ = plan.handle(.applicationClosed(kioskServer), at: .zero)
    return plan
  }

  @Test("Of two services with more links than they need, the one with lower priority gives up a link")
  func lowestYields() {
    var plan = Self.planOfThree(links: 3)
    Self.full(&plan, chat: 3)
    for number in 2...3 as ClosedRange<UInt64> {
      _ = plan.handle(.used(Self.link(number), Self.meshServer), at: .zero)
      _ = plan.handle(.released(Self.link(number), .application(Self.chatServer)), at: .zero)
    }
    #expect(plan.handle(.applicationOpened(Self.meshServer, Self.mesh), at: .zero) == [])
    #expect(
      plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1)) == [.ask(Self.chat, [Self.link(1)])]
    )
  }

  @Test("A service is asked to give up only links that no other service uses")
  func sharedLinksStay() {
    var plan = Self.planOfThree(links: 2)
    Self.full(&plan, chat: 2)
    _ = plan.handle(.used(Self.link(1), Self.meshServer), at: .zero)
    #expect(plan.handle(.applicationOpened(Self.meshServer, Self.mesh), at: .zero) == [])
    #expect(
      plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1)) == [.ask(Self.chat, [Self.link(2)])]
    )
  }

  @Test("A service that has no more links than it needs gives up none")
  func needsStay() {
    var plan = Self.planOfThree(links: 1)
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.meshServer), at: .zero)
    #expect(plan.handle(.applicationOpened(Self.meshServer, Self.mesh), at: .zero) == [])
    #expect(plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1)) == [])
    #expect(plan.links[Self.link(1)]?.condition == .used)
  }

  // MARK: Connecting

  private static func connection(_ number: Int) -> LinkPlan.ConnectionID { LinkPlan.ConnectionID(number: number) }

  @Test("Connection attempts are made one at a time, 0.5 s apart, and those of higher priority first")
  func pacing() {
    var plan = Self.plan()
    #expect(
      plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero)
        == [.attempt(Self.connection(1), Self.address(1))])
    #expect(plan.handle(.connect(Self.connection(2), Self.chat, Self.address(2)), at: .zero) == [])
    _ = plan.handle(.ended(Self.connection(1)), at: Self.at(100))
    #expect(plan.deadline == Self.at(500))
    #expect(
      plan.handle(.timer, at: Self.at(500)) == [.attempt(Self.connection(2), Self.address(2))])
    // A connection of higher priority goes first.
    #expect(
      plan.handle(.connect(Self.connection(3), Self.kiosk, Self.address(3)), at: Self.at(600))
        == [.giveUp(Self.connection(2), reason: "Another service preempted the connection attempt.")])
    #expect(plan.handle(.timer, at: Self.at(700)) == [], "it is asked to give way once")
    _ = plan.handle(.ended(Self.connection(2)), at: Self.at(700))
    #expect(plan.handle(.timer, at: Self.at(1000)) == [.attempt(Self.connection(3), Self.address(3))])
    _ = plan.handle(Self.up(3), at: Self.at(1100))
    #expect(plan.handle(.connected(Self.connection(3), Self.link(3)), at: Self.at(1100)) == [])
    // The next attempt waits for the pause alone, not for the end of the new link.
    #expect(plan.handle(.connect(Self.connection(4), Self.chat, Self.address(4)), at: Self.at(1150)) == [])
    #expect(plan.deadline == Self.at(1500))
    #expect(plan.handle(.timer, at: Self.at(1500)) == [.attempt(Self.connection(4), Self.address(4))])
    #expect(
      plan.handle(.released(Self.link(3), .connection(Self.connection(3))), at: Self.at(1600)) == [.cut(Self.link(3))])
  }

  @Test("A service gets no more links than it is allowed, and no link that another service needs")
  func allowance() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    #expect(
      plan.handle(.connect(Self.connection(1), Self.chat, Self.address(70)), at: .zero)
        == [.refuse(Self.connection(1), reason: "The radio has no free link.")])
    plan.shares[Self.chat]?.may = 2
    #expect(
      plan.handle(.connect(Self.connection(2), Self.chat, Self.address(71)), at: .zero)
        == [.refuse(Self.connection(2), reason: "This service has reached its limit of links.")])
    #expect(plan.counters.refusedAttempts == 2)
    // A peer that is already linked needs no further link.
    #expect(
      plan.handle(.connect(Self.connection(3), Self.chat, Self.address(1)), at: .zero)
        == [.attempt(Self.connection(3), Self.address(1))])
    #expect(plan.handle(.connected(Self.connection(3), Self.link(1)), at: .zero) == [])
    #expect(
      plan.handle(.released(Self.link(1), .connection(Self.connection(3))), at: .zero)
        == [.close(.connection(Self.connection(3)), Self.link(1))], "its client goes on using the link")
    #expect(plan.connections.isEmpty, "and the connection that let it go is forgotten")
  }

  @Test("The waiting connection attempt with the highest priority is made next")
  func nextInQueue() {
    var plan = Self.plan()
    for (number, tenant) in [(1, Self.kiosk), (2, Self.chat), (3, Self.kiosk)] {
      _ = plan.handle(.connect(Self.connection(number), tenant, Self.address(UInt64(number))), at: .zero)
    }
    #expect(
      plan.handle(.ended(Self.connection(1)), at: Self.at(600)) == [.attempt(Self.connection(3), Self.address(3))])
    #expect(
      plan.handle(.ended(Self.connection(3)), at: Self.at(1200)) == [.attempt(Self.connection(2), Self.address(2))])
  }

  @Test("A connection attempt counts towards the maximum number of links")
  func placeOfAttempt() {
    var plan = Self.plan(links: 2)
    #expect(plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero).count == 1)
    #expect(plan.free == 1)
    #expect(
      plan.handle(.connect(Self.connection(2), Self.chat, Self.address(2)), at: .zero)
        == [.refuse(Self.connection(2), reason: "The radio has no free link.")], "a visitor needs the other place")
  }

  @Test("A link that is being cut does not count for its service, but counts towards the maximum number of links")
  func placeAfterCut() {
    var plan = Self.plan(links: 2)
    for (number, application) in [(1, Self.chatServer), (2, Self.kioskServer)] as [(UInt64, ApplicationID)] {
      _ = plan.handle(Self.up(number), at: .zero)
      _ = plan.handle(.used(Self.link(number), application), at: .zero)
    }
    #expect(
      plan.handle(.released(Self.link(2), .application(Self.kioskServer)), at: .zero) == [.cut(Self.link(2))])
    #expect(plan.reserve == 1)
    #expect(
      plan.handle(.connect(Self.connection(1), Self.chat, Self.address(70)), at: .zero)
        == [.refuse(Self.connection(1), reason: "The radio has no free link.")])
  }

  @Test("A link that a failed connection attempt leaves behind counts as unused, and is cut after 10 s")
  func leftBehind() {
    var plan = Self.plan()
    _ = plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero)
    _ = plan.handle(Self.up(1), at: .zero)
    #expect(plan.deadline == nil)
    #expect(plan.handle(.ended(Self.connection(1)), at: Self.at(100)) == [])
    #expect(plan.deadline == Self.at(10_100))
    #expect(plan.handle(.timer, at: Self.at(10_100)) == [.cutUnused(Self.link(1))])
  }

  @Test(
    "If the peer connects during an attempt and the service gives up that link, the next attempt begins")
  func givenUpAmidAttempt() {
    var plan = Self.plan()
    let (first, second) = (LinkPlan.ConnectionID(number: 1), LinkPlan.ConnectionID(number: 2))
    #expect(
      plan.handle(.connect(first, Self.chat, Self.address(1)), at: .zero) == [.attempt(first, Self.address(1))])
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.kioskServer), at: .zero)
    #expect(
      plan.handle(.givenUp(Self.link(1), Self.chat), at: Self.at(1))
        == [.close(.connection(first), Self.link(1))])
    #expect(plan.handle(.connected(first, Self.link(1)), at: Self.at(2)) == [])
    _ = plan.handle(.connect(second, Self.chat, Self.address(2)), at: Self.at(3))
    #expect(plan.handle(.timer, at: Self.at(1000)) == [.attempt(second, Self.address(2))])
  }

  @Test("Connection attempts beyond the limit of waiting attempts are refused at once")
  func queueLength() {
    var plan = Self.plan()
    plan.limits.queueLength = 2
    let outcomes = (1...4).map { number in
      plan.handle(.connect(Self.connection(number), Self.chat, Self.address(UInt64(number))), at: .zero)
    }
    #expect(outcomes[0].count == 1 && outcomes[1] == [] && outcomes[2] == [])
    #expect(outcomes[3] == [.refuse(Self.connection(4), reason: "The radio has no free link.")])
  }

  @Test("A connection attempt for which no link becomes free within 30 s is refused")
  func waiting() {
    var plan = Self.plan()
    _ = plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero)
    _ = plan.handle(.connect(Self.connection(2), Self.chat, Self.address(2)), at: .zero)
    #expect(plan.deadline == Self.at(30_000))
    #expect(
      plan.handle(.timer, at: Self.at(30_000))
        == [.refuse(Self.connection(2), reason: "No link became free within 30 s.")])
  }
}
