import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Nodes of dialect S among themselves. Facts: bitchat.md section 16.1.
@Suite("Mesh nodes of dialect S")
struct DialectTests {
  /// Nodes of dialect S in a row that know each other, and the packets that they have sent until now.
  static func line(_ names: [String], frameLimit: Int = 512) -> (hall: MeshHall, air: Overheard) {
    var hall = MeshHall()
    let air = Overheard.listen(to: &hall)
    hall.add(names) { $0.dialect = .seed }
    for node in names.indices.dropLast() { hall.connect(node, node + 1, frameLimit: frameLimit) }
    hall.pass(.seconds(40))
    return (hall, air)
  }

  @Test(
    "Neighbours of dialect S exchange hellos, agree on version 2 and complete a handshake within 2 s")
  func lifecycle() throws {
    var hall = MeshHall()
    let air = Overheard.listen(to: &hall)
    hall.add(["ann", "bob"]) { $0.dialect = .seed }
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    let (ann, bob) = (hall.nodes[0], hall.nodes[1])
    #expect(ann.engine.hasSession(with: bob.id) && bob.engine.hasSession(with: ann.id))
    let hellos = air.all(0x20)
    #expect(hellos.map(\.from).sorted() == [0, 1])
    for hello in hellos {
      let packet = try #require(hello.packet)
      #expect(packet.timeToLive == 0 && packet.recipient == hall.nodes[hello.to].id && packet.signature != nil)
      #expect(try VersionHello(reading: packet.payload).versions == [.v1, .v2])
    }
    let acks = air.all(0x21).filter { $0.meaning == .versionAck }
    #expect(acks.map(\.from).sorted() == [0, 1])
    for ack in acks { #expect(try VersionAck(reading: try #require(ack.packet).payload).agreed == 2) }
    #expect(ann.engine.peer(bob.id)?.version == .v2 && bob.engine.peer(ann.id)?.version == .v2)
    // The node with the smaller ID begins: 10, then 11 as the answer, then 10.
    let first = ann.id < bob.id ? 0 : 1
    let handshake = air.packets.filter { [0x10, 0x11].contains($0.type) }
    #expect(handshake.map(\.type) == [0x10, 0x11, 0x10])
    #expect(handshake.map(\.from) == [first, 1 - first, first])
    #expect(handshake.compactMap { $0.packet?.payload.count } == [32, 96, 64])
    let end = try #require(handshake.last)
    for node in 0...1 {
      let announces = air.all(0x01, from: node)
      #expect(announces.contains { $0.at < (hellos.first?.at ?? .zero) } && announces.contains { $0.at >= end.at })
    }
  }

  @Test("Only a node that uses dialect S marks this in its announce")
  func mark() throws {
    var hall = MeshHall()
    let air = Overheard.listen(to: &hall)
    hall.add(["ann"]) { $0.dialect = .seed }
    hall.add(["bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(1))
    for announce in air.all(0x01) {
      let said = try Announcement(reading: try #require(announce.packet).payload)
      #expect((said.dialect == .seed) == (announce.from == 0) && said.capabilities == Capabilities.own)
    }
  }

  @Test(
    "A public message of dialect S is one signed, padded packet 04 with ID and sender name"
  )
  func lines() throws {
    var (hall, air) = Self.line(["ann", "bob", "cat"])
    air.forget()
    let said = hall.say("hello seed", at: 0)
    hall.pass(.seconds(2))
    #expect(hall.nodes[1].heard.map(\.text) == ["hello seed"] && hall.nodes[2].heard.map(\.text) == ["hello seed"])
    #expect(hall.nodes[2].heard.map(\.packet) == [said] && hall.nodes[2].heard.first?.nickname == "ann")
    #expect(air.all(0x02).isEmpty && air.all(0x04).map { [$0.from, $0.to] } == [[0, 1], [1, 2]])
    let line = try #require(air.all(0x04).first)
    let packet = try #require(line.packet)
    let message = try SeedMessage(reading: packet.payload)
    #expect(packet.recipient == .everybody && packet.timeToLive == 7 && packet.signature != nil)
    #expect(message.text == "hello seed" && message.sender == "ann" && !message.isPrivate)
    #expect(message.timestamp == packet.timestamp && (try? MessageUUID(text: message.id)) != nil)
    #expect(line.bytes.count == 256)
    #expect(air.all(0x04).last?.bytes[2] == 6, "passed on as it came, with one hop less")
    #expect(hall.nodes.allSatisfy { $0.engine.counters.unreadable == 0 })
  }

  @Test("A private message of dialect S is sealed in a packet 12, and its receipts are packets 05 and 06")
  func privately() throws {
    var (hall, air) = Self.line(["ann", "bob"])
    air.forget()
    try hall.tell("only for bob", to: 1, as: 7, at: 0)
    hall.pass(.seconds(2))
    let told = try #require(hall.nodes[1].told.first)
    #expect(told.text == "only for bob" && hall.nodes[1].told.count == 1)
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered])
    hall.handle(.read(told.id, from: hall.nodes[0].id), at: 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].progress[7] == [.sent, .delivered, .read])
    #expect(air.all(0x12).map(\.from) == [0] && air.all(0x11).isEmpty)
    #expect(air.packets.allSatisfy { $0.type == 0x01 || [256, 512].contains($0.bytes.count) }, "everything is padded")
    let ack = try SeedDeliveryAck(reading: try #require(air.all(0x05).first?.packet).payload)
    #expect(ack.message.description == told.id.text && ack.recipient == hall.nodes[1].id && ack.nickname == "bob")
    #expect(ack.hops == 1)
    let receipt = try SeedReadReceipt(reading: try #require(air.all(0x06).first?.packet).payload)
    #expect(receipt.message.description == told.id.text && receipt.reader == hall.nodes[1].id)
    for type in [0x05, 0x06] as [UInt8] {
      let packet = try #require(air.all(type).first?.packet)
      #expect(packet.signature != nil && packet.recipient == hall.nodes[0].id && air.all(type).count == 1)
    }
    #expect(air.all(0x12).first?.packet?.signature == nil)
  }

  @Test("A sealed private message of dialect S is a packet 04 with UUID, both nicknames and the private flag")
  func inside() throws {
    var (hall, _) = Self.line(["ann", "bob"])
    var sealed: [UInt8] = []
    hall.passes = { bytes, _, _ in
      if bytes[1] == 0x12 { sealed = bytes }
      return bytes[1] != 0x12
    }
    try hall.tell("psst", to: 1, as: 1, at: 0)
    hall.pass(.milliseconds(100))
    let packet = try Packet(decoding: sealed)
    let actions = hall.nodes[1].engine.messages.handle(
      .message(hall.nodes[0].id, packet.payload), PeerTable(), at: hall.now)
    let plaintexts = actions.compactMap { if case .opened(_, let plaintext) = $0 { plaintext } else { nil } }
    let inner = try Packet(decoding: try #require(plaintexts.first))
    #expect(inner.type.rawValue == 0x04 && inner.sender == hall.nodes[0].id && inner.recipient == hall.nodes[1].id)
    let message = try SeedMessage(reading: inner.payload)
    #expect(
      message.text == "psst" && message.sender == "ann" && message.recipientNickname == "bob" && message.isPrivate)
    #expect((try? MessageUUID(text: message.id)) != nil)
  }

  @Test(
    "A node of dialect S relays the handshake, private messages and receipts of two others")
  func line() throws {
    var (hall, air) = Self.line(["ann", "bob", "cat"])
    air.forget()
    try hall.tell("for cat", to: 2, as: 1, at: 0)
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered] && hall.nodes[2].told.map(\.text) == ["for cat"])
    let handshake = air.packets.filter { [0x10, 0x11].contains($0.type) && $0.from != 1 }
    #expect(handshake.map(\.type) == [0x10, 0x11, 0x10])
    #expect(air.all(0x12, from: 1).count > 0 && air.all(0x05, from: 1).count == 1)
    #expect(hall.nodes[1].told.isEmpty)
  }

  @Test(
    "A dialect S packet above the frame limit is sent as fragments 0A, 0B and 0C, 200 ms apart", arguments: [185, 512])
  func fragments(frameLimit: Int) throws {
    var (hall, air) = Self.line(["ann", "bob"], frameLimit: frameLimit)
    air.forget()
    let text = LimitStage.text(1500)
    _ = hall.say(text, at: 0)
    hall.pass(.seconds(10))
    #expect(hall.nodes[1].heard.map(\.text) == [text])
    let all = air.packets.filter { $0.from == 0 && (0x0A...0x0C).contains($0.type) }
    // A sync request that arrives meanwhile is answered with the same packets again.
    let parts = all.prefix { $0.type != 0x0C } + all.filter { $0.type == 0x0C }.prefix(1)
    #expect(parts.count > 2 && air.all(0x20).isEmpty)
    #expect(parts.first?.type == 0x0A && parts.last?.type == 0x0C)
    #expect(parts.dropFirst().dropLast().allSatisfy { $0.type == 0x0B })
    #expect(parts.allSatisfy { $0.bytes.count <= frameLimit && $0.packet?.signature == nil })
    for (one, next) in zip(parts, parts.dropFirst()) { #expect(one.at.duration(to: next.at) == .milliseconds(200)) }
    let inner = try Fragment(reading: try #require(parts.first?.packet).payload)
    #expect(inner.type.rawValue == 0x04 && Int(inner.total) == parts.count)
  }

  @Test("A long private text of dialect S arrives complete and is acknowledged")
  func longPrivate() throws {
    var (hall, air) = Self.line(["ann", "bob"], frameLimit: 185)
    try hall.tell(LimitStage.text(600), to: 1, as: 1, at: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[1].told.map(\.text).joined() == LimitStage.text(600))
    #expect(hall.nodes[0].progress[1]?.last == .delivered && !air.all(0x0B).isEmpty && air.all(0x20).count == 2)
  }

  @Test("A node of dialect S leaves with a signed packet 07, and all nodes remove it within 1 s")
  func leaving() {
    var (hall, air) = Self.line(["ann", "bob", "cat"])
    air.forget()
    hall.handle(.stop, at: 0)
    hall.pass(.seconds(1))
    #expect(air.all(0x03).isEmpty && air.all(0x07).map { [$0.from, $0.to] } == [[0, 1], [1, 2]])
    #expect(hall.nodes[1].gone == [hall.nodes[0].id] && hall.nodes[2].gone == [hall.nodes[0].id])
    #expect(air.all(0x07).first?.packet?.payload == [] && air.all(0x07).first?.packet?.signature != nil)
  }

  @Test("A new node of dialect S requests sync after 5 s and gets the earlier public messages")
  func sync() throws {
    var (hall, air) = Self.line(["ann", "bob"])
    for number in 0..<3 { _ = hall.say("line \(number)", at: 0) }
    hall.pass(.seconds(5))
    hall.add(["cat"]) { $0.dialect = .seed }
    air.forget()
    let met = hall.now
    hall.connect(1, 2)
    hall.pass(.seconds(12))
    #expect(hall.nodes[2].heard.map(\.text) == ["line 0", "line 1", "line 2"])
    #expect(hall.nodes[2].heard.allSatisfy { $0.isLate && $0.sender == hall.nodes[0].id })
    let requests = air.all(0x21, from: 2).filter { $0.meaning == .requestSync }
    let request = try #require(requests.first)
    #expect(met.duration(to: request.at) >= .seconds(5) && met.duration(to: request.at) < .seconds(6))
    let said = try SyncRequest(reading: try #require(request.packet).payload)
    #expect(said.types == nil && said.since == nil && said.fragments.isEmpty)
    let answers = air.all(0x04, from: 1)
    #expect(answers.count == 3 && answers.allSatisfy { $0.bytes[2] == 0 && $0.packet?.isSyncAnswer == false })
    #expect(requests.count == 1, "the next one is after half a minute")
  }

  @Test("After 400 messages the filter of a dialect S sync request has 200 to 256 bytes")
  func filter() throws {
    var (hall, air) = Self.line(["ann", "bob"])
    for number in 0..<400 {
      _ = hall.say("line \(number)", at: 0)
      hall.pass(.milliseconds(20))
    }
    air.forget()
    hall.pass(.seconds(60))
    let requests = air.all(0x21).filter { $0.meaning == .requestSync }.compactMap(\.packet)
    let filters = try requests.map { try SyncRequest(reading: $0.payload).filter.bits.count }
    #expect(!filters.isEmpty && filters.allSatisfy { (200...256).contains($0) })
  }

  @Test("Favourite notices, verification and key proofs work in sessions of dialect S")
  func notices() {
    var (hall, _) = Self.line(["ann", "bob"])
    hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
    hall.pass(.seconds(1))
    #expect(hall.nodes[1].favourited == [hall.nodes[0].id])
    #expect(hall.nodes.allSatisfy { $0.engine.counters.unreadable == 0 && $0.engine.counters.unknownPayloads == 0 })
  }

  @Test("A lost message of dialect S is sent again, shown once and acknowledged")
  func retry() throws {
    var (hall, air) = Self.line(["ann", "bob"])
    var lost = 0
    hall.passes = { bytes, _, _ in
      guard bytes[1] == 0x12 || bytes[1] == 0x05, lost < 2 else { return true }
      lost += 1
      return false
    }
    try hall.tell("again", to: 1, as: 1, at: 0)
    hall.pass(.seconds(120))
    #expect(lost == 2 && hall.nodes[1].told.count == 1 && hall.nodes[0].progress[1]?.last == .delivered)
    #expect(air.all(0x11).allSatisfy { $0.packet?.payload.count == 96 }, "nothing but answers of handshakes")
  }
}
