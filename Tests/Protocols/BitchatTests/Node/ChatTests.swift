import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Messages between mesh nodes")
struct ChatTests {
  /// Nodes in a row, each connected to the next, that know each other.
  static func line(_ names: [String], seed: UInt64 = 1, _ adjust: (inout MeshEngine.Configuration) -> Void = { _ in })
    -> MeshHall
  {
    var hall = MeshHall(seed: seed)
    hall.add(names, adjust)
    for node in names.indices.dropLast() { hall.connect(node, node + 1) }
    hall.pass(.seconds(25))
    return hall
  }

  @Test("Two connected nodes know each other's nickname within 1 s")
  func neighbours() {
    var hall = MeshHall()
    hall.add(["ann", "bea"])
    #expect(hall.nodes[0].engine.state == .alone)
    hall.connect(0, 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].engine.neighbours == [hall.nodes[1].id])
    #expect(hall.nodes[1].engine.neighbours == [hall.nodes[0].id])
    #expect(hall.nodes[0].engine.peer(hall.nodes[1].id)?.nickname == "bea")
    #expect(hall.nodes[0].engine.state == .connected)
  }

  @Test("A public message reaches each of 7 nodes in a row once, and not a node beyond 7 hops")
  func sevenHops() throws {
    var hall = Self.line((0..<9).map { "n\($0)" })
    let saying = hall.say("hello", at: 0)
    let said = try #require(saying)
    hall.pass(.seconds(2))
    for node in 1...7 {
      #expect(hall.nodes[node].heard.map(\.packet) == [said], "node \(node)")
      #expect(hall.nodes[node].heard.first?.nickname == "n0")
    }
    #expect(hall.nodes[8].heard.isEmpty)
    #expect(hall.nodes[0].heard.isEmpty)
  }

  @Test("In a ring each node receives a public message once, with at most 40 packets in total")
  func ring() throws {
    var hall = Self.line((0..<6).map { "n\($0)" })
    hall.connect(5, 0)
    hall.pass(.seconds(20))
    let before = hall.packets
    let said = hall.say("hello", at: 0)
    #expect(said != nil)
    hall.pass(.milliseconds(900))
    for node in 1...5 { #expect(hall.nodes[node].heard.map(\.text) == ["hello"]) }
    #expect(hall.packets - before <= 40)
  }

  @Test("A public text of several kilobytes is sent in fragments and arrives complete two hops away")
  func longText() throws {
    var hall = Self.line(["ann", "bob", "cem"])
    let text = (0..<400).map { "word\($0 * 7919 % 1000)" }.joined(separator: " ")
    let said = hall.say(text, at: 0)
    #expect(said != nil)
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].heard.map(\.text) == [text])
    #expect(hall.nodes[2].heard.map(\.text) == [text])
  }

  @Test("A private text arrives two hops away, and its sender gets the states delivered and read")
  func privateText() throws {
    var hall = Self.line(["ann", "bob", "cem"])
    try hall.tell("only for you", to: 2, as: 7, at: 0)
    hall.pass(.seconds(3))
    #expect(hall.nodes[2].told.map(\.text) == ["only for you"])
    #expect(hall.nodes[1].told.isEmpty)
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered])
    let message = try #require(hall.nodes[2].told.first)
    hall.handle(.read(message.id, from: hall.nodes[0].id), at: 2)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered, .read])
  }

  @Test("A private text is not readable on any link of its route")
  func secrecy() throws {
    var hall = Self.line(["ann", "bob", "cem"])
    let text = "only for you and for nobody else"
    var isSeen = false
    hall.passes = { bytes, _, _ in
      let needle = Array(text.utf8)
      if bytes.count >= needle.count {
        for start in 0...(bytes.count - needle.count) where bytes[start..<start + needle.count] == needle[...] {
          isSeen = true
        }
      }
      return true
    }
    try hall.tell(text, to: 2, at: 0)
    hall.pass(.seconds(3))
    #expect(hall.nodes[2].told.count == 1)
    #expect(!isSeen)
  }

  @Test("A long private text is split, and counts as delivered when its last piece is")
  func longPrivateText() throws {
    var hall = Self.line(["ann", "bob"])
    let text = String(repeating: "äöü €", count: 100)
    try hall.tell(text, to: 1, as: 3, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].told.count > 1)
    #expect(hall.nodes[1].told.map(\.text).joined() == text)
    #expect(hall.nodes[0].progress[3] == [.sent, .delivered])
  }

  @Test("A private message is acknowledged only after the recipient's service has stored it")
  func notKept() throws {
    var hall = Self.line(["ann", "bob"])
    hall.nodes[1].keeps = false
    try hall.tell("hello", to: 1, as: 1, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].told.count == 1)
    #expect(hall.nodes[0].progress[1] == [.sent])
    hall.nodes[1].keeps = true
    // The message is sent again, reported once, and acknowledged now.
    hall.pass(.seconds(60))
    #expect(hall.nodes[1].told.count == 1)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
  }

  @Test("A message to an absent peer is delivered when the peer returns")
  func away() throws {
    var hall = Self.line(["ann", "bob", "cem"])
    let link = try #require(hall.links(1, 2).first)
    hall.disconnect(link)
    hall.handle(.stop, at: 2)
    hall.pass(.seconds(400))
    #expect(hall.nodes[0].engine.peer(hall.nodes[2].id) == nil)
    try hall.tell("for later", to: 2, as: 5, at: 0)
    hall.pass(.seconds(600))
    // Bob carries the message meanwhile.
    #expect(hall.nodes[0].progress[5] == [.sent] && hall.nodes[1].engine.carried == 1)
    hall.handle(.start, at: 2)
    hall.connect(1, 2)
    hall.pass(.seconds(40))
    #expect(hall.nodes[2].told.map(\.text) == ["for later"])
    #expect(hall.nodes[0].progress[5] == [.sent, .delivered])
  }

  @Test("With 33% packet loss each private message is delivered exactly once", arguments: UInt64(1)...5)
  func loss(seed: UInt64) throws {
    var hall = Self.line(["ann", "bob"], seed: seed)
    hall.loss = 33
    for number in UInt32(1)...10 {
      try hall.tell("message \(number)", to: 1, as: number, at: 0)
      hall.pass(.seconds(10))
    }
    hall.pass(.seconds(1500))
    #expect(hall.nodes[1].told.count == 10)
    #expect(Set(hall.nodes[1].told.map(\.text)).count == 10)
    for number in UInt32(1)...10 { #expect(hall.nodes[0].progress[number]?.last == .delivered) }
  }

  @Test("A new node receives public messages that were sent 100 s earlier")
  func newcomer() throws {
    var hall = Self.line(["ann", "bob"])
    let said = hall.say("before you came", at: 0)
    #expect(said != nil)
    hall.pass(.seconds(100))
    hall.add(["new"])
    hall.connect(1, 2)
    hall.pass(.seconds(40))
    #expect(hall.nodes[2].heard.map(\.text) == ["before you came"])
    #expect(hall.nodes[2].heard.first?.isLate == true)
    // The message is reported once, however often sync is requested.
    hall.pass(.seconds(100))
    #expect(hall.nodes[2].heard.count == 1)
  }

  @Test("A node that sends a leave is removed at every node within 1 s")
  func leave() {
    var hall = Self.line(["ann", "bob", "cem"])
    hall.handle(.stop, at: 2)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].gone == [hall.nodes[2].id])
    #expect(hall.nodes[0].engine.peer(hall.nodes[2].id) == nil)
  }

  @Test("A blocked peer's messages are neither shown nor answered, but its public messages are relayed")
  func blocked() throws {
    var hall = Self.line(["ann", "bob", "cem"])
    hall.handle(.block(hall.nodes[0].id, true), at: 1)
    let said = hall.say("hello", at: 0)
    #expect(said != nil)
    try hall.tell("psst", to: 1, at: 0)
    try hall.sendFile((0..<5000).map { UInt8($0 * $0 >> 3 & 255) }, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].heard.isEmpty && hall.nodes[1].told.isEmpty && hall.nodes[1].files.isEmpty)
    #expect(hall.nodes[2].heard.map(\.text) == ["hello"] && hall.nodes[2].files.count == 1)
    // This node does not store the fragments for later sync requests.
    let kept = hall.nodes.map(\.engine.gossip.archive.fragmentCount)
    #expect(kept[1] == 0 && kept[2] > 0)
  }

  @Test("A blocked peer's links stay up, and its announces are handled", arguments: [false, true])
  func blockedLink(blocksRelay: Bool) {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"]) { $0.blocksRelay = blocksRelay }
    let (ann, bob) = (hall.nodes[0].id, hall.nodes[1])
    hall.handle(.block(ann, true), at: 1)
    hall.connect(0, 1)
    hall.connect(1, 2)
    hall.pass(.seconds(60))
    #expect(bob.engine.neighbours == [ann, hall.nodes[2].id])
    #expect(bob.engine.peer(ann)?.nickname == "ann")
    #expect(bob.cuts.isEmpty)
    #expect((hall.nodes[2].engine.peer(ann) == nil) == blocksRelay)
    #expect(bob.engine.gossip.archive.messageCount == 0)
    hall.handle(.stop, at: 0)
    hall.pass(.seconds(1))
    #expect(bob.gone == [ann])
  }

  @Test("With `blocksRelay`, the packets of a blocked peer are not relayed")
  func blockedRelay() throws {
    var hall = Self.line(["ann", "bob", "cem"]) { $0.blocksRelay = true }
    hall.handle(.block(hall.nodes[0].id, true), at: 1)
    let said = hall.say("hello", at: 0)
    #expect(said != nil)
    hall.pass(.seconds(5))
    #expect(hall.nodes[2].heard.isEmpty)
  }

  @Test("A relay relays packets, and neither sends, stores nor answers messages")
  func relayOnly() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.add(["relay"]) { $0.role = .relay }
    hall.add(["cem"])
    hall.connect(0, 1)
    hall.connect(1, 2)
    hall.pass(.seconds(25))
    let said = hall.say("hello", at: 0)
    #expect(said != nil)
    try hall.tell("psst", to: 1, as: 1, at: 0)
    try hall.tell("psst", to: 2, as: 2, at: 0)
    hall.pass(.seconds(10))
    #expect(hall.nodes[2].heard.map(\.text) == ["hello"])
    #expect(hall.nodes[2].told.map(\.text) == ["psst"])
    #expect(hall.nodes[1].heard.isEmpty && hall.nodes[1].told.isEmpty)
    let gossip = hall.nodes[1].kept.filter { if case .gossip = $0 { true } else { false } }
    #expect(gossip.isEmpty)
    #expect(hall.nodes[0].progress[1] == nil)
  }

  @Test("A message and its number of attempts are stored before it is sent, until it is delivered")
  func keptFirst() throws {
    var hall = Self.line(["ann", "bob"])
    try hall.tell("first", to: 1, as: 1, at: 0)
    hall.pass(.seconds(2))
    let ann = hall.nodes[0]
    let actions = try ann.engine.tell("second", to: hall.nodes[1].id, as: 2, at: hall.now, time: hall.time)
    var tries: [Int] = []
    for action in actions {
      switch action {
      case .keep(.outgoing(let message)): tries.append(message.tries)
      case .send: #expect(tries == [0, 1])
      default: break
      }
    }
    #expect(tries == [0, 1])
    #expect(ann.kept.contains(.settled(1)) && !ann.kept.contains(.settled(2)))
  }

  @Test("A receipt from a peer other than the recipient does not mark a message as delivered")
  func foreignReceipt() throws {
    var hall = Self.line(["ann", "bob", "eve"])
    try hall.tell("hello", to: 0, at: 2)
    hall.pass(.seconds(3))
    // Bob's receipts are lost.
    hall.passes = { bytes, from, _ in from != 1 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    try hall.tell("for bob", to: 1, as: 1, at: 0)
    hall.pass(.seconds(2))
    let id = try #require(hall.nodes[1].told.first?.id)
    hall.passes = { _, _, _ in true }
    let receipt = try hall.nodes[2].engine.messages.encrypt(
      NoisePayload.delivered(id).bytes, for: hall.nodes[0].id, at: hall.now)
    let packet = Packet(
      type: .noiseEncrypted, timestamp: hall.time, sender: hall.nodes[2].id, recipient: hall.nodes[0].id,
      payload: receipt)
    let link = try #require(hall.links(0, 1).first)
    hall.inject(try packet.encoded(), on: link, to: 0)
    #expect(hall.nodes[0].engine.messages.sessions.counters.opened > 1)
    #expect(hall.nodes[0].progress[1] == [.sent])
  }
}
