import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// An attacker with a link to a relay, who receives what others send to it and sends copies on that link.
@Suite("Attack: copies of a packet that prevent relays from relaying it")
struct RelaySilencingTests {
  enum Attack: CaseIterable {
    /// Two copies, or many, arrive within the relay's delay.
    case returned, returnedOften
    /// A copy whose time to live ends at the relay, or one hop later, arrives first.
    case endsFirst, endsSoonFirst
    /// A copy that looks like an answer to the relay's own sync request arrives first.
    case answersFirst
    /// Fragments arrive first, the last of them with a high time to live.
    case fragmentsFirst
  }

  /// The messages that reached Dea, behind two relays, and their times.
  private struct Outcome {
    var publicDelay: Duration?
    var longDelay: Duration?
    var privateDelay: Duration?
    /// Number of Ann's announces that reached Dea in three minutes.
    var announces: Int
  }

  /// Ann, Bob, Cem and Dea in a row; Eve has a link with each of those in the middle.
  private func run(_ attack: Attack?, seed: UInt64 = 1) throws -> Outcome {
    var hall = MeshHall(seed: seed)
    hall.add(["ann", "bob", "cem", "dea"])
    let wires = [hall.connect(0, 1), hall.connect(1, 2), hall.connect(2, 3)]
    hall.pass(.seconds(5))
    let eve = Stranger(1)
    let relays = [1, 2]
    let eveLinks = relays.map { hall.connect(stranger: eve, to: $0) }
    hall.pass(.seconds(40))
    hall.attacker = { frame in
      guard let attack, let to = frame.to, let place = relays.firstIndex(of: to), wires.contains(frame.link),
        frame.type != .requestSync
      else { return [] }
      return Self.copies(attack, of: frame.bytes).map {
        MeshHall.Injection(bytes: $0.bytes, link: eveLinks[place], node: to, after: $0.after)
      }
    }
    hall.pass(.seconds(20))
    var outcome = Outcome(announces: 0)
    func delay(_ hall: inout MeshHall, until isThere: (MeshHall) -> Bool) -> Duration? {
      let begin = hall.now
      for _ in 0..<2000 where !isThere(hall) { hall.pass(.milliseconds(10)) }
      return isThere(hall) ? begin.duration(to: hall.now) : nil
    }
    _ = hall.say("short", at: 0)
    outcome.publicDelay = delay(&hall) { $0.nodes[3].heard.map(\.text).contains("short") }
    let long = LimitStage.text(2000)
    _ = hall.say(long, at: 0)
    outcome.longDelay = delay(&hall) { $0.nodes[3].heard.map(\.text).contains(long) }
    try hall.tell("private", to: 3, at: 0)
    outcome.privateDelay = delay(&hall) { $0.nodes[3].told.map(\.text).contains("private") }
    var announces: Set<UInt64> = []
    for _ in 0..<180 {
      hall.pass(.seconds(1))
      if let peer = hall.nodes[3].engine.peer(hall.nodes[0].id) { announces.insert(peer.announcedAt) }
    }
    outcome.announces = announces.count - 1
    return outcome
  }

  private static func copies(_ attack: Attack, of bytes: [UInt8]) -> [(bytes: [UInt8], after: Duration)] {
    let first = Duration.milliseconds(1)
    switch attack {
    case .returned: return [(bytes, .milliseconds(16)), (bytes, .milliseconds(17))]
    case .returnedOften: return (16...25).map { (bytes, .milliseconds($0)) }
    case .endsFirst: return [(bytes.with(1, at: 2), first)]
    case .endsSoonFirst: return [(bytes.with(2, at: 2), first)]
    case .answersFirst: return [(bytes.with(0, at: 2), first)]
    case .fragmentsFirst:
      guard let view = try? PacketView(bytes), view.type != .fragment,
        let plan = FragmentPlan(view, id: FragmentID(rawValue: view.timestamp), frameLimit: 300)
      else { return [(bytes.with(1, at: 2), first)] }
      let fragments = plan.fragments.compactMap { try? $0.encoded() }
      return fragments.enumerated().map { (number, fragment) in
        (fragment.with(number == fragments.count - 1 ? 7 : 1, at: 2), first)
      }
    }
  }

  @Test("Copies over one link delay no packet by more than 1 s, and never suppress an announce")
  func silencing() throws {
    let calm = try run(nil)
    let (line, long, text) = (
      try #require(calm.publicDelay), try #require(calm.longDelay), try #require(calm.privateDelay)
    )
    #expect(line < .milliseconds(500) && long < .milliseconds(1000) && text < .milliseconds(1500))
    #expect(calm.announces >= 6)
    for attack in Attack.allCases {
      let attacked = try run(attack)
      print("\(attack): \(attacked) beside \(calm)")
      #expect(attacked.publicDelay.map { $0 < line + .seconds(1) } ?? false, "\(attack): \(attacked)")
      #expect(attacked.longDelay.map { $0 < long + .seconds(1) } ?? false, "\(attack): \(attacked)")
      #expect(attacked.privateDelay.map { $0 < text + .seconds(1) } ?? false, "\(attack): \(attacked)")
      #expect(attacked.announces >= 2, "\(attack): \(attacked)")
    }
  }
}
