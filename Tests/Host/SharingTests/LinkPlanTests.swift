import Common
import Radio
import Testing

@testable import Sharing

@Suite("The plan of links")
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

  /// A plan with a service that needs a link, and one that takes what it gets.
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

  @Test("An application hears of a link when its peer first uses it, with the time at which the link came up")
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

  @Test("Of two users the one that lets go hears so, and the last one cuts the link")
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
    // It gets no new user, and its end is told to the one that cut it.
    #expect(plan.handle(.used(Self.link(1), Self.kioskServer), at: .zero) == [])
    #expect(
      plan.handle(.linkDown(Self.link(1)), at: .zero) == [.close(.application(Self.chatServer), Self.link(1))])
  }

  @Test("An application that closes cuts the links that it alone uses, and hears nothing more")
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

  @Test("A link that no service uses is cut after ten seconds; one that is another program's is spared for a minute")
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
    // The other program may be gone by then.
    #expect(plan.handle(.timer, at: Self.at(70_999)) == [])
    #expect(plan.handle(.timer, at: Self.at(71_000)) == [.cutUnused(Self.link(2))])
    #expect(plan.handle(.spared(Self.link(2)), at: Self.at(71_000)) == [])
    #expect(plan.deadline == Self.at(131_000))
    #expect(plan.counters.unusedLinks == 2)
    var other = plan
    _ = other.handle(.cutting(Self.link(2)), at: Self.at(71_500))
    #expect(other.handle(.used(Self.link(2), Self.chatServer), at: Self.at(71_600)) == [], "it is being cut")
    // Who is spared may turn out to be a client after all.
    #expect(plan.handle(.used(Self.link(2), Self.chatServer), at: Self.at(72_000)).count == 1)
    #expect(plan.deadline == nil)
  }

  @Test("A link that has not ended ten seconds after it was cut is cut again, whatever it was cut for, until it ends")
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
    // Another program may serve something by now.
    #expect(plan.handle(.timer, at: Self.at(20_000)) == [.cutUnused(Self.link(1))])
    #expect(plan.handle(.linkDown(Self.link(1)), at: Self.at(20_500)) == [])
    #expect(plan.handle(.timer, at: Self.at(21_000)) == [.cut(Self.link(2))])
    #expect(plan.counters.unusedLinks == 1)
    _ = plan.handle(.linkDown(Self.link(2)), at: Self.at(22_000))
    #expect(plan.deadline == nil)
  }

  @Test("A peer that writes to one application is nobody's silent visitor, however long it never writes to the other")
  func tenancy() {
    var plan = Self.plan()
    _ = plan.handle(Self.up(1), at: .zero)
    _ = plan.handle(.used(Self.link(1), Self.chatServer), at: Self.at(500))
    #expect(plan.deadline == nil)
    #expect(plan.handle(.timer, at: Self.at(600_000)) == [])
  }

  @Test("Of more links without users than are allowed the new one is cut, or the oldest once it has had its time")
  func bound() {
    var plan = Self.plan()
    for number in 1...4 as ClosedRange<UInt64> { #expect(plan.handle(Self.up(number), at: Self.at(Int(number))) == []) }
    #expect(plan.handle(Self.up(5), at: Self.at(4000)) == [.cutUnused(Self.link(5))])
    #expect(plan.handle(.linkDown(Self.link(5)), at: Self.at(4000)) == [])
    #expect(plan.handle(Self.up(6), at: Self.at(4001)) == [.cutUnused(Self.link(1))])
  }

  // MARK: Room

  private static func full(_ plan: inout LinkPlan, chat count: UInt64) {
    for number in 1...count {
      _ = plan.handle(up(number), at: .zero)
      _ = plan.handle(.used(link(number), chatServer), at: .zero)
    }
  }

  @Test("A service that has all links is asked for one as soon as another needs it")
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
    "Who has just connected passes for the visitor that a place is kept for, and is cut when it turns out a stranger")
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

  @Test("Where more than the newcomers' places lack, a service is asked for a link, and no newcomer is cut")
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

  @Test("Two newcomers pass for one visitor: beyond the limit a service is asked for a link all the same")
  func arrivalsAreMore() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    #expect(plan.handle(Self.up(8), at: .zero) == [])
    #expect(plan.handle(Self.up(9), at: .zero) == [.ask(Self.chat, [Self.link(1), Self.link(2)])])
  }

  @Test("A link that turns out not to be the radio's to cut makes a service give one up instead")
  func sparedStranger() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    _ = plan.handle(Self.up(9), at: .zero)
    #expect(plan.handle(.timer, at: Self.at(4000)) == [.cutUnused(Self.link(9))])
    #expect(plan.handle(.spared(Self.link(9)), at: Self.at(4000)) == [.ask(Self.chat, [Self.link(1), Self.link(2)])])
  }

  @Test("Of a service whose peers come one after the other, one place is kept free at a time, as far as it needs them")
  func spare() {
    var plan = Self.plan(links: 6)
    plan.shares[Self.kiosk] = LinkShare(needs: 3, spare: 1, may: 4, priority: 10)
    for number in 1...5 as ClosedRange<UInt64> {
      _ = plan.handle(Self.up(number), at: .zero)
      let actions = plan.handle(.used(Self.link(number), Self.chatServer), at: .zero)
      #expect(actions.count == 1, "nobody has to go: \(number)")
    }
    #expect(!plan.hasRoom(for: Self.chat, at: .zero))
    // The visitor takes the free place, and one more gets free for the next one, until the service has what it needs.
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

  /// A plan with a third service, of middling priority, that needs one link as well. These two are not at work yet.
  private static func planOfThree(links: Int) -> LinkPlan {
    var plan = plan(links: links)
    plan.shares[mesh] = LinkShare(needs: 1, may: 8, priority: 5)
    _ = plan.handle(.applicationClosed(kioskServer), at: .zero)
    return plan
  }

  @Test("Of two services with more than they need, the one of lower priority gives a link up")
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

  @Test("A service is asked for links that it alone uses")
  func sharedLinksStay() {
    var plan = Self.planOfThree(links: 2)
    Self.full(&plan, chat: 2)
    _ = plan.handle(.used(Self.link(1), Self.meshServer), at: .zero)
    #expect(plan.handle(.applicationOpened(Self.meshServer, Self.mesh), at: .zero) == [])
    #expect(
      plan.handle(.applicationOpened(Self.kioskServer, Self.kiosk), at: Self.at(1)) == [.ask(Self.chat, [Self.link(2)])]
    )
  }

  @Test("A service that has no more than it needs gives up nothing, whatever another one lacks")
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

  @Test("Attempts are made one at a time, half a second apart, the higher priority first")
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
    // One of higher priority takes its turn.
    #expect(
      plan.handle(.connect(Self.connection(3), Self.kiosk, Self.address(3)), at: Self.at(600))
        == [.giveUp(Self.connection(2), reason: "The attempt gave way to another service's.")])
    #expect(plan.handle(.timer, at: Self.at(700)) == [], "it is asked to give way once")
    _ = plan.handle(.ended(Self.connection(2)), at: Self.at(700))
    #expect(plan.handle(.timer, at: Self.at(1000)) == [.attempt(Self.connection(3), Self.address(3))])
    _ = plan.handle(Self.up(3), at: Self.at(1100))
    #expect(plan.handle(.connected(Self.connection(3), Self.link(3)), at: Self.at(1100)) == [])
    // The next attempt waits for the pause alone, not for the end of the link that was made.
    #expect(plan.handle(.connect(Self.connection(4), Self.chat, Self.address(4)), at: Self.at(1150)) == [])
    #expect(plan.deadline == Self.at(1500))
    #expect(plan.handle(.timer, at: Self.at(1500)) == [.attempt(Self.connection(4), Self.address(4))])
    #expect(
      plan.handle(.released(Self.link(3), .connection(Self.connection(3))), at: Self.at(1600)) == [.cut(Self.link(3))])
  }

  @Test("A service gets no more links than it may have, and none that another one needs")
  func allowance() {
    var plan = Self.plan(links: 3)
    Self.full(&plan, chat: 2)
    #expect(
      plan.handle(.connect(Self.connection(1), Self.chat, Self.address(70)), at: .zero)
        == [.refuse(Self.connection(1), reason: "The radio has no free link.")])
    plan.shares[Self.chat]?.may = 2
    #expect(
      plan.handle(.connect(Self.connection(2), Self.chat, Self.address(71)), at: .zero)
        == [.refuse(Self.connection(2), reason: "This service has as many links as it may have.")])
    #expect(plan.counters.refusedAttempts == 2)
    // A peer that is linked already costs no place.
    #expect(
      plan.handle(.connect(Self.connection(3), Self.chat, Self.address(1)), at: .zero)
        == [.attempt(Self.connection(3), Self.address(1))])
    #expect(plan.handle(.connected(Self.connection(3), Self.link(1)), at: .zero) == [])
    #expect(
      plan.handle(.released(Self.link(1), .connection(Self.connection(3))), at: .zero)
        == [.close(.connection(Self.connection(3)), Self.link(1))], "its client goes on using the link")
    #expect(plan.connections.isEmpty, "and the connection that let it go is forgotten")
  }

  @Test("Of those that wait, the one of higher priority is next, whoever came first")
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

  @Test("The place of the link that an attempt is to make is taken")
  func placeOfAttempt() {
    var plan = Self.plan(links: 2)
    #expect(plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero).count == 1)
    #expect(plan.free == 1)
    #expect(
      plan.handle(.connect(Self.connection(2), Self.chat, Self.address(2)), at: .zero)
        == [.refuse(Self.connection(2), reason: "The radio has no free link.")], "a visitor needs the other place")
  }

  @Test("A link that is being cut is no longer held by its service, whose next link needs a place")
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

  @Test("A link that an attempt left behind has no user, and is cut in time")
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
    "Where the peer connects amid an attempt, and its link is given up for another service, the next attempt begins")
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

  @Test("No more attempts wait than the queue has places")
  func queueLength() {
    var plan = Self.plan()
    plan.limits.queueLength = 2
    let outcomes = (1...4).map { number in
      plan.handle(.connect(Self.connection(number), Self.chat, Self.address(UInt64(number))), at: .zero)
    }
    #expect(outcomes[0].count == 1 && outcomes[1] == [] && outcomes[2] == [])
    #expect(outcomes[3] == [.refuse(Self.connection(4), reason: "The radio has no free link.")])
  }

  @Test("An attempt that finds no place within half a minute is refused")
  func waiting() {
    var plan = Self.plan()
    _ = plan.handle(.connect(Self.connection(1), Self.chat, Self.address(1)), at: .zero)
    _ = plan.handle(.connect(Self.connection(2), Self.chat, Self.address(2)), at: .zero)
    #expect(plan.deadline == Self.at(30_000))
    #expect(
      plan.handle(.timer, at: Self.at(30_000))
        == [.refuse(Self.connection(2), reason: "There was no free link within 30 s.")])
  }
}
