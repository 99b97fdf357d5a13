import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// An attacker repeats a victim's announces on a link of its own, unchanged and faster than any relay, and drops
/// packets for the victim.
@Suite("Attack: a wormhole that makes its link count as a peer's, and drops the packets for that peer")
struct WormholeTests {
  enum Attack: CaseIterable {
    /// The victim's announces are repeated at the node beside the sender.
    case oneWay
    /// The node's announces are also repeated at the victim, which then names the node as its neighbour.
    case bothWays
    /// One way, over a new link from another address every twenty seconds.
    case newLinks
    /// Both ways, at every node of the path.
    case everywhere
  }

  /// Dea, Ann, Bob and Cem in a row. Cem is the victim; Eve is at Ann.
  private static func hall(_ attack: Attack?, isCemThere: Bool = true) -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem", "dea"])
    let (ann, bob, cem, dea) = (0, 1, 2, 3)
    hall.connect(dea, ann)
    hall.connect(ann, bob)
    if isCemThere { hall.connect(bob, cem) }
    hall.pass(.seconds(5))
    guard let attack else { return hall }
    var doors: [Int: LinkID] = [ann: hall.connect(to: ann)]
    if attack == .bothWays || attack == .everywhere { doors[cem] = hall.connect(to: cem) }
    if attack == .everywhere { doors[bob] = hall.connect(to: bob) }
    let ids = hall.nodes.map(\.id)
    var opened = 1
    func arm(_ hall: inout MeshHall) {
      let doors = doors
      hall.attacker = { frame in
        guard frame.type == .announce, frame.sender == ids[frame.from] else { return [] }
        let targets =
          switch frame.from {
          case cem: [ann, bob]
          case ann: [cem]
          default: [Int]()
          }
        return targets.compactMap { node in
          doors[node].map { MeshHall.Injection(bytes: frame.bytes, link: $0, node: node) }
        }
      }
    }
    arm(&hall)
    for _ in 0..<10 {
      if attack == .newLinks, let door = doors[ann] {
        hall.handle(.linkClosed(door), at: ann)
        opened += 1
        doors[ann] = hall.connect(to: ann, from: DeviceOrigin(address: UInt64(opened)))
        arm(&hall)
      }
      hall.pass(.seconds(20))
    }
    return hall
  }

  /// The row of `hall`, with Eve connected to Ann before Cem arrives.
  private static func hallOfNewcomer(_ attack: Attack?) -> MeshHall {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem", "dea"])
    hall.connect(3, 0)
    hall.connect(0, 1)
    hall.pass(.seconds(20))
    if attack != nil {
      let door = hall.connect(to: 0)
      let cem = hall.nodes[2].id
      hall.attacker = { frame in
        guard frame.type == .announce, frame.from == 2, frame.sender == cem else { return [] }
        return [MeshHall.Injection(bytes: frame.bytes, link: door, node: 0)]
      }
    }
    hall.connect(1, 2)
    hall.pass(.milliseconds(500))
    return hall
  }

  private static func delay(_ hall: inout MeshHall, until isThere: (MeshHall) -> Bool) -> Duration? {
    let begin = hall.now
    for _ in 0..<12_000 where !isThere(hall) { hall.pass(.milliseconds(10)) }
    return isThere(hall) ? begin.duration(to: hall.now) : nil
  }

  /// Delays to Cem: of the first private message, which needs a session, of its receipt, and of the second private
  /// message.
  ///
  /// - Parameter isFirst: whether Eve repeats Cem's announces before Cem has a link with anybody.
  private func delays(_ attack: Attack?, from sender: Int, isFirst: Bool = false) throws -> [Duration?] {
    var hall = isFirst ? Self.hallOfNewcomer(attack) : Self.hall(attack)
    if attack != nil {
      #expect(hall.nodes[0].engine.neighbours.contains(hall.nodes[2].id), "the link counts as Cem's")
    }
    try hall.tell("first", to: 2, as: 1, at: sender)
    let first = Self.delay(&hall) { $0.nodes[2].told.count == 1 }
    let receipt = Self.delay(&hall) { $0.nodes[sender].progress[1]?.last == .delivered }
    hall.pass(.seconds(20))
    try hall.tell("second", to: 2, as: 2, at: sender)
    let second = Self.delay(&hall) { $0.nodes[2].told.count == 2 }
    return [first, receipt, second]
  }

  @Test(
    "A wormhole delays private messages that the attacked node sends or relays by less than 1 s",
    arguments: Attack.allCases)
  func privateMessages(attack: Attack) throws {
    for sender in [0, 3] {
      let calm = try delays(nil, from: sender)
      let attacked = try delays(attack, from: sender)
      print("wormhole \(attack) from \(sender): \(calm) \(attacked)")
      for (one, other) in zip(calm, attacked) {
        let one = try #require(one)
        #expect(one < .seconds(2))
        #expect(other.map { $0 < one + .seconds(1) } ?? false, "\(attack) from \(sender): \(attacked) beside \(calm)")
      }
    }
  }

  @Test("A wormhole that waits for a peer delays private messages to the peer by less than 1 s")
  func newcomers() throws {
    for sender in [0, 3] {
      let calm = try delays(nil, from: sender, isFirst: true)
      let attacked = try delays(.oneWay, from: sender, isFirst: true)
      print("wormhole, newcomer, from \(sender): \(calm) \(attacked)")
      for (one, other) in zip(calm, attacked) {
        let one = try #require(one)
        #expect(other.map { $0 < one + .seconds(1) } ?? false, "from \(sender): \(attacked) beside \(calm)")
      }
    }
  }

  /// Delay of an envelope that Ann carries, from Cem's arrival to its receipt by Cem.
  private func envelopeDelay(_ attack: Attack?) throws -> Duration? {
    var hall = Self.hall(nil)
    let (ann, bob, cem, dea) = (0, 1, 2, 3)
    for link in hall.links(bob, cem) { hall.disconnect(link) }
    hall.handle(.stop, at: cem)
    hall.pass(.seconds(400))
    try hall.tell("by courier", to: cem, as: 1, at: dea)
    hall.pass(.seconds(5))
    #expect(hall.nodes[ann].engine.carried == 1)
    for link in hall.links(dea, ann) { hall.disconnect(link) }
    if attack != nil {
      let door = hall.connect(to: ann)
      let id = hall.nodes[cem].id
      hall.attacker = { frame in
        guard frame.type == .announce, frame.from == cem, frame.sender == id else { return [] }
        return [MeshHall.Injection(bytes: frame.bytes, link: door, node: ann)]
      }
    }
    hall.handle(.start, at: cem)
    hall.connect(bob, cem)
    return Self.delay(&hall) { $0.nodes[cem].told.count == 1 }
  }

  @Test("A wormhole delays a courier envelope by less than 2 s")
  func envelopes() throws {
    let calm = try #require(try envelopeDelay(nil))
    let attacked = try envelopeDelay(.oneWay)
    print("wormhole, envelope: \(calm) \(String(describing: attacked))")
    #expect(attacked.map { $0 < calm + .seconds(2) } ?? false, "\(String(describing: attacked))")
  }

  @Test(
    "A neighbour gets all messages although a wormhole returns them over a link that counts as the neighbour's")
  func echoes() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "dea"])
    let door = hall.connect(to: 0)
    let bob = hall.nodes[1].id
    hall.attacker = { frame in
      if frame.type == .announce, frame.sender == bob, frame.from == 1 {
        return [MeshHall.Injection(bytes: frame.bytes, link: door, node: 0)]
      }
      guard frame.from == 2, frame.to == 0, frame.type != .announce else { return [] }
      return [MeshHall.Injection(bytes: frame.bytes, link: door, node: 0)]
    }
    hall.connect(0, 1)
    hall.connect(2, 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].engine.neighbourhood.links[door]?.peer == bob)
    for number in 0..<5 { _ = hall.say("line \(number)", at: 2) }
    try hall.tell("for bob", to: 1, at: 2)
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].heard.count == 5)
    #expect(hall.nodes[1].told.map(\.text) == ["for bob"])
  }

  @Test("An attacker's link that is taken for an Earshot peer's does not cause that peer's own link to be cut")
  func cutsNothing() {
    for seed in UInt64(1)...4 {
      var hall = MeshHall(seed: seed)
      hall.add(["ann", "bob"])
      let larger = hall.nodes[0].id < hall.nodes[1].id ? 1 : 0
      let id = hall.nodes[1 - larger].id
      let door = hall.connect(to: larger)
      // The replayed announce arrives over the attacker's link first.
      hall.attacker = { frame in
        guard frame.type == .announce, frame.sender == id else { return [] }
        return [MeshHall.Injection(bytes: frame.bytes, link: door, node: larger, after: .zero)]
      }
      let link = hall.connect(larger, 1 - larger)
      hall.pass(.seconds(60))
      #expect(hall.nodes[larger].engine.neighbourhood.links[door]?.peer == id)
      #expect(hall.links(0, 1) == [link])
    }
  }
}
