import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Public messages cost their sender nothing, and all nodes airtime and storage.
@Suite("Attack: a flood of public mesh messages")
struct LineFloodTests {
  /// The result of a flood of public messages over Eve's link with Ann, behind whom Bob is.
  private struct Outcome {
    /// Messages of the flood that Ann relayed, and that she reported to her service.
    var passedOn = 0
    var taken = 0
    /// Messages of the flood that Bob got by gossip sync.
    var answered = 0
    /// The delay of a stranger's message to Bob during the flood.
    var delay: Duration?
    /// Whether a stranger's message from before the flood is still stored for neighbours.
    var isOldKept = false
  }

  /// - Parameters:
  ///   - identities: number of senders, which take turns.
  ///   - perSecond: messages in a second; 0 for none.
  private func run(identities: Int, perSecond: Int, seconds: Int) throws -> Outcome {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    let (honest, eve) = (Stranger(1), Stranger(2))
    let (own, door) = (hall.connect(stranger: honest, to: 0), hall.connect(stranger: eve, to: 0))
    let others = (0..<identities).map { Stranger(100 + UInt64($0)) }
    for other in others {
      hall.inject(other.announce(at: hall.time, timeToLive: 6), on: door, to: 0)
      hall.pass(.milliseconds(150))
    }
    hall.pass(.seconds(5))
    hall.inject(honest.line("before", at: hall.time), on: own, to: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].heard.map(\.text) == ["before"])
    let before = try #require(hall.nodes[0].heard.first?.packet)
    let frames = Overheard.listen(to: &hall)
    var outcome = Outcome()
    var saidAt: Instant?
    let ids = Set(others.map(\.id))
    for second in 0..<seconds {
      for number in 0..<max(perSecond, 1) {
        if perSecond > 0 {
          let line = others[number % identities].line("flood \(second) \(number)", at: hall.time + UInt64(number))
          hall.inject(line, on: door, to: 0)
        }
        hall.pass(.milliseconds(Int64(1000 / max(perSecond, 1))))
      }
      if second == seconds / 2 {
        hall.inject(honest.line("amid", at: hall.time), on: own, to: 0)
        saidAt = hall.now
      }
      if let saidAt, outcome.delay == nil {
        for _ in 0..<100 where outcome.delay == nil {
          hall.pass(.milliseconds(10))
          let isThere = hall.nodes[1].heard.contains { $0.text == "amid" }
          if isThere { outcome.delay = saidAt.duration(to: hall.now) }
        }
      }
    }
    let ofFlood = frames.all(.message).compactMap(\.view).filter { ids.contains($0.sender) }
    outcome.passedOn = ofFlood.count { $0.timeToLive > 0 }
    outcome.answered = ofFlood.count { $0.timeToLive == 0 }
    outcome.taken = hall.nodes[0].heard.count { ids.contains($0.sender) }
    outcome.isOldKept = hall.nodes[0].engine.gossip.archive.hasMessage(before)
    return outcome
  }

  @Test(
    "Of 140 messages a second from one peer ID only its quota is relayed, and others are not delayed"
  )
  func oneIdentity() throws {
    let calm = try run(identities: 1, perSecond: 0, seconds: 20)
    let attacked = try run(identities: 1, perSecond: 140, seconds: 20)
    print("one identity: \(calm) \(attacked)")
    let delay = try #require(calm.delay)
    #expect(attacked.delay.map { $0 < delay + .milliseconds(500) } ?? false)
    #expect(attacked.isOldKept && calm.isOldKept)
    // A minute's quota passes at first, and then 10 messages a second are reported and 4 relayed, with a margin.
    #expect(attacked.taken <= PublicMessageQuota.ofSender + 20 * 11)
    #expect(attacked.passedOn <= PublicMessageQuota.passedOnOfSender + 20 * 5)
  }

  @Test("40 peer IDs over one link evict no other stranger's message, and use one link's relay quota")
  func manyIdentities() throws {
    let attacked = try run(identities: 40, perSecond: 140, seconds: 30)
    print("forty identities: \(attacked)")
    #expect(attacked.isOldKept)
    #expect(attacked.taken <= PublicMessageQuota.ofOrigin + 30 * 41 && attacked.taken > GossipArchive.messageLimit)
    #expect(attacked.passedOn <= PublicMessageQuota.passedOnOfOrigin + 30 * 21)
  }

  @Test("100 messages in quick succession reach all nodes and a neighbour in order; 600 reach a neighbour")
  func quickTalker() {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.connect(0, 1)
    hall.connect(1, 2)
    hall.pass(.seconds(5))
    for number in 0..<100 {
      _ = hall.say("line \(number)", at: 0)
      hall.pass(.milliseconds(5))
    }
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].heard.map(\.text) == (0..<100).map { "line \($0)" })
    // Each relay delays each message by a random time.
    #expect(Set(hall.nodes[2].heard.map(\.text)) == Set((0..<100).map { "line \($0)" }))
    for number in 100..<600 {
      _ = hall.say("line \(number)", at: 0)
      hall.pass(.milliseconds(5))
    }
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].heard.count == 600)
    // Messages that were not relayed arrive by gossip sync.
    hall.pass(.seconds(90))
    #expect(hall.nodes[2].heard.count == 600)
  }

  @Test("A favourite's messages use only the favourite's quota, and forged messages use no sender's quota")
  func favourites() {
    var quota = PublicMessageQuota()
    let (friend, other, link) = (PeerID(rawValue: 1), PeerID(rawValue: 2), DeviceOrigin(address: 1))
    var taken = 0
    for number in UInt64(0)..<5000
    where quota.take(from: PeerID(rawValue: 10 + number % 9), isDear: false, over: link, at: .zero) {
      taken += 1
    }
    #expect(taken == PublicMessageQuota.ofOrigin)
    let isStrangers = quota.take(from: other, isDear: false, over: link, at: .zero)
    let isFriends = quota.take(from: friend, isDear: true, over: link, at: .zero)
    let isElsewhere = quota.take(from: other, isDear: false, over: DeviceOrigin(address: 2), at: .zero)
    #expect(!isStrangers && isFriends && isElsewhere)
    // Control case: forged messages.
    var hall = MeshHall()
    hall.add(["ann"])
    let (honest, eve) = (Stranger(1), Stranger(2))
    let (own, door) = (hall.connect(stranger: honest, to: 0), hall.connect(stranger: eve, to: 0))
    for number in 0..<3000 {
      hall.inject(honest.line("forged", at: hall.time + UInt64(number)).flipped(at: -1), on: door, to: 0)
      if number % 100 == 99 { hall.pass(.milliseconds(500)) }
    }
    for number in 0..<100 { hall.inject(honest.line("line \(number)", at: hall.time + UInt64(number)), on: own, to: 0) }
    #expect(hall.nodes[0].heard.count == 100)
  }

  @Test("The message quotas are stored for at most 2,048 senders and 256 devices")
  func bounds() {
    var quota = PublicMessageQuota()
    for number in UInt64(0)..<10_000 {
      _ = quota.take(
        from: PeerID(rawValue: number), isDear: false, over: DeviceOrigin(address: number),
        at: .zero.advanced(by: .milliseconds(Int(number))))
    }
    #expect(quota.counts.senders <= 2048 && quota.counts.origins <= 256)
  }
}
