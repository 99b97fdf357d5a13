import Air
import Common
import Loop
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("Pauses before a mesh node connects again")
struct PauseTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A node does not connect for 5 min to an advertiser that sent malformed frames")
  @LoopActor
  func garbage() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = try WaitingPhone(on: village, isNode: true)
    #expect(village.wait(.seconds(20)) { ann.mesh.links.ports.values.contains(where: \.isOpen) })
    for number in 0..<120 { phone.notify([0xFF, UInt8(number)]) }
    #expect(village.wait(.seconds(10)) { ann.mesh.links.ports.isEmpty })
    #expect(phone.subscribers.count == 1)
    village.time.advance(by: .seconds(295))
    #expect(phone.subscribers.count == 1 && ann.mesh.links.search.remembered.advertisers == 1)
    #expect(village.wait(.seconds(20)) { phone.subscribers.count == 2 }, "after five minutes it is tried again")
    phone.leave()
  }

  @Test(
    "A node connects at growing intervals to an advertiser that never announces itself"
  )
  @LoopActor
  func silent() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = try WaitingPhone(on: village, isNode: true)
    var begun: [Instant] = []
    for number in 1...5 {
      #expect(village.wait(.seconds(120)) { phone.subscribers.count == number })
      begun.append(village.time.now)
      #expect(village.wait(.seconds(20)) { ann.mesh.links.ports.isEmpty }, "the link is cut after 15 s")
    }
    // 15 s of each round are the lifetime of the link.
    let pauses = zip(begun, begun.dropFirst()).map { $0.duration(to: $1) - .seconds(15) }
    for (pause, least) in zip(pauses, [3, 6, 12, 24]) {
      #expect(pause >= .seconds(least) && pause < .seconds(least + 3), "\(pauses)")
    }
    phone.leave()
  }

  @Test("A connection attempt of a mesh node ends after 10 s")
  @LoopActor
  func noLink() throws {
    let village = Village(conditions: AirConditions(connectTimeout: .seconds(60)))
    let ann = village.add("ann")
    let phone = try WaitingPhone(on: village, isNode: true)
    ann.mesh.links.search.avoid(phone.address, for: .seconds(3))
    #expect(village.wait(.seconds(2)) { ann.mesh.links.search.remembered.advertisers == 1 })
    phone.leave()
    #expect(village.wait(.seconds(5)) { ann.mesh.links.search.attempt != nil })
    village.time.advance(by: .milliseconds(9800))
    #expect(ann.mesh.links.search.attempt != nil)
    village.time.advance(by: .milliseconds(400))
    #expect(ann.mesh.links.search.attempt == nil)
  }

  @Test(
    "A phone that arrives while attempts to absent phones are running is linked within 6 s"
  )
  @LoopActor
  func othersHaveLeft() throws {
    let village = Village(conditions: AirConditions(connectTimeout: .seconds(60)))
    let ann = village.add("ann")
    let gone = try (0..<4).map { _ in try WaitingPhone(on: village, isNode: true) }
    for phone in gone { ann.mesh.links.search.avoid(phone.address, for: .seconds(3)) }
    #expect(village.wait(.seconds(2)) { ann.mesh.links.search.remembered.advertisers == 4 })
    for phone in gone { phone.leave() }
    #expect(village.wait(.seconds(5)) { ann.mesh.links.search.attempt != nil })
    let begun = village.time.now
    let phone = try WaitingPhone(on: village, isNode: true)
    #expect(village.wait(.seconds(60)) { phone.subscribers.count == 1 })
    #expect(begun.duration(to: village.time.now) < .seconds(6), "\(begun.duration(to: village.time.now))")
    // Advertisers not tried yet may be tried until they count as gone.
    village.time.advance(by: .seconds(30))
    let addresses = gone.map(\.address)
    #expect(
      !village.wait(.seconds(60)) { ann.mesh.links.search.attempt.map { addresses.contains($0.address) } ?? false })
    phone.leave()
  }

  @Test(
    "While another service awaits a person, a mesh attempt of 10 s is followed by a pause of 20 s",
    arguments: [true, false])
  @LoopActor
  func personAwaited(isAwaited: Bool) throws {
    let village = Village(conditions: AirConditions(connectTimeout: .seconds(60)))
    let ann = village.add("ann")
    let kiosk = ann.shared.tenant("kiosk", share: LinkShare(needs: 1, may: 1, priority: 10))
    let invitation = try kiosk.advertise(
      Advertisement(data: AdvertisingData(localName: "come in")), AdvertisingTerms(isAwaited ? .person : .presence),
      for: nil)
    #expect(ann.mesh.node.radio.isPersonAwaited == isAwaited && !kiosk.isPersonAwaited)
    let gone = try WaitingPhone(on: village, isNode: true)
    ann.mesh.links.search.avoid(gone.address, for: .seconds(3))
    #expect(village.wait(.seconds(2)) { ann.mesh.links.search.remembered.advertisers == 1 })
    gone.leave()
    #expect(village.wait(.seconds(5)) { ann.mesh.links.search.attempt != nil })
    #expect(village.wait(.seconds(11)) { ann.mesh.links.search.attempt == nil })
    let failed = village.time.now
    let phones = [try WaitingPhone(on: village, isNode: true), try WaitingPhone(on: village, isNode: true)]
    #expect(village.wait(.seconds(40)) { ann.mesh.links.search.attempt != nil })
    let pause = failed.duration(to: village.time.now)
    #expect(isAwaited ? pause > .seconds(18) && pause < .seconds(22) : pause < .seconds(3), "\(pause)")
    // Both are in range and answer.
    let begun = village.time.now
    #expect(village.wait(.seconds(10)) { ann.mesh.links.ports.values.count(where: \.isOpen) == 2 })
    #expect(begun.duration(to: village.time.now) < .seconds(4))
    for phone in phones { phone.leave() }
    invitation.cancel()
    #expect(!ann.mesh.node.radio.isPersonAwaited)
  }

  @Test("An advertiser that proves not to be a mesh node is tried again after 15, 30 and 60 s")
  @LoopActor
  func noNode() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = try WaitingPhone(on: village, isNode: false)
    var begun: [Instant] = []
    for attempt in 0..<4 {
      #expect(village.wait(.seconds(90)) { ann.mesh.links.search.attempt != nil }, "\(attempt)")
      begun.append(village.time.now)
      // The MTU was negotiated, so the attempt had a port.
      #expect(village.wait(.seconds(5)) { !ann.mesh.links.ports.isEmpty }, "\(attempt)")
      #expect(
        village.wait(.seconds(5)) { ann.mesh.links.search.attempt == nil && ann.mesh.links.ports.isEmpty }, "\(attempt)"
      )
    }
    let pauses = zip(begun, begun.dropFirst()).map { $0.duration(to: $1) }
    #expect(pauses.count == 3)
    for (pause, least) in zip(pauses, [15, 30, 60]) {
      #expect(pause >= .seconds(least) && pause < .seconds(least + 2), "\(pauses)")
    }
    phone.leave()
  }
}
