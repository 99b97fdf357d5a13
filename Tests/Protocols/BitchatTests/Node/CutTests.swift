import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Mesh messages over links that are cut")
struct CutTests {
  /// Counts the packets of the simulated radio.
  private final class Air {
    var packets = 0
    var isCut = false
    /// Whether the link is cut, so that no further packet arrives.
    var isGone = false
  }

  /// Two nodes connect, make a session, and send each other private messages with receipts. The link is cut at the
  /// given points, and made again.
  ///
  /// - Parameters:
  ///   - cuts: packet numbers after which the link is cut, before the packet arrives or after it.
  /// - Returns: the hall, and the number of packets until all was delivered.
  private func converse(
    cutAfter cuts: Set<Int>, isLost: Bool, seed: UInt64 = 1, cutAfterAction cutAction: Int? = nil
  ) throws -> (
    hall: MeshHall, packets: Int
  ) {
    var hall = MeshHall(seed: seed)
    hall.add(["ann", "bob"])
    let air = Air()
    hall.passes = { _, _, _ in
      guard !air.isCut else { return false }
      air.packets += 1
      guard cuts.contains(air.packets) else { return true }
      air.isCut = true
      return !isLost
    }
    hall.carriedOut = { number in if number == cutAction { (air.isCut, air.isGone) = (true, true) } }
    func live(_ milliseconds: Int) {
      let end = hall.now.advanced(by: .milliseconds(milliseconds))
      while hall.now < end {
        hall.pass(hall.now.duration(to: end)) { air.isCut }
        guard air.isCut else { continue }
        // The packet has time to arrive, and no later packet has.
        if !air.isGone { hall.pass(.milliseconds(20)) }
        for link in hall.links(0, 1) { hall.disconnect(link) }
        hall.pass(.milliseconds(300))
        (air.isCut, air.isGone) = (false, false)
        hall.connect(0, 1)
      }
    }
    hall.connect(0, 1)
    live(500)
    try hall.tell("ann 1", to: 1, as: 1, at: 0)
    try hall.tell("bob 1", to: 0, as: 1, at: 1)
    live(1500)
    try hall.tell("ann 2", to: 1, as: 2, at: 0)
    live(500)
    try hall.tell("bob 2", to: 0, as: 2, at: 1)
    live(2000)
    let packets = air.packets
    live(cuts.count > 1 ? 200_000 : 40_000)
    return (hall, packets)
  }

  private func expectAll(_ hall: MeshHall, _ where: String) {
    for (node, texts) in [(1, ["ann 1", "ann 2"]), (0, ["bob 1", "bob 2"])] {
      #expect(hall.nodes[node].told.map(\.text).sorted() == texts, "\(`where`)")
      #expect(hall.nodes[node].progress[1]?.last == .delivered, "\(`where`)")
      #expect(hall.nodes[node].progress[2]?.last == .delivered, "\(`where`)")
      // Every message is stored before it is sent, and settled once.
      let settled = hall.nodes[node].kept.filter { if case .settled = $0 { true } else { false } }
      #expect(settled.count == 2, "\(`where`)")
    }
    #expect(hall.nonces.findings == [], "\(`where`)")
  }

  @Test(
    "A link cut after any packet of a conversation loses no message and shows none twice", arguments: [false, true])
  func everyPacket(isLost: Bool) throws {
    let (whole, packets) = try converse(cutAfter: [], isLost: isLost)
    expectAll(whole, "no cut")
    #expect(packets > 15)
    for packet in 1...packets {
      let (hall, _) = try converse(cutAfter: [packet], isLost: isLost)
      expectAll(hall, "packet \(packet)")
    }
  }

  @Test("A link cut after any engine action of a conversation loses no message and shows none twice")
  func everyAction() throws {
    let (whole, packets) = try converse(cutAfter: [], isLost: false)
    // Actions after the last receipt do not belong to the conversation.
    let actions = min(whole.actions, packets * 4)
    #expect(actions > 40 && whole.nonces.count > 8)
    for action in 1...actions {
      let (hall, _) = try converse(cutAfter: [], isLost: false, cutAfterAction: action)
      expectAll(hall, "action \(action)")
    }
  }

  @Test(
    "40 link cuts at regular intervals lose no message and show none twice", arguments: [3, 4, 5, 7, 11], [false, true])
  func often(every: Int, isLost: Bool) throws {
    let cuts = Set((1...40).map { $0 * every })
    let (hall, _) = try converse(cutAfter: cuts, isLost: isLost, seed: UInt64(every))
    expectAll(hall, "every \(every)")
  }

  @Test("A waiting message is sent at once when a link returns, whatever its number of attempts")
  func backSoon() throws {
    var hall = ChatTests.line(["ann", "bob"])
    hall.passes = { bytes, from, _ in from != 0 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    try hall.tell("hello", to: 1, as: 1, at: 0)
    hall.pass(.seconds(200))
    #expect(hall.nodes[1].told.isEmpty)
    for link in hall.links(0, 1) { hall.disconnect(link) }
    hall.passes = { _, _, _ in true }
    hall.pass(.seconds(20))
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].told.map(\.text) == ["hello"])
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
  }

  @Test("Time without a link, and links that come and go, do not use up the attempts for a message")
  func tries() throws {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(2))
    for link in hall.links(0, 1) { hall.disconnect(link) }
    try hall.tell("hello", to: 1, as: 2, at: 0)
    hall.pass(.seconds(300))
    #expect(hall.nodes[0].progress[2] == nil)
    // Bob's acknowledgements are lost.
    hall.passes = { bytes, from, _ in from != 1 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    for _ in 0..<30 {
      let link = hall.connect(0, 1)
      hall.pass(.seconds(3))
      hall.disconnect(link)
    }
    #expect(hall.nodes[0].progress[2] == [.sent])
    let tries = hall.nodes[0].kept.compactMap {
      if case .outgoing(let message) = $0, message.number == 2 { message.tries } else { nil }
    }
    #expect(tries.count > 20 && tries.max() == 1)
    hall.passes = { _, _, _ in true }
    hall.connect(0, 1)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].progress[2] == [.sent, .delivered])
    #expect(hall.nodes[1].told.map(\.text) == ["first", "hello"])
  }

  @Test("A node restarted from its stored state shows no message twice and delivers the waiting ones")
  func restart() throws {
    var hall = ChatTests.line(["ann", "bob"])
    let said = hall.say("for all", at: 0)
    #expect(said != nil)
    hall.passes = { bytes, from, _ in from != 1 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    try hall.tell("told", to: 1, as: 1, at: 0)
    hall.pass(.seconds(3))
    try hall.tell("back", to: 0, as: 5, at: 1)
    let bob = hall.nodes[1]
    #expect(bob.told.map(\.text) == ["told"])
    for link in hall.links(0, 1) { hall.disconnect(link) }
    hall.passes = { _, _, _ in true }
    // A new engine with the old identity and the stored state.
    var engine = MeshEngine(
      identity: bob.engine.identity, configuration: bob.engine.configuration, random: SeededRandom(seed: 77))
    for keepsake in bob.kept {
      switch keepsake {
      case .pin(let peer, let key, let isProven):
        engine.restorePin(of: peer, key, isProven: isProven, at: hall.now)
      case .gossip(let item): if let item = GossipArchive.Item(bytes: item.bytes) { engine.restore(item) }
      case .outgoing, .settled, .carried, .carriedNoMore: break
      }
    }
    for message in bob.told { engine.restoreReceived(message.id, from: hall.nodes[0].id, at: hall.now) }
    var waiting: [UInt32: OutgoingMessage] = [:]
    for case .outgoing(let message) in bob.kept { waiting[message.number] = message }
    bob.engine = engine
    hall.handle(.clock(isTrusted: true), at: 1)
    hall.handle(.start, at: 1)
    for message in waiting.values { _ = try bob.engine.restore(message, at: hall.now, time: hall.time) }
    hall.connect(0, 1)
    hall.pass(.seconds(120))
    #expect(bob.told.map(\.text) == ["told"])
    #expect(bob.heard.map(\.text) == ["for all"])
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
    #expect(hall.nodes[0].told.map(\.text) == ["back"])
    #expect(bob.progress[5]?.last == .delivered)
  }

  @Test(
    "A peer that returns after SIGKILL receives a new message within 30 s", arguments: [2, 3])
  func killed(nodes: Int) throws {
    var hall = ChatTests.line(Array(["ann", "bob", "cat"].prefix(nodes)))
    let last = nodes - 1
    try hall.tell("before", to: last, as: 1, at: 0)
    hall.pass(.seconds(5))
    let cat = hall.nodes[last]
    #expect(cat.told.map(\.text) == ["before"])
    for link in hall.links(last - 1, last) { hall.disconnect(link) }
    var engine = MeshEngine(
      identity: cat.engine.identity, configuration: cat.engine.configuration, random: SeededRandom(seed: 78))
    for message in cat.told { engine.restoreReceived(message.id, from: hall.nodes[0].id, at: hall.now) }
    cat.engine = engine
    hall.handle(.clock(isTrusted: true), at: last)
    hall.handle(.start, at: last)
    hall.connect(last - 1, last)
    hall.pass(.seconds(3))
    // The previous session exists on one side only, and neither node knows it.
    try hall.tell("after", to: last, as: 2, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].progress[2] == [.sent, .delivered])
    #expect(cat.told.map(\.text) == ["before", "after"])
  }

  @Test("A node has no session with a peer that has sent a leave")
  func left() throws {
    var hall = ChatTests.line(["ann", "bob"])
    try hall.tell("hello", to: 1, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].engine.hasSession(with: hall.nodes[1].id))
    hall.handle(.stop, at: 1)
    hall.pass(.seconds(1))
    #expect(!hall.nodes[0].engine.hasSession(with: hall.nodes[1].id))
  }
}
