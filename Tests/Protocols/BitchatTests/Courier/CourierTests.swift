import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Messages carried by couriers")
struct CourierTests {
  /// Nodes that are out of each other's range after all have met: all know the others' keys, and no node counts as
  /// nearby.
  static func apart(
    _ names: [String], seed: UInt64 = 1, _ adjust: (inout MeshEngine.Configuration) -> Void = { _ in }
  ) -> MeshHall {
    var hall = MeshHall(seed: seed)
    hall.add(names, adjust)
    for node in names.indices {
      for other in names.indices.dropFirst(node + 1) { hall.connect(node, other) }
    }
    hall.pass(.seconds(3))
    for link in hall.wires.keys.sorted(by: { $0.number < $1.number }) { hall.disconnect(link) }
    hall.pass(.seconds(400))
    return hall
  }

  /// Connects two nodes for a while.
  static func meet(_ one: Int, _ other: Int, for duration: Duration = .seconds(30), in hall: inout MeshHall) {
    let link = hall.connect(one, other)
    hall.pass(duration)
    hall.disconnect(link)
    hall.pass(.seconds(1))
  }

  @Test(
    "A courier delivers a message once, brings the receipt back, and then stores no envelope"
  )
  func carriedAndBack() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    // Bob carries two receipts of a favourite, and one message.
    hall.handle(.favourite(hall.nodes[2].id, true), at: 1)
    hall.nodes[2].engine.favour(by: hall.nodes[1].id, true)
    try hall.tell("when you are back", to: 2, as: 7, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].progress[7] == nil)
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[0].progress[7] == [.sent] && hall.nodes[1].engine.carried == 1)
    #expect(hall.nodes[1].told.isEmpty)
    // Ann leaves. An hour later Bob meets Cem.
    hall.pass(.seconds(3600))
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["when you are back"])
    #expect(hall.nodes[2].toldFrom == [hall.nodes[0].id])
    #expect(hall.nodes[0].progress[7] == [.sent])
    Self.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered])
    // Cem reads the message, and Bob meets her again.
    let message = try #require(hall.nodes[2].told.first)
    hall.handle(.read(message.id, from: hall.nodes[0].id), at: 2)
    Self.meet(1, 2, in: &hall)
    Self.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered, .read])
    #expect(hall.nodes[2].told.count == 1)
    hall.leap(.seconds(25 * 3600))
    hall.pass(.seconds(60))
    for node in hall.nodes {
      #expect(node.engine.courier.desk.held == [0, 0, 0, 0, 0, 0], "\(node.name)")
      #expect(node.engine.messages.outbox.waiting == 0)
    }
    // The records of all envelopes are deleted.
    for node in hall.nodes { #expect(node.carriedIDs.isEmpty, "\(node.name)") }
  }

  /// A peer leaves, with or without a leave packet, and a message to it is sent before or after its links have ended.
  @Test(
    "A message to a peer that sent a leave goes to a courier at once; for one that vanished after 30 s",
    arguments: [true, false], [true, false])
  func left(saysSo: Bool, isEarly: Bool) throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    for (one, other) in [(0, 1), (0, 2), (1, 2)] { hall.connect(one, other) }
    hall.pass(.seconds(20))
    if saysSo { hall.handle(.stop, at: 2) }
    hall.pass(.milliseconds(200))
    hall.passes = { _, from, to in from != 2 && to != 2 }
    if isEarly {
      try hall.tell("when you are back", to: 2, as: 7, at: 0)
      hall.pass(.seconds(1))
      #expect(hall.nodes[1].engine.carried == (saysSo ? 1 : 0))
    }
    for link in hall.links(0, 2) + hall.links(1, 2) { hall.disconnect(link) }
    if !isEarly { try hall.tell("when you are back", to: 2, as: 7, at: 0) }
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].engine.carried == (saysSo ? 1 : 0))
    hall.pass(.seconds(40))
    #expect(hall.nodes[1].engine.carried == 1)
  }

  @Test("A message that was not acknowledged over a link goes to a courier when the link ends")
  func ended() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    for (one, other) in [(0, 1), (0, 2), (1, 2)] { hall.connect(one, other) }
    hall.pass(.seconds(20))
    hall.passes = { _, from, to in from != 2 && to != 2 }
    try hall.tell("are you there?", to: 2, as: 7, at: 0)
    hall.pass(.seconds(50))
    #expect(hall.nodes[1].engine.carried == 0)
    for link in hall.links(0, 2) + hall.links(1, 2) { hall.disconnect(link) }
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].engine.carried == 1)
  }

  @Test("A message that arrives both directly and by courier is shown once")
  func direct() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    try hall.tell("once", to: 2, as: 1, at: 0)
    Self.meet(0, 1, in: &hall)
    Self.meet(0, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["once"])
    #expect(hall.nodes[0].progress[1]?.last == .delivered)
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.count == 1)
    #expect(hall.nodes[2].engine.counters.courier.opened == 1)
    // In the opposite order: Cem meets the courier first, then Ann.
    try hall.tell("twice said", to: 2, as: 2, at: 0)
    hall.pass(.seconds(400))
    Self.meet(0, 1, in: &hall)
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.count == 2)
    Self.meet(0, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["once", "twice said"])
    #expect(hall.nodes[0].progress[2]?.last == .delivered)
  }

  @Test("A message to a peer that does not answer goes to a courier even if a packet of the peer was just received")
  func silent() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    let link = hall.connect(0, 2)
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    hall.disconnect(link)
    try hall.tell("are you there?", to: 2, as: 1, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].engine.carried == 0, "nothing shows yet that Cem has gone")
    hall.pass(.seconds(60))
    #expect(hall.nodes[1].engine.carried == 1)
  }

  @Test(
    "A link that replays a departed peer's announce does not prevent couriers from getting its messages"
  )
  func borrowedLink() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    let link = hall.connect(0, 2)
    hall.connect(0, 1)
    let cem = hall.nodes[2].id
    var last: [UInt8] = []
    hall.passes = { bytes, from, to in
      if from == 2, to == 0, bytes[1] == MessageType.announce.rawValue { last = bytes }
      return true
    }
    hall.pass(.seconds(5))
    hall.disconnect(link)
    hall.pass(.seconds(60))
    let eve = hall.connect(to: 0)
    hall.inject(last.with(7, at: 2), on: eve, to: 0)
    #expect(hall.nodes[0].engine.neighbours.contains(cem))
    try hall.tell("are you there?", to: 2, as: 1, at: 0)
    let stranger = Stranger(9)
    for _ in 0..<6 {
      hall.pass(.seconds(60))
      hall.inject(stranger.line("something", at: hall.time), on: eve, to: 0)
    }
    #expect(hall.nodes[0].engine.peer(cem) == nil && hall.nodes[1].engine.carried == 1)
  }

  @Test("A message to a neighbour is not given to couriers")
  func neighbour() throws {
    var hall = ChatTests.line(["ann", "bob"])
    hall.add(["cem"])
    hall.connect(0, 2)
    hall.pass(.seconds(3))
    hall.nodes[1].keeps = false
    try hall.tell("for my neighbour", to: 1, at: 0)
    hall.pass(.seconds(200))
    #expect(hall.nodes[0].engine.counters.courier.deposited == 0 && hall.nodes[2].engine.carried == 0)
  }

  @Test("A message goes to 3 neighbours at once, then to each new neighbour, and to at most 8 couriers")
  func couriers() throws {
    let names = (0..<13).map { "n\($0)" }
    var hall = Self.apart(names)
    var links = (1...5).map { hall.connect(0, $0) }
    hall.pass(.seconds(30))
    try hall.tell("to the last one", to: 12, as: 1, at: 0)
    hall.pass(.seconds(1))
    let first = (1...11).filter { hall.nodes[$0].engine.carried == 1 }
    #expect(first.count == 3)
    // Two nodes that were present and received no copy receive none when the first ones return.
    for link in links { hall.disconnect(link) }
    links = first.map { hall.connect(0, $0) }
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].engine.counters.courier.deposited == 3)
    for (index, node) in (6...11).enumerated() {
      links.append(hall.connect(0, node))
      hall.pass(.seconds(30))
      #expect(hall.nodes[node].engine.carried == (index < 5 ? 1 : 0), "\(node)")
    }
    #expect(hall.nodes[0].engine.counters.courier.deposited == 8)
    let repeated = hall.nodes.map(\.engine.counters.courier.repeated).reduce(0, +)
    #expect(repeated == 0)
  }

  @Test("A hand-over halves the copies of an envelope, and a courier that has the envelope gets no second one")
  func halving() throws {
    var hall = Self.apart(["ann", "b", "c", "d", "e", "far"])
    try hall.tell("spread it", to: 5, as: 1, at: 0)
    Self.meet(0, 1, in: &hall)
    func copies(_ node: Int) -> [UInt8] {
      hall.nodes[node].engine.courier.desk.bag.envelopes.values.map(\.envelope.copies)
    }
    #expect(copies(1) == [4])
    Self.meet(1, 2, in: &hall)
    #expect(copies(1) == [2] && copies(2) == [2])
    Self.meet(1, 2, in: &hall)
    #expect(copies(1) == [2] && copies(2) == [2])
    Self.meet(2, 3, in: &hall)
    #expect(copies(2) == [1] && copies(3) == [1])
    Self.meet(2, 4, in: &hall)
    Self.meet(3, 4, in: &hall)
    #expect(copies(4).isEmpty, "the last copy is for its recipient alone")
    Self.meet(1, 0, in: &hall)
    #expect(copies(0).isEmpty && copies(1) == [2], "it does not go back to its sender")
    Self.meet(3, 5, in: &hall)
    #expect(hall.nodes[5].told.map(\.text) == ["spread it"])
    // The other couriers deliver it as well.
    Self.meet(1, 5, in: &hall)
    Self.meet(2, 5, in: &hall)
    #expect(hall.nodes[5].told.count == 1)
  }

  @Test("An envelope is also sent over several hops, but not at each announce, and stays until handed over")
  func overHops() throws {
    var hall = Self.apart(["ann", "bob", "dan", "cem"])
    try hall.tell("far away", to: 3, as: 1, at: 0)
    Self.meet(0, 1, in: &hall)
    hall.connect(2, 3)
    hall.pass(.seconds(30))
    // Dan receives a copy from Bob, and is not a courier of it: Bob has no copies left to give away.
    var bob = Courier(limit: CourierStore.usualLimit)
    for var carried in hall.nodes[1].engine.courier.desk.bag.envelopes.values {
      carried.envelope.copies = 1
      let isRestored = bob.restore(carried)
      #expect(isRestored)
    }
    hall.nodes[1].engine.courier = bob
    hall.connect(1, 2)
    hall.pass(.seconds(60))
    #expect(hall.nodes[3].told.map(\.text) == ["far away"])
    let letter = try #require(
      hall.nodes[1].engine.courier.desk.bag.envelopes.values.first { $0.depositor == hall.nodes[0].id })
    #expect(hall.nodes[1].engine.counters.courier.sentOverHops == 1 && letter.handed == 0)
    #expect(
      hall.nodes[2].engine.courier.desk.bag.envelopes[letter.id] == nil, "Dan passes it on, and does not carry it")
    hall.pass(.seconds(300))
    #expect(hall.nodes[1].engine.counters.courier.sentOverHops == 2)
    #expect(hall.nodes[3].told.count == 1)
  }

  @Test("A courier envelope that is lost because its link is cut is handed over again")
  func cutAtHandOver() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    try hall.tell("through the cut", to: 2, as: 1, at: 0)
    Self.meet(0, 1, in: &hall)
    hall.passes = { bytes, from, _ in bytes[1] != MessageType.courier.rawValue || from != 1 }
    Self.meet(1, 2, for: .seconds(3), in: &hall)
    hall.passes = { _, _, _ in true }
    #expect(hall.nodes[2].told.isEmpty && hall.nodes[1].engine.counters.courier.handedOver == 1)
    hall.pass(.seconds(60))
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["through the cut"])
  }

  @Test("A private text of up to 5 pieces goes by courier as a whole, and a longer text does not")
  func pieces() throws {
    var hall = Self.apart(["ann", "bob", "cem", "dan"])
    hall.handle(.favourite(hall.nodes[0].id, true), at: 1)
    hall.nodes[0].engine.favour(by: hall.nodes[1].id, true)
    let text = LimitStage.text(1000)
    try hall.tell(text, to: 2, as: 1, at: 0)
    try hall.tell(LimitStage.text(1500), to: 3, as: 2, at: 0)
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[1].engine.carried == 4 || hall.nodes[1].engine.carried == 5)
    #expect(hall.nodes[0].progress[2] == nil)
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text).joined() == text)
    Self.meet(1, 0, in: &hall)
    #expect(hall.nodes[0].progress[1]?.contains(.sent) == true)
  }

  @Test("A message expires at its sender and at couriers 24 h after it was written")
  func day() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    try hall.tell("too late", to: 2, as: 1, at: 0)
    hall.pass(.seconds(20 * 3600))
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[1].engine.carried == 1)
    hall.pass(.seconds(3 * 3600))
    #expect(hall.nodes[1].engine.carried == 1)
    hall.pass(.seconds(3600))
    #expect(hall.nodes[1].engine.carried == 0 && hall.nodes[1].engine.counters.courier.expired == 1)
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.isEmpty)
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[0].progress[1]?.last == .failed)
  }

  @Test("Carried and deposited courier envelopes are known after a restart")
  func restart() throws {
    var hall = Self.apart(["ann", "bob", "cem"])
    try hall.tell("kept", to: 2, as: 1, at: 0)
    Self.meet(0, 1, in: &hall)
    hall.restart(0)
    hall.restart(1)
    #expect(hall.nodes[1].engine.carried == 1)
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[0].engine.counters.courier.deposited == 0, "Bob has it already")
    hall.add(["dan"])
    Self.meet(0, 3, in: &hall)
    #expect(hall.nodes[3].engine.carried == 1, "the key of Cem is kept with the message")
    Self.meet(1, 2, in: &hall)
    #expect(hall.nodes[2].told.map(\.text) == ["kept"])
    Self.meet(3, 2, in: &hall)
    #expect(hall.nodes[2].told.count == 1)
  }

  @Test("Peers that announce no courier slots, such as Android phones and relays, get no envelopes")
  func ableOnes() throws {
    var hall = Self.apart(["ann", "bob", "far"])
    hall.add(["relay"]) { $0.role = .relay }
    var (others, links): ([Stranger], [LinkID]) = ([], [])
    func envelopes(of node: Int) -> Int {
      links.map { link in hall.nodes[node].sent[link, default: []].count { $0[1] == MessageType.courier.rawValue } }
        .reduce(0, +)
    }
    let unable: [Capabilities?] = [nil, [], .privateMedia, [.privateMedia, Capabilities(rawValue: 1 << 14)]]
    // Ann has an envelope, and none of the five neighbours can be its courier.
    hall.connect(0, 3)
    for (number, capabilities) in unable.enumerated() {
      others.append(Stranger(UInt64(number)))
      links.append(hall.connect(to: 0))
      hall.inject(others[number].announce(at: hall.time, capabilities: capabilities), on: links[number], to: 0)
    }
    hall.pass(.seconds(5))
    try hall.tell("who takes it?", to: 2, as: 1, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].engine.counters.courier.deposited == 0 && envelopes(of: 0) == 0)
    Self.meet(0, 1, in: &hall)
    #expect(hall.nodes[0].engine.counters.courier.deposited == 1 && hall.nodes[1].engine.carried == 1)
    // Bob has no courier for his copies either, except an iPhone.
    links = []
    hall.connect(1, 3)
    for (number, capabilities) in unable.enumerated() {
      links.append(hall.connect(to: 1))
      hall.inject(others[number].announce(at: hall.time, capabilities: capabilities), on: links[number], to: 1)
    }
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].engine.counters.courier.copied == 0 && envelopes(of: 1) == 0)
    links = [hall.connect(to: 1)]
    let phone: Capabilities = [.prekeys, .groups, .vouch, .privateMedia, .privateMediaReceipts]
    hall.inject(Stranger(50).announce(at: hall.time, capabilities: phone), on: links[0], to: 1)
    #expect(hall.nodes[1].engine.counters.courier.copied == 1 && envelopes(of: 1) == 1)
  }

  @Test("A relay neither stores nor deposits courier envelopes, but relays them")
  func relay() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.add(["relay"]) { $0.role = .relay }
    hall.add(["bob"])
    hall.connect(0, 1)
    hall.connect(1, 2)
    hall.pass(.seconds(30))
    let cem = Stranger(1)
    hall.connect(stranger: cem, to: 0)
    hall.pass(.seconds(500))
    try hall.tell("carry it", to: cem.id, as: 1, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[1].engine.carried == 0 && hall.nodes[1].engine.counters.courier == CourierCounters())
  }

  /// Five people who meet and part at random for some hours, and send messages to each other.
  @Test(
    "In any order of meetings each message by courier is shown once, and no envelope remains",
    arguments: Array(1...8) as [UInt64])
  func randomOrders(seed: UInt64) throws {
    let people = 5
    var hall = Self.apart((0..<people).map { "p\($0)" }, seed: seed)
    var random = SeededRandom(seed: seed &* 7919)
    func draw(_ limit: Int) -> Int { Int(random.bytes(4).reduce(0) { $0 << 8 | UInt64($1) }) % limit }
    var said: [(from: Int, to: Int, number: UInt32, text: String)] = []
    for step in 0..<40 {
      let (one, other) = (draw(people), draw(people))
      guard one != other else { continue }
      switch draw(10) {
      case 0...2 where said.count < 12:
        let number = UInt32(step + 1)
        said.append((one, other, number, "\(seed) \(step)"))
        try hall.tell(said[said.count - 1].text, to: other, as: number, at: one)
      case 3...6:
        if hall.links(one, other).isEmpty { hall.connect(one, other) }
      case 7...8:
        for link in hall.links(one, other) { hall.disconnect(link) }
      default:
        if let message = hall.nodes[one].told.last, let from = hall.nodes[one].toldFrom.last {
          hall.handle(.read(message.id, from: from), at: one)
        }
      }
      hall.pass(.seconds(Int64(draw(4) == 0 ? draw(600) : draw(60))))
    }
    let carriedOnly = hall.nodes.map(\.engine.counters.courier.opened).reduce(0, +)
    // At the end all nodes are connected for a while.
    for one in 0..<people {
      for other in (one + 1)..<people where hall.links(one, other).isEmpty { hall.connect(one, other) }
    }
    hall.pass(.seconds(120))
    for message in said {
      let told = hall.nodes[message.to].told.filter { $0.text == message.text }
      #expect(told.count == 1, "\(message.text), \(carriedOnly) opened before")
      let last = hall.nodes[message.from].progress[message.number]?.last
      #expect(last == .delivered || last == .read, "\(message.text)")
      let states = hall.nodes[message.from].progress[message.number] ?? []
      #expect(Set(states).count == states.count, "each tick comes once")
    }
    for link in hall.wires.keys.sorted(by: { $0.number < $1.number }) { hall.disconnect(link) }
    hall.leap(.seconds(25 * 3600))
    hall.pass(.seconds(60))
    for node in hall.nodes {
      #expect(node.engine.courier.desk.held == [0, 0, 0, 0, 0, 0] && node.carriedIDs.isEmpty, "\(node.name)")
    }
  }
}
