import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Nodes of both dialects in one mesh. Facts: bitchat.md section 16.1.
@Suite("Mesh nodes of both dialects together")
struct MixedDialectTests {
  /// Nodes with the given dialects and links that know each other.
  static func hall(
    _ dialects: [MeshDialect], _ links: [(Int, Int)], seed: UInt64 = 1
  ) -> (hall: MeshHall, air: Overheard) {
    var hall = MeshHall(seed: seed)
    let air = Overheard.listen(to: &hall)
    for (node, dialect) in dialects.enumerated() { hall.add(["n\(node)"]) { $0.dialect = dialect } }
    for (one, other) in links { hall.connect(one, other) }
    hall.pass(.seconds(40))
    return (hall, air)
  }

  @Test("A node of dialect S exchanges messages with a node of dialect L in dialect L")
  func strangers() throws {
    var (hall, air) = Self.hall([.seed, .live], [(0, 1)])
    _ = hall.say("from the seed", at: 0)
    _ = hall.say("from the apps", at: 1)
    try hall.tell("to the apps", to: 1, as: 1, at: 0)
    try hall.tell("to the seed", to: 0, as: 1, at: 1)
    hall.pass(.seconds(5))
    hall.handle(.stop, at: 0)
    hall.pass(.seconds(1))
    #expect(air.packets.allSatisfy { !$0.isOfSeed })
    #expect(
      hall.nodes[1].heard.map(\.text) == ["from the seed"] && hall.nodes[0].heard.map(\.text) == ["from the apps"])
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered] && hall.nodes[1].progress[1] == [.sent, .delivered])
    #expect(hall.nodes[1].gone == [hall.nodes[0].id] && air.all(0x03).count == 1)
  }

  @Test("Two nodes of dialect S and one of L in a row receive every public and private message once")
  func line() throws {
    var (hall, air) = Self.hall([.seed, .seed, .live], [(0, 1), (1, 2)])
    air.forget()
    for node in 0...2 { _ = hall.say("line of \(node)", at: node) }
    hall.pass(.seconds(2))
    for node in 0...2 {
      #expect(hall.nodes[node].heard.map(\.text).sorted() == (0...2).filter { $0 != node }.map { "line of \($0)" })
    }
    #expect(air.packets.allSatisfy { !$0.isOfSeed || $0.to != 2 && $0.from != 2 })
    #expect(!air.all(0x04).isEmpty && air.all(0x02, from: 0).count == 1, "it goes in both for the one behind bob")
    for (number, (one, other)) in [(0, 2), (2, 0), (0, 1), (1, 2)].enumerated() {
      try hall.tell("private", to: other, as: UInt32(number), at: one)
      hall.pass(.seconds(5))
      #expect(hall.nodes[one].progress[UInt32(number)]?.last == .delivered, "\(one) to \(other)")
    }
    #expect(air.packets.allSatisfy { !$0.isOfSeed || $0.to != 2 && $0.from != 2 })
    #expect(hall.nodes.map(\.told.count) == [1, 1, 2])
  }

  @Test("Private messages between dialect S nodes with a dialect L node between them are sent in dialect L")
  func bridge() throws {
    var (hall, air) = Self.hall([.seed, .live, .seed], [(0, 1), (1, 2)])
    _ = hall.say("across", at: 0)
    try hall.tell("across", to: 2, as: 1, at: 0)
    hall.pass(.seconds(5))
    let told = try #require(hall.nodes[2].told.first)
    hall.handle(.read(told.id, from: hall.nodes[0].id), at: 2)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered, .read] && hall.nodes[2].heard.count == 1)
    #expect(air.packets.allSatisfy { !$0.isOfSeed })
  }

  @Test(
    "In random mixed meshes all messages arrive, and only nodes that announce dialect S get packets of it",
    arguments: Array(1...12) as [UInt64])
  func villages(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let dialects = random.bytes(5).map { $0 < 140 ? MeshDialect.seed : .live }
    var links = (1..<5).map { ($0, Int(random.bytes(1)[0]) % $0) }
    if seed.isMultiple(of: 2) { links.append((0, 4)) }
    var (hall, air) = Self.hall(dialects, links, seed: seed)
    for node in 0..<5 {
      _ = hall.say("line of \(node)", at: node)
      hall.pass(.seconds(1))
    }
    for one in 0..<5 {
      for other in 0..<5 where other != one {
        try hall.tell("from \(one)", to: other, as: UInt32(10 * one + other), at: one)
      }
    }
    hall.pass(.seconds(90))
    for node in 0..<5 {
      let others = (0..<5).filter { $0 != node }
      #expect(hall.nodes[node].heard.map(\.text).sorted() == others.map { "line of \($0)" }, "\(dialects) \(links)")
      #expect(hall.nodes[node].told.map(\.text).sorted() == others.map { "from \($0)" }, "\(dialects) \(links)")
      #expect(others.allSatisfy { hall.nodes[node].progress[UInt32(10 * node + $0)]?.last == .delivered })
    }
    for packet in air.packets where packet.isOfSeed {
      #expect(dialects[packet.from] == .seed && dialects[packet.to] == .seed, "\(packet.type)")
    }
    guard dialects.allSatisfy({ $0 == .seed }) else { return }
    #expect(air.all(0x02).isEmpty && air.all(0x20).allSatisfy(\.isOfSeed))
  }

  @Test("A dialect that is configured for a peer is used with that peer only")
  func configured() throws {
    var hall = MeshHall()
    let air = Overheard.listen(to: &hall)
    hall.add(["ann", "bob", "cat"])
    hall.nodes[0].engine.configuration.dialects = [hall.nodes[1].id: .seed]
    hall.connect(0, 1)
    hall.connect(0, 2)
    hall.pass(.seconds(5))
    #expect(air.all(0x20, from: 0).map(\.to) == [1], "a hello to the one that is configured")
    #expect(
      air.all(0x21, from: 1).allSatisfy { $0.meaning == .requestSync }, "whoever speaks dialect L does not answer")
    _ = hall.say("in each one's own", at: 0)
    hall.pass(.seconds(1))
    #expect(air.all(0x04).map(\.to) == [1] && air.all(0x02).map(\.to) == [2])
    #expect(hall.nodes[1].heard.count == 1 && hall.nodes[2].heard.count == 1)
    // Bob can decode all packets, and the others can decode his.
    try hall.tell("to bob", to: 1, as: 1, at: 0)
    hall.pass(.seconds(2))
    try hall.tell("to ann", to: 0, as: 1, at: 1)
    hall.pass(.seconds(2))
    #expect(hall.nodes[0].progress[1]?.last == .delivered && hall.nodes[1].progress[1]?.last == .delivered)
    #expect(!air.all(0x12, from: 0).isEmpty && air.all(0x12, from: 1).isEmpty)

    let other = Self.hall([.seed, .seed], [])
    (hall, _) = other
    let quiet = other.air
    hall.nodes[0].engine.configuration.dialects = [hall.nodes[1].id: .live]
    hall.nodes[1].engine.configuration.dialects = [hall.nodes[0].id: .live]
    hall.connect(0, 1)
    hall.pass(.seconds(3))
    _ = hall.say("as the apps do", at: 0)
    try hall.tell("as the apps do", to: 0, as: 1, at: 1)
    hall.pass(.seconds(3))
    #expect(quiet.packets.allSatisfy { !$0.isOfSeed } && hall.nodes[1].heard.count == 1)
    #expect(hall.nodes[1].progress[1]?.last == .delivered)
  }

  @Test(
    "Two nodes configured for different dialects still deliver messages to each other",
    arguments: [true, false])
  func insisting(firstTells: Bool) throws {
    var (hall, air) = Self.hall([.seed, .live], [])
    hall.nodes[0].engine.configuration.dialects = [hall.nodes[1].id: .seed]
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    for node in firstTells ? [0, 1] : [1, 0] {
      _ = hall.say("line of \(node)", at: node)
      try hall.tell("private", to: 1 - node, as: 1, at: node)
      hall.pass(.seconds(3))
      let told = try #require(hall.nodes[1 - node].told.first)
      hall.handle(.read(told.id, from: hall.nodes[node].id), at: 1 - node)
      hall.pass(.seconds(1))
      #expect(hall.nodes[node].progress[1] == [.sent, .delivered, .read], "node \(node)")
      #expect(hall.nodes[1 - node].heard.map(\.text) == ["line of \(node)"])
    }
    #expect(air.packets.allSatisfy { !$0.isOfSeed || $0.from == 0 })
    hall.handle(.stop, at: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].gone == [hall.nodes[0].id])
  }

  @Test("A change of the preferred dialect takes effect with the next announce")
  func reload() throws {
    var (hall, air) = Self.hall([.live, .seed], [(0, 1)])
    air.forget()
    hall.nodes[0].engine.configuration.dialect = .seed
    hall.handle(.timer, at: 0)
    hall.pass(.seconds(5))
    #expect(air.all(0x20).count == 2 && hall.nodes[0].engine.hasSession(with: hall.nodes[1].id))
    _ = hall.say("now in dialect S", at: 1)
    hall.pass(.seconds(1))
    #expect(air.all(0x04).count == 1 && hall.nodes[0].heard.count == 1)
    hall.nodes[0].engine.configuration.dialect = .live
    hall.handle(.timer, at: 0)
    hall.pass(.seconds(5))
    air.forget()
    _ = hall.say("as before", at: 1)
    try hall.tell("as before", to: 1, as: 1, at: 0)
    hall.pass(.seconds(2))
    #expect(air.packets.allSatisfy { !$0.isOfSeed } && hall.nodes[0].heard.count == 2)
    #expect(hall.nodes[0].progress[1]?.last == .delivered)
  }

  @Test("A neighbour of dialect L gets sync answers in dialect L only, with all messages")
  func sync() {
    var (hall, air) = Self.hall([.seed, .seed], [(0, 1)])
    for number in 0..<3 { _ = hall.say("line \(number)", at: 0) }
    hall.pass(.seconds(1))
    hall.add(["cat"])
    air.forget()
    // Ann is the author, so she has the message in both dialects.
    hall.connect(0, 2)
    hall.pass(.seconds(10))
    #expect(hall.nodes[2].heard.map(\.text) == ["line 0", "line 1", "line 2"])
    #expect(air.packets.filter { $0.to == 2 }.allSatisfy { !$0.isOfSeed })
    #expect(air.all(0x04, from: 0).isEmpty)
    // A newcomer of dialect S gets Ann's messages in dialect S alone, because no peer of dialect L is known behind
    // it.
    var (quiet, heard) = Self.hall([.seed], [])
    _ = quiet.say("line", at: 0)
    quiet.add(["dan"]) { $0.dialect = .seed }
    quiet.connect(0, 1)
    quiet.pass(.seconds(12))
    #expect(quiet.nodes[1].heard.map(\.text) == ["line"] && heard.all(0x04).count == 1 && heard.all(0x02).isEmpty)
  }
}
