import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Sync answers of a mesh node")
struct SyncAnswerTests {
  /// Ann, who has received from Dea and Eli, and two strangers with links to her, Cem and Fox.
  private struct Stage {
    var hall = MeshHall()
    let cem = Stranger(1)
    let fox = Stranger(2)
    let dea = Stranger(3)
    let eli = Stranger(4)
    let toCem: LinkID
    let toFox: LinkID
    var ann: MeshHall.Node { hall.nodes[0] }

    init() {
      hall.add(["ann"])
      toCem = hall.connect(stranger: cem, to: 0)
      toFox = hall.connect(stranger: fox, to: 0)
      for peer in [dea, eli] { hall.inject(peer.announce(at: hall.time, timeToLive: 5), on: toFox, to: 0) }
      for number in 0..<3 {
        for peer in [eli, dea] { hall.inject(peer.line("\(peer.nickname) \(number)", at: hall.time), on: toFox, to: 0) }
        hall.pass(.seconds(30))
        // Cem stays connected.
        hall.inject(cem.announce(at: hall.time), on: toCem, to: 0)
        hall.inject(fox.announce(at: hall.time), on: toFox, to: 0)
      }
      hall.pass(.seconds(2))
    }

    /// The packets that Ann sends to Cem and to Fox after Cem's request.
    mutating func answers(_ request: SyncRequest) throws -> (toCem: [PacketView], toFox: Int) {
      let before = (ann.sent[toCem]?.count ?? 0, ann.sent[toFox]?.count ?? 0)
      hall.inject(cem.packet(.requestSync, request.bytes, at: hall.time, to: ann.id, timeToLive: 0), on: toCem, to: 0)
      let sent = ann.sent[toCem]?.dropFirst(before.0) ?? []
      return (try sent.map { try PacketView($0) }, (ann.sent[toFox]?.count ?? 0) - before.1)
    }
  }

  @Test("Sync answers go only to the requesting link, with TTL 0, answer flag and the author's signature")
  func wire() throws {
    var stage = Stage()
    let (answers, toOthers) = try stage.answers(SyncRequest(filter: SyncFilter([])))
    #expect(toOthers == 0)
    #expect(answers.count >= 8)
    for view in answers {
      #expect(view.timeToLive == 0)
      #expect(view.flags.contains(.syncAnswer))
      let key = [stage.dea, stage.eli, stage.fox].first { $0.id == view.sender }?.signingKey.publicKey
      #expect(
        SignatureCheck(view, decoded: try Packet(view), key: key ?? stage.ann.engine.identity.signingKey.publicKey)
          .isValid)
      // No peer gets its own packets in an answer.
      #expect(view.sender != stage.cem.id)
    }
  }

  @Test("A sync answer begins with announces, also of senders last received a while ago")
  func order() throws {
    var stage = Stage()
    let answers = try stage.answers(SyncRequest(filter: SyncFilter([]))).toCem
    let firstLine = try #require(answers.firstIndex { $0.type == .message })
    #expect(answers[..<firstLine].allSatisfy { $0.type == .announce })
    #expect(answers[firstLine...].allSatisfy { $0.type == .message })
    let announced = Set(answers[..<firstLine].map(\.sender))
    #expect(announced.isSuperset(of: [stage.dea.id, stage.eli.id]))
    #expect(Set(answers[firstLine...].map(\.sender)) == [stage.dea.id, stage.eli.id])
  }

  @Test("A sync answer contains what the filter lacks, limited to the requested types")
  func selection() throws {
    var stage = Stage()
    let all = try stage.answers(SyncRequest(filter: SyncFilter([]))).toCem
    let ids = try all.map { PacketID(try Packet($0)) }
    let none = try stage.answers(SyncRequest(filter: SyncFilter(ids))).toCem
    #expect(none.isEmpty)
    let announces = try stage.answers(SyncRequest(filter: SyncFilter([]), types: .announce)).toCem
    #expect(announces.allSatisfy { $0.type == .announce })
  }

  /// Ann with a link to a peer that requests fragments.
  private struct Asker {
    var hall = MeshHall()
    let cem = Stranger(1)
    let link: LinkID

    init(isEarshot: Bool) {
      hall.add(["ann"])
      link = hall.connect(stranger: cem, to: 0)
      hall.pass(.seconds(2))
      hall.inject(cem.announce(at: hall.time, isEarshot: isEarshot), on: link, to: 0)
    }

    mutating func ask() throws {
      let request = try SyncRequest(filter: SyncFilter([]), types: .fragment)
      let ann = hall.nodes[0].id
      hall.inject(cem.packet(.requestSync, request.bytes, at: hall.time, to: ann, timeToLive: 0), on: link, to: 0)
    }

    /// Number of fragments that Ann has sent over the link.
    var fragments: Int { (hall.nodes[0].sent[link] ?? []).count { $0[1] == MessageType.fragment.rawValue } }
  }

  @Test(
    "A phone gets fragments of sync answers every 25 ms, and an Earshot peer gets all at once",
    arguments: [false, true])
  func fragments(isEarshot: Bool) throws {
    var asker = Asker(isEarshot: isEarshot)
    let dea = Stranger(2)
    let toDea = asker.hall.connect(stranger: dea, to: 0)
    let line = dea.line(LimitStage.text(5000), at: asker.hall.time)
    let all = dea.fragments(of: line)
    for fragment in all { asker.hall.inject(fragment, on: toDea, to: 0) }
    asker.hall.pass(.seconds(10))
    let before = asker.fragments
    try asker.ask()
    #expect(asker.fragments - before == (isEarshot ? all.count : 1) && all.count > 5)
    asker.hall.pass(PacedPackets.pause * (all.count - 2))
    #expect(asker.fragments - before == (isEarshot ? all.count : all.count - 1))
    asker.hall.pass(.seconds(1))
    #expect(asker.fragments - before == all.count)
  }

  @Test("Cancelling a file removes its fragments from waiting sync answers")
  func cancelled() throws {
    var asker = Asker(isEarshot: false)
    try asker.hall.sendFile(FileTests.content(50_000), as: 7, at: 0)
    asker.hall.pass(.seconds(1))
    try asker.ask()
    asker.hall.pass(.milliseconds(60))
    #expect(asker.hall.nodes[0].engine.transmitter.paced.count > 5)
    asker.hall.handle(.cancelFile(7), at: 0)
    let before = asker.fragments
    asker.hall.pass(.seconds(5))
    #expect(asker.fragments == before && asker.hall.nodes[0].engine.transmitter.paced.count == 0)
  }

  @Test("A sync answer that exceeds a link's queue is cut short, and later answers contain the rest")
  func large() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    for number in 0..<500 {
      let said = hall.say(
        "line \(number) \(number * 7919) \(number * 104_729) and so on, up to a hundred bytes or so", at: 0)
      #expect(said != nil)
      hall.pass(.milliseconds(100))
    }
    hall.connect(0, 1)
    var sizes: [Int] = []
    hall.passes = { bytes, from, _ in
      if from == 0, bytes[2] == 0 { sizes.append(bytes.count) }
      return true
    }
    hall.pass(.seconds(10))
    #expect(sizes.count <= 193)
    #expect(sizes.reduce(0, +) <= 50 << 10)
    hall.pass(.seconds(90))
    // One in a hundred may be a false positive of the filter.
    #expect(hall.nodes[1].heard.count >= 480)
  }

  @Test("A long text in a sync answer is sent in flagged fragments, and shown as late after 600 s")
  func longText() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let text = (0..<900).map { "word\($0 * 7919 % 1000)" }.joined(separator: " ")
    let said = hall.say(text, at: 0)
    #expect(said != nil)
    hall.pass(.seconds(600))
    hall.add(["bob"])
    var fragments = 0
    hall.passes = { bytes, from, _ in
      guard from == 0, bytes[1] == MessageType.fragment.rawValue else { return true }
      fragments += 1
      return bytes[2] == 0 && bytes[11] & 0x10 != 0
    }
    hall.connect(0, 1)
    hall.pass(.seconds(40))
    #expect(fragments > 2)
    #expect(hall.nodes[1].heard.map(\.text) == [text])
    #expect(hall.nodes[1].heard.first?.isLate == true)
  }

  @Test("Sync answers that were not requested, or come from a neighbour that was not asked, are refused")
  func unasked() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, dea) = (Stranger(1), Stranger(2))
    let link = hall.connect(to: 0)
    hall.inject(dea.announce(at: hall.time, timeToLive: 0, isSyncAnswer: true), on: link, to: 0)
    #expect(hall.nodes[0].engine.peer(dea.id) == nil)
    #expect(hall.nodes[0].engine.counters.unaskedAnswers == 1)
    // Ann requests sync from Cem a second after the announce, and accepts answers for 30 s.
    hall.inject(cem.announce(at: hall.time), on: link, to: 0)
    hall.pass(.milliseconds(900))
    hall.inject(dea.announce(at: hall.time, timeToLive: 0, isSyncAnswer: true), on: link, to: 0)
    #expect(hall.nodes[0].engine.peer(dea.id) == nil)
    hall.pass(.milliseconds(200))
    let other = hall.connect(to: 0)
    hall.inject(dea.announce(at: hall.time, timeToLive: 0, isSyncAnswer: true), on: other, to: 0)
    #expect(hall.nodes[0].engine.peer(dea.id) == nil)
    #expect(hall.nodes[0].engine.counters.unaskedAnswers == 3)
    hall.inject(dea.announce(at: hall.time, timeToLive: 0, isSyncAnswer: true), on: link, to: 0)
    #expect(hall.nodes[0].engine.peer(dea.id) != nil)
  }

  @Test("An old message that Android sends as a sync answer without the flag is shown as late and not relayed")
  func android() {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    let (cem, dea) = (Stranger(1), Stranger(2))
    let link = hall.connect(stranger: cem, to: 0)
    hall.pass(.milliseconds(1500))
    hall.inject(dea.announce(at: hall.time - 60_000, timeToLive: 0), on: link, to: 0)
    hall.inject(dea.line("hello", at: hall.time - 3_600_000, timeToLive: 0), on: link, to: 0)
    hall.inject(dea.line("too old", at: hall.time - 6 * 3_600_000 - 1, timeToLive: 0), on: link, to: 0)
    #expect(hall.nodes[0].heard.map(\.text) == ["hello"])
    #expect(hall.nodes[0].heard.map(\.isLate) == [true])
    #expect(hall.nodes[0].engine.counters.tooOld == 1)
    #expect(hall.nodes[0].engine.neighbourhood.links[link]?.peer == cem.id)
    hall.pass(.milliseconds(500))
    #expect(hall.nodes[1].heard.isEmpty)
    // A packet with a time to live other than 0 is not an answer.
    hall.inject(dea.line("no answer", at: hall.time - 3_600_000, timeToLive: 1), on: link, to: 0)
    #expect(hall.nodes[0].heard.count == 1)
    #expect(hall.nodes[0].engine.counters.clock == 1)
  }

  @Test(
    "A sync request is signed, directed, of one hop, and sent 1 s after the first announce and every 15 s"
  )
  func ownRequest() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, fox) = (Stranger(1), Stranger(2))
    let link = hall.connect(stranger: cem, to: 0)
    let other = hall.connect(stranger: fox, to: 0)
    func requests(_ link: LinkID) throws -> [Packet] {
      try (hall.nodes[0].sent[link] ?? []).map { try Packet(decoding: $0) }.filter { $0.type == .requestSync }
    }
    hall.pass(.milliseconds(999))
    #expect(try requests(link).isEmpty)
    hall.pass(.milliseconds(1))
    let first = try #require(try requests(link).first)
    #expect(first.timeToLive == 0 && first.recipient == cem.id)
    #expect(try requests(other).map(\.recipient) == [fox.id])
    let bytes = try first.encoded()
    let key = hall.nodes[0].engine.identity.signingKey.publicKey
    #expect(SignatureCheck(try PacketView(bytes), decoded: first, key: key).isValid)
    for _ in 0..<10 {
      hall.pass(.seconds(15))
      hall.inject(cem.announce(at: hall.time), on: link, to: 0)
    }
    let count = try requests(link).count
    #expect((9...13).contains(count))
  }

  @Test("A message that is repeated hours later is not shown again")
  func hoursLater() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, dea) = (Stranger(1), Stranger(2))
    let link = hall.connect(stranger: cem, to: 0)
    hall.inject(dea.announce(at: hall.time, timeToLive: 6), on: link, to: 0)
    let line = dea.line("hello", at: hall.time)
    hall.inject(line, on: link, to: 0)
    for _ in 0..<70 {
      hall.pass(.seconds(60))
      hall.inject(cem.announce(at: hall.time), on: link, to: 0)
      hall.inject(dea.announce(at: hall.time, timeToLive: 6), on: link, to: 0)
    }
    let duplicates = hall.nodes[0].engine.counters.duplicates
    hall.inject(line.with(0, at: 2), on: link, to: 0)
    #expect(hall.nodes[0].engine.counters.duplicates == duplicates)
    #expect(hall.nodes[0].heard.map(\.text) == ["hello"])
  }
}
