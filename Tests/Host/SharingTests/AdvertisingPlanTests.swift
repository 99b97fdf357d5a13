import Common
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("The advertising plan")
struct AdvertisingPlanTests {
  /// A plan with a clock, and its actions as text.
  struct Stand {
    var plan: AdvertisingPlan
    private(set) var now = Instant.zero
    private(set) var shown: [String] = []
    /// Whether the driver begins to send each advertisement at once.
    var isDriverQuick = true

    init(slots: Int) { plan = AdvertisingPlan(slots: slots) }

    /// The actions since the last call.
    mutating func takeShown() -> [String] {
      defer { shown = [] }
      return shown
    }

    mutating func handle(_ event: AdvertisingPlan.Event) {
      let milliseconds = now.nanoseconds / 1_000_000
      for action in plan.handle(event, at: now) {
        switch action {
        case .show(let id, let slot):
          shown.append("\(id.number) in \(slot) at \(milliseconds)")
          if isDriverQuick { handle(.began(id)) }
        case .clear(let slot): shown.append("\(slot) clear at \(milliseconds)")
        case .refuse(let id): shown.append("\(id.number) refused at \(milliseconds)")
        }
      }
    }

    mutating func add(_ number: Int, _ priority: AdvertisingPriority, least: Int = 0, isReady: Bool = true) {
      handle(
        .add(
          AdvertisingPlanTests.id(number), AdvertisingTerms(priority, leastTime: .milliseconds(least)), isReady: isReady
        ))
    }

    mutating func say(
      _ number: Int, _ priority: AdvertisingPriority = .broadcast, least: Int = 4000, wait: Int = 30_000
    ) {
      let terms = AdvertisingTerms(priority, leastTime: .milliseconds(least), longestWait: .milliseconds(wait))
      handle(.say(AdvertisingPlanTests.id(number), terms))
    }

    mutating func rest(_ number: Int) { handle(.rest(AdvertisingPlanTests.id(number))) }

    mutating func remove(_ number: Int) { handle(.remove(AdvertisingPlanTests.id(number))) }

    /// Advances time, with timer events as the plan requests them.
    mutating func pass(_ milliseconds: Int) {
      let end = now.advanced(by: .milliseconds(milliseconds))
      while let next = plan.deadline(after: now), next <= end {
        now = next
        handle(.timer)
      }
      now = end
    }
  }

  static func id(_ number: Int) -> AdvertisingPlan.ID { AdvertisingPlan.ID(number: number) }

  @Test("An advertising request gets a free slot at once, and a cancelled request frees its slot")
  func freeSlots() {
    var stand = Stand(slots: 2)
    for number in 1...3 { stand.add(number, .presence) }
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 in 1 at 0"])
    #expect(stand.plan.waiting == [Self.id(3)])
    stand.pass(10)
    stand.remove(1)
    #expect(stand.takeShown() == ["0 clear at 10", "3 in 0 at 10"])
    #expect(stand.plan.deadline(after: stand.now) == nil)
  }

  @Test("An advertisement is sent only while its own application is served")
  func readiness() {
    var stand = Stand(slots: 1)
    stand.add(1, .presence, isReady: false)
    stand.add(2, .presence)
    stand.remove(2)
    #expect(stand.takeShown() == ["2 in 0 at 0", "0 clear at 0"])
    for isReady in [true, true, false] { stand.handle(.ready(Self.id(1), isReady)) }
    #expect(stand.takeShown() == ["1 in 0 at 0", "0 clear at 0"])
    #expect(stand.plan.onAir == [:] && stand.plan.waiting == [])
  }

  @Test("A request of higher priority preempts the lowest advertisement at once, which returns later")
  func displacing() {
    var stand = Stand(slots: 2)
    stand.add(1, .presence)
    stand.add(2, .network)
    stand.add(3, .person)
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 in 1 at 0", "3 in 0 at 0"])
    stand.add(4, .notify)
    stand.pass(1000)
    stand.remove(3)
    #expect(stand.takeShown() == ["0 clear at 1000", "1 in 0 at 1000"])
  }

  @Test("During its uninterruptible time of up to 4 s an advertisement is not preempted by any priority")
  func uninterrupted() {
    var stand = Stand(slots: 1)
    stand.say(1)
    stand.pass(500)
    stand.handle(.began(Self.id(1)))
    stand.add(2, .person)
    stand.pass(3999)
    #expect(stand.takeShown() == ["1 in 0 at 0"])
    stand.pass(1)
    #expect(stand.takeShown() == ["2 in 0 at 4500"])
    var greedy = Stand(slots: 1)
    greedy.say(1, least: 60_000)
    greedy.add(2, .person)
    greedy.pass(60_000)
    #expect(greedy.takeShown() == ["1 in 0 at 0", "2 in 0 at 4000"])
  }

  @Test("Advertising requests of one priority share a slot in turn, and the one that waited longest is next")
  func turns() {
    var stand = Stand(slots: 1)
    for number in 1...3 {
      stand.add(number, .person)
      stand.pass(100)
    }
    stand.pass(7000)
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 in 0 at 2000", "3 in 0 at 4000", "1 in 0 at 6000"])
  }

  @Test("A request of lower priority gets a time slice of 2 s after 8 s, and the next slice 8 s later")
  func patience() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    stand.add(2, .network)
    stand.pass(20_000)
    #expect(
      stand.takeShown() == ["1 in 0 at 0", "2 in 0 at 8000", "1 in 0 at 10000", "2 in 0 at 18000", "1 in 0 at 20000"])
  }

  @Test("Lower priorities get time slices in turn between those of the verifier, and `notify` gets none")
  func oneAtATime() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    stand.add(2, .network)
    stand.add(3, .presence)
    stand.add(4, .notify)
    stand.pass(15_000)
    #expect(
      stand.takeShown() == ["1 in 0 at 0", "2 in 0 at 8000", "1 in 0 at 10000", "3 in 0 at 12000", "1 in 0 at 14000"])
  }

  @Test("A time slice that its service does not end expires, and the next priority gets its time slice")
  func unendedTurn() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    stand.add(2, .presence)
    stand.say(3, wait: 60_000)
    stand.pass(8500)
    stand.remove(1)
    _ = stand.takeShown()
    stand.pass(9000)
    #expect(stand.takeShown() == ["3 in 0 at 12000", "2 in 0 at 16000"])
  }

  @Test("If the verifier has the only slot, a broadcast message gets the slot for 4 s once in 30 s")
  func oneSlot() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    stand.say(2)
    stand.pass(12_000)
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 in 0 at 8000", "1 in 0 at 12000"])
    stand.say(2)
    stand.pass(30_000)
    #expect(stand.takeShown() == ["2 in 0 at 38000", "1 in 0 at 42000"])
    // With two slots a message waits for a shorter time.
    var wide = Stand(slots: 2)
    wide.add(1, .person)
    wide.add(2, .person)
    wide.say(3)
    wide.pass(12_000)
    wide.say(3)
    wide.pass(12_000)
    #expect(wide.takeShown().filter { $0.hasPrefix("3") } == ["3 in 0 at 8000", "3 in 1 at 20000"])
  }

  @Test("A broadcast message that has waited for its longest wait is refused; other requests wait without limit")
  func refusal() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    stand.say(2, .notify, least: 0, wait: 5000)
    stand.add(3, .notify)
    stand.pass(60_000)
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 refused at 5000"])
    #expect(stand.plan.waiting == [Self.id(3)])
  }

  @Test(
    "An advertising set has its slot between two messages until a request needs it, and uses it for the next message")
  func resting() {
    var stand = Stand(slots: 1)
    stand.say(1)
    stand.pass(4000)
    stand.rest(1)
    #expect(stand.takeShown() == ["1 in 0 at 0", "1 in 0 at 4000"])
    #expect(!stand.plan.shows(Self.id(1)) && stand.plan.onAir == [0: Self.id(1)])
    stand.pass(2000)
    stand.say(1)
    #expect(stand.takeShown() == ["1 in 0 at 6000"] && stand.plan.shows(Self.id(1)))
    stand.rest(1)
    stand.add(2, .notify)
    #expect(stand.takeShown() == ["1 in 0 at 6000", "2 in 0 at 6000"])
    #expect(!stand.plan.isSaying(Self.id(1)) && stand.plan.waiting == [])
    stand.rest(1)
    stand.remove(2)
    #expect(stand.takeShown() == ["0 clear at 6000"])
  }

  @Test("During a radio inhibit no advertisement below the mesh priority starts, and started ones continue")
  func serving() {
    var stand = Stand(slots: 3)
    stand.say(1)
    stand.handle(.serving(true))
    stand.add(2, .presence)
    stand.say(3)
    stand.say(4, .notify, wait: 5000)
    stand.pass(4000)
    stand.rest(1)
    stand.say(1)
    stand.add(5, .network)
    stand.add(6, .person)
    #expect(stand.takeShown() == ["1 in 0 at 0", "1 in 0 at 4000", "5 in 1 at 4000", "6 in 2 at 4000"])
    #expect(!stand.plan.shows(Self.id(1)) && stand.plan.isSaying(Self.id(1)))
    stand.pass(16_000)
    #expect(stand.takeShown() == ["4 refused at 5000"])
    stand.handle(.serving(false))
    #expect(stand.takeShown() == ["2 in 0 at 20000"])
    // The messages get the slot of the lowest-priority request ahead of them, the longest waiting first.
    stand.pass(9000)
    #expect(stand.takeShown() == ["3 in 0 at 28000"])
  }

  @Test("If the number of slots decreases, excess advertisements end and return later, except broadcast messages")
  func fewerSlots() {
    var stand = Stand(slots: 3)
    stand.add(1, .presence)
    stand.add(2, .presence)
    stand.say(3)
    _ = stand.takeShown()
    stand.handle(.slots(1))
    #expect(stand.takeShown() == ["1 clear at 0", "2 clear at 0"])
    stand.handle(.slots(0))
    stand.handle(.slots(3))
    #expect(stand.takeShown() == ["2 in 1 at 0"] && !stand.plan.isSaying(Self.id(3)))
  }

  @Test(
    "A broadcast message that has a slot but is not sent yet continues to wait if its slot is taken")
  func displacedUnseen() {
    var stand = Stand(slots: 1)
    stand.isDriverQuick = false
    stand.say(1, least: 0, wait: 10_000)
    stand.pass(1000)
    stand.add(2, .person)
    stand.pass(8999)
    #expect(stand.takeShown() == ["1 in 0 at 0", "2 in 0 at 1000", "1 in 0 at 9000"])
    stand.handle(.slots(1))
    stand.pass(4000)
    // Request 1 had a time slice of two seconds, in which its wait expired.
    #expect(stand.takeShown() == ["2 in 0 at 11000", "1 refused at 11000"])
  }

  @Test("The advertising plan has no deadline if no request is waiting")
  func noTimer() {
    var stand = Stand(slots: 1)
    stand.add(1, .person)
    #expect(stand.plan.deadline(after: stand.now) == nil)
    stand.add(2, .notify)
    stand.pass(60_000)
    #expect(stand.plan.deadline(after: stand.now) == nil, "what only waits for others to go is not asked for again")
  }
}
