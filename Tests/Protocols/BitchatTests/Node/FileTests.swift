import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Files from node to node, in the simulated mesh of the engines.
@Suite("Mesh files between nodes")
struct FileTests {
  static func content(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var random = SeededRandom(seed: seed)
    return random.bytes(count)
  }

  /// Nodes in a row that know each other.
  static func line(_ count: Int, seed: UInt64 = 1) -> MeshHall {
    var hall = MeshHall(seed: seed)
    hall.add((0..<count).map { "node \($0)" })
    for place in 1..<count { hall.connect(place - 1, place) }
    hall.pass(.seconds(20))
    return hall
  }

  @Test(
    "A public file of 1 byte, 100 KB or 1 MiB arrives once at each node", arguments: [1, 100_000, 1 << 20])
  func publicFile(size: Int) throws {
    var hall = Self.line(3)
    let content = Self.content(size)
    try hall.sendFile(content, named: "a picture.bin", as: 7, at: 0)
    hall.pass(.seconds(60))
    for place in [1, 2] {
      let files = hall.nodes[place].files
      #expect(files.count == 1)
      #expect(files.first?.content == content)
      #expect(files.first?.name == "a picture.bin" && files.first?.sender == hall.nodes[0].id)
      #expect(files.first?.isPrivate == false && files.first?.nickname == "node 0")
    }
    #expect(hall.nodes[0].fileStates[7] == [.sending, .sent])
    let percents = hall.nodes[0].filePercents[7] ?? []
    #expect(percents == percents.sorted() && percents.last == 100)
    guard size <= 100_000 else { return }
    hall.pass(.seconds(600))
    #expect(hall.nodes.dropFirst().allSatisfy { $0.files.count == 1 }, "sync tells it no second time")
  }

  @Test(
    "A private file arrives encrypted, only at its recipient, and is acknowledged", arguments: [1, 100_000, 1 << 20])
  func privateFile(size: Int) throws {
    var hall = Self.line(3)
    let content = Self.content(size)
    var clear = 0
    let pattern = Array(content.prefix(40))
    hall.passes = { bytes, _, _ in
      if bytes.count > 60, bytes.windows(of: pattern.count).contains(where: { $0.elementsEqual(pattern) }) {
        clear += 1
      }
      return true
    }
    try hall.sendFile(content, named: "for you.bin", to: 2, as: 3, at: 0)
    hall.pass(.seconds(120))
    #expect(hall.nodes[2].files.map(\.content) == [content])
    #expect(hall.nodes[2].files.first?.isPrivate == true && hall.nodes[2].files.first?.name == "for you.bin")
    #expect(hall.nodes[1].files.isEmpty)
    #expect(size < 40 || clear == 0)
    let states = hall.nodes[0].fileStates[3] ?? []
    #expect(states.first == .sending && states.last == .delivered)
    // Fragments for a single peer are not sent in answer to sync requests.
    #expect(hall.nodes.allSatisfy { $0.engine.holdings.fragments == 0 })
  }

  @Test(
    "A private file to a peer that left pauses although the link stays, and arrives when the peer returns")
  func privateToWhoLeft() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.filePacketTime = .milliseconds(40)
    hall.pass(.seconds(3))
    let (ann, content) = (hall.nodes[0], Self.content(200_000))
    try hall.sendFile(content, to: 1, as: 3, at: 0)
    hall.pass(.seconds(60)) { (ann.filePercents[3]?.last ?? 0) >= 50 }
    hall.handle(.stop, at: 1)
    hall.pass(.seconds(1))
    let gone = ann.fileFrames.count
    #expect(ann.fileStates[3]?.last == .waiting && ann.withdrawn.count == 1)
    hall.pass(.seconds(10))
    #expect(ann.fileFrames.count == gone)
    #expect(hall.links(0, 1).count == 1, "the machine keeps the link")
    hall.handle(.start, at: 1)
    for link in hall.links(0, 1) { hall.disconnect(link) }
    hall.connect(0, 1)
    hall.pass(.seconds(60)) { ann.fileStates[3]?.last == .delivered }
    #expect(hall.nodes[1].files.map(\.content) == [content] && ann.fileStates[3]?.last == .delivered)
  }

  @Test(
    "With 1% frame loss a 100 KB file arrives over two hops within 90 s", arguments: Array(1...20) as [UInt64])
  func lossy(seed: UInt64) throws {
    var hall = Self.line(3, seed: seed)
    hall.loss = 1
    let content = Self.content(100_000, seed: seed)
    try hall.sendFile(content, at: 0)
    hall.pass(.seconds(90))
    #expect(hall.nodes[2].files.map(\.content) == [content])
  }

  @Test("With 1% frame loss a private file of 100 KB over two hops is delivered", arguments: [1, 2, 3, 4, 5])
  func lossyPrivate(seed: UInt64) throws {
    var hall = Self.line(3, seed: seed)
    try hall.tell("first", to: 2, at: 0)
    hall.pass(.seconds(5))
    hall.loss = 1
    let content = Self.content(100_000, seed: seed)
    try hall.sendFile(content, to: 2, as: 9, at: 0)
    hall.pass(.seconds(120))
    #expect(hall.nodes[2].files.map(\.content) == [content])
    #expect(hall.nodes[0].fileStates[9]?.last == .delivered)
  }

  @Test("A file that is cancelled at any tenth sends no further fragment and requests none", arguments: 0...9)
  func cancelled(tenth: Int) throws {
    var hall = Self.line(3)
    for (number, peer) in [(UInt32(1), nil), (2, 2)] as [(UInt32, Int?)] {
      if peer != nil {
        try hall.tell("first", to: 2, at: 0)
        hall.pass(.seconds(5))
      }
      let node = hall.nodes[0]
      try hall.sendFile(Self.content(60_000), to: peer, as: number, at: 0)
      hall.pass(.seconds(20)) { node.filePercents[number]?.last ?? 0 >= tenth * 10 }
      hall.handle(.cancelFile(number), at: 0)
      let sent = hall.nodes[0].fileFrames.count
      hall.pass(.seconds(400))
      #expect(hall.nodes[0].fileFrames.count == sent)
      #expect(hall.nodes[0].fileStates[number]?.last == .cancelled)
      #expect(hall.nodes[2].files.isEmpty)
      #expect(hall.nodes[0].engine.files.count == 0)
      #expect(hall.nodes[0].engine.gossip.archive.fragmentCount == 0)
    }
  }

  @Test("A phone gets a fragment every 25 ms; an Earshot peer gets fragments as fast as its link accepts them")
  func pace() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    hall.pass(.seconds(5))
    let begin = hall.now
    try hall.sendFile(Self.content(30_000), at: 0)
    var moments: [Instant] = []
    while begin.duration(to: hall.now) < .seconds(5) {
      let before = hall.nodes[0].sent[link, default: []].count(where: { $0[1] == MessageType.fragment.rawValue })
      hall.pass(.milliseconds(1))
      let after = hall.nodes[0].sent[link, default: []].count(where: { $0[1] == MessageType.fragment.rawValue })
      if after > before { moments += Array(repeating: hall.now, count: after - before) }
      if hall.nodes[1].files.count == 1, moments.count < 20 { #expect(begin.duration(to: hall.now) < .seconds(1)) }
    }
    // The first fragment was sent at once.
    #expect(moments.count == 64)
    let gaps = zip(moments, moments.dropFirst()).map { $0.duration(to: $1) }
    #expect(gaps.allSatisfy { $0 >= .milliseconds(24) })
    #expect(hall.nodes[1].files.count == 1)
  }

  @Test("Own and relayed fragments are sent to a phone alternately, one every 25 ms in total")
  func sharedPace() throws {
    var hall = Self.line(2)
    let link = hall.connect(stranger: Stranger(1), to: 1)
    hall.pass(.seconds(5))
    var seen = hall.nodes[1].sent[link, default: []].count
    try hall.sendFile(Self.content(20_000), as: 7, at: 0)
    try hall.sendFile(Self.content(20_000, seed: 2), as: 8, at: 1)
    var gaps: [Duration] = []
    var (senders, last): ([PeerID], Instant?) = ([], nil)
    var totals: [PeerID: Int] = [:]
    let begin = hall.now
    while begin.duration(to: hall.now) < .seconds(4) {
      hall.pass(.milliseconds(1))
      let new = hall.nodes[1].sent[link, default: []].dropFirst(seen)
      seen += new.count
      for packet in try new.map({ try PacketView($0) }) where packet.type == .fragment {
        gaps.append(last.map { $0.duration(to: hall.now) } ?? .seconds(1))
        (last, senders) = (hall.now, senders + [packet.sender])
        totals[packet.sender] = Int(try Fragment(reading: Packet(packet).payload).total)
      }
    }
    // A fragment that leaves 5 ms late does not delay others. The test looks once in a millisecond.
    #expect(gaps.allSatisfy { $0 >= .milliseconds(19) }, "\(gaps.min() as Any)")
    #expect(
      totals.count == 2 && totals.allSatisfy { sender, total in senders.count { $0 == sender } == total }, "\(totals)")
    // While both files are under way, neither waits for the other.
    let both = senders.drop { $0 == senders[0] }.prefix(60)
    #expect(both.count { $0 == hall.nodes[0].id } >= 25 && both.count { $0 == hall.nodes[1].id } >= 25, "\(both)")
  }

  @Test("A private file over several hops is paced, because a phone may relay it")
  func slowOverHops() throws {
    var hall = Self.line(3)
    try hall.sendFile(Self.content(20_000), to: 2, as: 7, at: 0)
    hall.pass(.seconds(20))
    let moments = hall.nodes[0].fileFrames
    #expect(moments.count > 40 && hall.nodes[2].files.count == 1)
    #expect(zip(moments, moments.dropFirst()).allSatisfy { $0.duration(to: $1) >= .milliseconds(20) })
  }

  @Test("Cancelling a small private file removes its packet from the queue of the link")
  func cancelledInQueue() throws {
    var hall = Self.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    try hall.sendFile([1], to: 1, as: 7, at: 0)
    let packets = hall.nodes[0].filePackets.filter { $0[1] != MessageType.ping.rawValue }
    #expect(hall.nodes[0].fileStates[7] == [.sending] && packets.count == 1 && hall.nodes[0].withdrawn.isEmpty)
    hall.handle(.cancelFile(7), at: 0)
    #expect(hall.nodes[0].fileStates[7] == [.sending, .cancelled])
    let withdrawn = hall.nodes[0].withdrawn
    #expect(withdrawn.count == 1 && packets.allSatisfy { packet in withdrawn.contains { $0.contains(packet) } })
    let other = Stranger(1).line("not that one", at: hall.time)
    #expect(!withdrawn.contains { $0.contains(other) })
  }

  @Test("Forgetting a peer ends the files for this peer, and no others")
  func forgotten() throws {
    var hall = Self.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    try hall.sendFile(Self.content(100_000), to: 1, as: 7, at: 0)
    try hall.sendFile(Self.content(100_000), to: 1, as: 8, at: 0)
    try hall.sendFile(Self.content(100_000), as: 9, at: 0)
    #expect(hall.nodes[0].fileStates == [7: [.sending], 8: [.sending]])
    hall.handle(.forget(hall.nodes[1].id), at: 0)
    #expect(hall.nodes[0].fileStates == [7: [.sending, .cancelled], 8: [.sending, .cancelled]])
    #expect(hall.nodes[0].withdrawn.count == 2)
    hall.pass(.seconds(60))
    #expect(hall.nodes[1].files.map(\.isPrivate) == [false] && hall.nodes[0].fileStates[9]?.last == .sent)
  }

  @Test("An unencrypted file for one peer is shown as not private, and is acknowledged")
  func clearFile() throws {
    var hall = Self.line(1)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    let file = try SharedFile(name: "a.bin", mime: "application/octet-stream", content: [1, 2, 3])
    for _ in 0..<2 {
      hall.inject(phone.packet(.fileTransfer, file.bytes, at: hall.time, to: hall.nodes[0].id), on: link, to: 0)
      hall.pass(.seconds(1))
    }
    let told = hall.nodes[0].files
    #expect(told.count == 1 && told.first?.isPrivate == false && told.first?.link == link)
    #expect(told.first?.receipt != nil)
  }

  @Test("A file from a sync answer is shown if it was sent at most 15 min ago")
  func oldFile() throws {
    var stage = LimitStage()
    let phone = Stranger(1)
    stage.inject(phone.announce(at: stage.time))
    // Ann requests sync from the neighbour.
    stage.hall.pass(.seconds(2))
    for (minutes, count) in [(16, 0), (14, 1)] as [(UInt64, Int)] {
      let file = try SharedFile(name: "a.bin", mime: "application/octet-stream", content: [UInt8(minutes)])
      stage.inject(
        phone.packet(
          .fileTransfer, file.bytes, at: stage.time - minutes * 60_000, timeToLive: 0, isSyncAnswer: true))
      #expect(stage.ann.files.count == count && stage.ann.engine.counters.unaskedAnswers == 0)
    }
  }

  @Test("A private file is not sent to a peer that has not announced support for files in a session")
  func unproven() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    hall.pass(.seconds(3))
    let file = try SharedFile(name: "a", mime: nil, content: [1, 2, 3])
    let ann = hall.nodes[0]
    _ = try ann.engine.send(file, to: phone.id, as: 1, at: hall.now, time: hall.time)
    hall.pass(.seconds(300))
    #expect(hall.nodes[0].fileFrames.isEmpty, "without a session it waits")
    #expect(hall.nodes[0].sent[link, default: []].allSatisfy { $0[1] != MessageType.fileTransfer.rawValue })
    // With a session in which the peer reports that it does not accept files.
    var other = MeshHall()
    other.add(["ann", "bob"])
    other.connect(0, 1)
    other.pass(.seconds(2))
    try other.tell("hello", to: 1, at: 0)
    other.pass(.seconds(3))
    other.nodes[0].engine.plant([.groups], of: other.nodes[1].id, at: other.now, time: other.time)
    try other.sendFile([1, 2, 3], to: 1, as: 4, at: 0)
    other.pass(.seconds(60))
    #expect(other.nodes[0].fileStates[4] == [.failed(.noPrivateFiles)])
    #expect(other.nodes[1].files.isEmpty)
    // With a session in which the peer reports nothing about files.
    other.nodes[0].engine.files.forget(other.nodes[1].id)
    other.passes = { bytes, from, _ in from == 0 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    try other.sendFile([1, 2, 3], to: 1, as: 5, at: 0)
    other.pass(.seconds(60))
    #expect(other.nodes[0].fileStates[5] == [.failed(.noPrivateFiles)])
    #expect(other.nodes[1].files.isEmpty)
  }

  @Test("A peer state message that was lost is sent again in a new session, and the waiting file is delivered")
  func lostState() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.passes = { bytes, from, _ in from == 0 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.tell("hello", to: 1, at: 0)
    hall.pass(.seconds(3))
    let peer = hall.nodes[1].id
    #expect(hall.nodes[0].engine.messages.sessions.hasSession(with: peer))
    #expect(hall.nodes[0].engine.files.capabilities[peer] == nil)
    hall.passes = { _, _, _ in true }
    try hall.sendFile([1, 2, 3], to: 1, as: 5, at: 0)
    hall.pass(.seconds(25))
    #expect(hall.nodes[1].files.count == 1)
    #expect(hall.nodes[0].fileStates[5]?.last == .delivered)
  }

  @Test("A peer asked for its state in the last minute is asked again before a private file to it fails")
  func lostStateAgain() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.passes = { bytes, from, _ in from == 0 || bytes[1] != MessageType.noiseEncrypted.rawValue }
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    try hall.sendFile([1, 2, 3], to: 1, as: 5, at: 0)
    hall.pass(.seconds(20))
    try hall.sendFile([4, 5, 6], to: 1, as: 6, at: 0)
    hall.pass(.seconds(25))
    #expect(hall.nodes[0].fileStates[5]?.last == .failed(.noPrivateFiles), "asked anew, and nothing came")
    hall.passes = { _, _, _ in true }
    hall.pass(.seconds(90))
    #expect(hall.nodes[0].fileStates[6]?.last == .delivered)
  }

  @Test("Two files are sent at a time and six wait; a ninth, and any file of a relay, is refused")
  func several() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let phone = Stranger(1)
    hall.connect(stranger: phone, to: 0)
    hall.pass(.seconds(3))
    for number in 1...8 { try hall.sendFile(Self.content(10_000), as: UInt32(number), at: 0) }
    #expect(throws: MeshEngine.SendError.tooMany) { try hall.sendFile([1], as: 9, at: 0) }
    let ann = hall.nodes[0]
    func sending() -> Int { ann.engine.files.outgoing.files.count { $0.phase == .sending } }
    #expect(sending() == 2)
    hall.pass(.seconds(10)) { sending() != 2 && ann.engine.files.count > 1 }
    #expect(hall.nodes[0].fileStates.values.allSatisfy { $0.last == .sent || $0.last == .sending })
    hall.pass(.seconds(30))
    #expect((1...8).allSatisfy { hall.nodes[0].fileStates[$0]?.last == .sent })
    hall.add(["a relay"]) { $0.role = .relay }
    #expect(throws: MeshEngine.SendError.relayOnly) { try hall.sendFile([1], at: 1) }
  }

  @Test("During a radio inhibit no file is sent or requested, and afterwards the file continues")
  func quiet() throws {
    var hall = Self.line(2)
    try hall.sendFile(Self.content(50_000), at: 0)
    hall.handle(.quiet(true), at: 0)
    hall.handle(.quiet(true), at: 1)
    let sent = hall.nodes[0].fileFrames.count
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].fileFrames.count == sent && hall.nodes[1].files.isEmpty)
    for place in 0...1 { hall.handle(.quiet(false), at: place) }
    hall.pass(.seconds(5))
    #expect(hall.nodes[1].files.count == 1)
    // A packet whose timestamp is too old by then is encoded again.
    hall.handle(.quiet(true), at: 0)
    try hall.sendFile(Self.content(50_000, seed: 2), as: 2, at: 0)
    hall.handle(.quiet(false), at: 0)
    hall.handle(.quiet(true), at: 0)
    hall.pass(.seconds(300))
    hall.handle(.quiet(false), at: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[1].files.count == 2)
  }

  @Test("A file without a peer waits for one, and starts again after its links were lost")
  func later() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    try hall.sendFile(Self.content(50_000), at: 0)
    hall.pass(.seconds(30))
    let link = hall.connect(0, 1)
    let ann = hall.nodes[0]
    hall.pass(.seconds(5)) { ann.filePercents[1]?.last ?? 0 >= 30 }
    hall.disconnect(link)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].fileStates[1]?.last == .waiting && hall.nodes[1].files.isEmpty)
    hall.connect(1, 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[1].files.count == 1 && hall.nodes[0].fileStates[1]?.last == .sent)
  }

  @Test("A thousand incomplete packets use at most 8 MiB, and the requests for their fragments end")
  func neverEnded() throws {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let slice = FileTests.content(469)
    for number in 0..<1000 {
      let sender = Stranger(UInt64(number / 4 + 10))
      // Every tenth set is so large that 128 of them would be 16 MiB.
      for index in 0..<(number % 10 == 0 ? 280 : 20) {
        let bytes = sender.fragment(
          UInt64(number), UInt16(index), of: 2000, slice, at: stage.time, type: .fileTransfer)
        stage.inject(bytes)
      }
      stage.hall.pass(.milliseconds(60))
      #expect(stage.ann.engine.assembler.bytes <= 8 << 20 && stage.ann.engine.assembler.count <= 128)
    }
    let before = stage.bob.engine.counters.frames
    stage.hall.pass(.seconds(300))
    #expect(stage.ann.engine.assembler.count == 0)
    // A sync request every 6 s for a minute, the periodic requests every 15 s, and announces.
    #expect(stage.bob.engine.counters.frames - before < 200)
  }

  @Test("A file that is malformed, of an unsupported type, or from a blocked peer is counted and not shown")
  func refused() throws {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let wrong: [[UInt8]] = [
      [], [1, 2, 3], try SharedFile(name: "a.html", mime: "text/html", content: [1]).bytes,
      try SharedFile(name: "a.png", mime: "image/png", content: [1, 2, 3]).bytes,
    ]
    for (number, payload) in wrong.enumerated() {
      stage.inject(eve.packet(.fileTransfer, payload, at: stage.time + UInt64(number)))
    }
    #expect(stage.ann.files.isEmpty && stage.ann.engine.counters.refusedFiles == 4)
    let right = try SharedFile(name: "a.png", mime: nil, content: [1, 2, 3]).bytes
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 10).flipped(at: -1))
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 11, isSigned: false))
    #expect(stage.ann.files.isEmpty && stage.ann.engine.counters.badSignatures == 2)
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 12, to: stage.bob.id))
    #expect(stage.ann.files.isEmpty, "it is for somebody else")
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 13))
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 14, to: stage.ann.id))
    #expect(stage.ann.files.map { $0.receipt == nil } == [true, false])
    stage.hall.handle(.block(eve.id, true), at: 0)
    stage.inject(eve.packet(.fileTransfer, right, at: stage.time + 15))
    #expect(stage.ann.files.count == 2)
    stage.hall.pass(.seconds(1))
    #expect(stage.bob.files.count == 3, "what is right is passed on, to Bob who has blocked nobody")
  }

  @Test("A public message during a file arrives within 100 ms, also at a phone")
  func chat() throws {
    var hall = Self.line(2)
    try hall.sendFile(Self.content(1 << 20), at: 0)
    hall.pass(.milliseconds(300))
    #expect(hall.nodes[1].files.isEmpty)
    _ = hall.say("and now this", at: 0)
    hall.pass(.milliseconds(100))
    #expect(hall.nodes[1].heard.map(\.text) == ["and now this"] && hall.nodes[1].files.isEmpty)
  }

  @Test("A relay sends fragments that arrive fast to a phone one every 25 ms")
  func relayToPhone() throws {
    var hall = Self.line(2)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 1)
    hall.pass(.seconds(3))
    let before = hall.nodes[1].sent[link, default: []].count
    let begin = hall.now
    try hall.sendFile(Self.content(30_000), at: 0)
    let relay = hall.nodes[1]
    func count() -> Int {
      relay.sent[link, default: []].dropFirst(before).count(where: { $0[1] == MessageType.fragment.rawValue })
    }
    hall.pass(.seconds(10)) { count() == 65 }
    #expect(count() == 65)
    #expect(begin.duration(to: hall.now) >= .milliseconds(64 * 25))
  }
}

extension [UInt8] {
  func windows(of count: Int) -> some Sequence<ArraySlice<UInt8>> {
    (0...(self.count - Swift.min(count, self.count))).lazy.map { self[$0..<Swift.min($0 + count, self.count)] }
  }
}

extension MeshEngine {
  /// Records capabilities that a peer has not stated.
  mutating func plant(_ capabilities: Capabilities, of peer: PeerID, at now: Instant, time: UInt64) {
    files.note(capabilities, of: peer, limit: .max, view(Turn(now: now, time: time)))
  }
}
