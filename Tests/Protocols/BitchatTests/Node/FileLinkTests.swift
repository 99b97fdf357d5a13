import Common
import Testing

@testable import Bitchat

/// What links do to files: those that stall, and those that have to give way.
@Suite("Files and slow links")
struct FileLinkTests {
  @Test("A link that stalls keeps a public file from nobody else, and has nobody get it twice")
  func stalled() throws {
    var hall = FileTests.line(3)
    let link = hall.connect(stranger: Stranger(1), to: 0)
    hall.stalled = [link]
    hall.pass(.seconds(3))
    try hall.sendFile(FileTests.content(50_000), as: 7, at: 0)
    hall.pass(.seconds(99))
    #expect(hall.nodes[0].fileStates[7] == [.sending], "the slow one may still get it")
    hall.pass(.seconds(2))
    #expect(hall.nodes[0].fileStates[7] == [.sending, .sent] && hall.nodes[0].filePercents[7]?.last == 100)
    #expect(hall.nodes[0].engine.files.count == 0)
    hall.pass(.seconds(200))
    for place in [1, 2] { #expect(hall.nodes[place].files.count == 1) }
    let fragments = hall.nodes[0].sent[link, default: []].count { $0[1] == MessageType.fragment.rawValue }
    #expect(fragments == OutgoingFiles.window)
  }

  @Test(
    "A file that takes a slow link more than two minutes arrives in one go, past a hop as well",
    arguments: [true, false],
    [55, 110] as [Int64])
  func slow(isPrivate: Bool, milliseconds: Int64) throws {
    var hall = FileTests.line(3)
    try hall.tell("first", to: 2, at: 0)
    hall.pass(.seconds(5))
    hall.filePacketTime = .milliseconds(milliseconds)
    let content = FileTests.content(1 << 20)
    try hall.sendFile(content, to: isPrivate ? 2 : nil, as: 7, at: 0)
    hall.pass(.seconds(120))
    #expect(hall.nodes[2].files.isEmpty)
    let states: [FileState] = isPrivate ? [.sending, .delivered] : [.sending, .sent]
    let sender = hall.nodes[0]
    hall.pass(.seconds(180)) { sender.fileStates[7] == states }
    #expect(sender.fileStates[7] == states)
    hall.pass(.seconds(30))
    #expect(hall.nodes[2].files.map(\.content) == [content] && hall.nodes[1].files.count == (isPrivate ? 0 : 1))
    #expect(sender.fileFrames.count < 3700, "each fragment once, and a ping for every second one at most")
  }

  @Test("What a phone would drop for its time does not go to it, while a node gets the rest")
  func slowBesidePhone() throws {
    var hall = FileTests.line(2)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    hall.pass(.seconds(3))
    hall.filePacketTime = .milliseconds(70)
    try hall.sendFile(FileTests.content(1 << 20), as: 7, at: 0)
    let node = hall.nodes[0]
    func fragments() -> Int { node.sent[link, default: []].count { $0[1] == MessageType.fragment.rawValue } }
    hall.pass(.seconds(101))
    let before = fragments()
    #expect(before > 1000)
    hall.pass(.seconds(150))
    #expect(fragments() == before && node.fileStates[7] == [.sending, .sent] && hall.nodes[1].files.count == 1)
  }

  @Test("What a slow link has lost of a private file goes once more in the same fragments")
  func slowAndLossy() throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.filePacketTime = .milliseconds(50)
    let counts = Counts()
    hall.passes = { bytes, from, _ in
      guard from == 0, let id = FragmentID(ofPacket: bytes) else { return true }
      counts.ids.insert(id)
      counts.sent[bytes[1], default: 0] += 1
      return counts[.fragment] != 5
    }
    try hall.sendFile(FileTests.content(1 << 20), to: 1, as: 7, at: 0)
    hall.pass(.seconds(200))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered && hall.nodes[1].files.count == 1)
    #expect(counts.ids.count == 1 && counts[.fragment] > 2200)
  }

  @Test("A file whose link needs more than five minutes for it is made anew, and fails in the end")
  func tooSlow() throws {
    var hall = FileTests.line(2)
    hall.filePacketTime = .milliseconds(500)
    try hall.sendFile(FileTests.content(1 << 20), as: 7, at: 0)
    hall.pass(.seconds(299))
    #expect(hall.nodes[0].fileStates[7] == [.sending])
    hall.pass(.seconds(6 * 301))
    #expect(hall.nodes[0].fileStates[7]?.last == .failed(.unsendable) && hall.nodes[1].files.isEmpty)
  }

  @Test("A public file whose fragments came so late that the first were given up is whole when the last one is here")
  func givenUp() throws {
    var hall = FileTests.line(2)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    let file = try SharedFile(name: "a.bin", mime: "application/octet-stream", content: FileTests.content(3000))
    let fragments = phone.fragments(of: phone.packet(.fileTransfer, file.bytes, at: hall.time))
    for fragment in fragments.dropLast() { hall.inject(fragment, on: link, to: 0) }
    hall.pass(.seconds(301))
    #expect(hall.nodes[0].engine.assembler.count == 0 && hall.nodes[0].engine.counters.refusedFiles == 0)
    hall.inject(phone.announce(at: hall.time), on: link, to: 0)
    hall.inject(try #require(fragments.last).with(time: hall.time), on: link, to: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].files.map(\.content) == [file.content] && hall.nodes[0].engine.assembler.count == 0)
  }

  @Test("A fragment that contradicts those of a public file is passed on, and keeps the file from nobody")
  func contradiction() throws {
    var hall = FileTests.line(2)
    let (phone, forger) = (Stranger(1), Stranger(2))
    let link = hall.connect(stranger: phone, to: 0)
    let other = hall.connect(stranger: forger, to: 0)
    let file = try SharedFile(name: "a.bin", mime: "application/octet-stream", content: FileTests.content(3000))
    let fragments = phone.fragments(of: phone.packet(.fileTransfer, file.bytes, at: hall.time))
    let first = try #require(fragments.first)
    let counts = Counts()
    hall.passes = { bytes, _, to in
      if to == 1 { counts.sent[bytes[1], default: 0] += 1 }
      return true
    }
    hall.inject(first, on: link, to: 0)
    hall.inject(first.flipped(at: -1), on: other, to: 0)
    for fragment in fragments.dropFirst() { hall.inject(fragment, on: link, to: 0) }
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].files.map(\.content) == [file.content] && hall.nodes[0].engine.counters.badFragments == 1)
    #expect(counts[.fragment] == fragments.count + 1, "nobody knows which one is true")
  }

  @Test("What a node says in fragments goes before those that it passes on, and has room beside them")
  func lanes() throws {
    var hall = FileTests.line(2)
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 1)
    hall.pass(.seconds(3))
    let relay = hall.nodes[1]
    func fragments(of sender: PeerID? = nil) -> Int {
      relay.sent[link, default: []].count { bytes in
        bytes[1] == MessageType.fragment.rawValue && (sender.map { Array($0.bytes) == Array(bytes[14..<22]) } ?? true)
      }
    }
    for number in [1, 2] as [UInt32] {
      try hall.sendFile(FileTests.content(1 << 20, seed: UInt64(number)), as: number, at: 0)
    }
    hall.pass(.seconds(60)) { relay.engine.paced.longest == PacedPackets.limit }
    #expect(relay.engine.paced.longest == PacedPackets.limit)
    _ = hall.say(LimitStage.text(3000), at: 1)
    let before = fragments()
    hall.pass(.milliseconds(500))
    #expect(fragments(of: relay.id) >= 5 && relay.engine.counters.unsendable == 0)
    #expect(fragments() - before <= 21, "what has no room does not go at once")
    let dropped = relay.engine.counters.relaysDropped
    hall.pass(.seconds(2))
    #expect(relay.engine.counters.relaysDropped > dropped && relay.engine.paced.longest <= PacedPackets.limit)
  }

  @Test("A full lane of one link leaves the others their room")
  func room() {
    var paced = PacedPackets()
    let (one, other) = (LinkID(1), LinkID(2))
    let packet: [UInt8] = [1]
    func add(_ count: Int, _ link: LinkID, _ lane: PacedPackets.Lane, _ paced: inout PacedPackets) -> Bool {
      paced.add(Array(repeating: packet, count: count), on: link, as: .fragment, in: lane, at: .zero)
    }
    let isTaken = add(PacedPackets.limit, one, .passedOn, &paced)
    let isRefused = !add(1, one, .passedOn, &paced)
    let isOwnTaken = add(3, one, .own, &paced)
    let isOtherTaken = add(PacedPackets.limit, other, .passedOn, &paced)
    #expect(isTaken && isRefused && isOwnTaken && isOtherTaken && !paced.isOwnWaiting(for: other))
    var (left, moment): ([LinkID], Instant) = ([], .zero)
    while paced.isOwnWaiting(for: one), let due = paced.deadline, due < Instant.zero.advanced(by: .seconds(1)) {
      moment = due
      left += paced.takeDue(at: due).map(\.link)
    }
    #expect(moment == Instant.zero.advanced(by: .milliseconds(50)) && left == [one, other, one, other, one, other])
    paced.forget(other)
    #expect(paced.count == PacedPackets.limit)
  }

  @Test("A public file of which no link got all is made anew, and is not said to be sent")
  func stalledAlone() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let phone = Stranger(1)
    let link = hall.connect(stranger: phone, to: 0)
    hall.stalled = [link]
    hall.pass(.seconds(3))
    try hall.sendFile(FileTests.content(50_000), as: 7, at: 0)
    hall.pass(.seconds(150))
    #expect(hall.nodes[0].fileStates[7] == [.sending, .sending])
    for _ in 0..<5 {
      hall.inject(phone.announce(at: hall.time), on: link, to: 0)
      hall.pass(.seconds(100))
    }
    #expect(hall.nodes[0].fileStates[7] == Array(repeating: .sending, count: 6) + [.failed(.unsendable)])
  }

  @Test("A file that had to give way again and again is no worse off for it", arguments: [true, false])
  func heldBack(isPrivate: Bool) throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    try hall.sendFile(FileTests.content(50_000), to: isPrivate ? 1 : nil, as: 7, at: 0)
    for _ in 0..<10 {
      hall.handle(.quiet(true), at: 0)
      hall.pass(.seconds(110))
      hall.handle(.quiet(false), at: 0)
    }
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].fileStates[7]?.last == (isPrivate ? .delivered : .sent))
    #expect(hall.nodes[1].files.count == 1)
  }

  @Test("What peers have shown that they take does not fill up: a private file to a new one goes")
  func manyProven() throws {
    var hall = FileTests.line(2)
    for number in 1...2000 as ClosedRange<UInt64> {
      hall.nodes[0].engine.proven[PeerID(rawValue: number)] = [.groups]
    }
    try hall.sendFile(FileTests.content(1000), to: 1, as: 7, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered)
    #expect(hall.nodes[0].engine.proven.count <= 256)
  }

  @Test("A neighbour that is asked for fragments for ten minutes answers the usual requests as well")
  func longRepair() {
    var stage = LimitStage()
    let eve = Stranger(1)
    for round in 0..<60 as Range<UInt64> {
      if round.isMultiple(of: 10) { stage.inject(eve.announce(at: stage.time)) }
      stage.inject(eve.fragment(round, 0, of: 3, [1, 2, 3], at: stage.time))
      stage.hall.pass(.seconds(10))
    }
    #expect(stage.bob.engine.counters.answeredRequests > 110, "a question every 6 s, and 40 usual ones")
    #expect(stage.bob.engine.counters.refusedRequests == 0 && stage.ann.engine.counters.refusedRequests == 0)
  }

  @Test("No more of a file is under way to a node than may be unconfirmed; if it confirms nothing, a little a second")
  func confirming() throws {
    var hall = FileTests.line(2)
    hall.pass(.seconds(3))
    let counts = Counts()
    hall.passes = { bytes, from, _ in
      if from == 0 { counts.sent[bytes[1], default: 0] += 1 }
      return from == 0 || bytes[1] != MessageType.pong.rawValue || !counts.losesPongs
    }
    try hall.sendFile(FileTests.content(200_000), as: 7, at: 0)
    hall.pass(.milliseconds(900))
    let fewest = Confirming.limits.lowerBound
    #expect(counts[.fragment] == fewest && counts[.ping] == 2)
    hall.pass(.milliseconds(300))
    #expect(counts[.fragment] > fewest && counts[.fragment] <= 2 * fewest)
    counts.losesPongs = false
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].fileStates[7] == [.sending, .sent] && hall.nodes[1].files.count == 1)
  }

  /// What a node has sent, by type, the IDs of its fragments, and whether it hears pongs.
  private final class Counts {
    var sent: [UInt8: Int] = [:]
    var ids: Set<FragmentID> = []
    var losesPongs = true
    subscript(type: MessageType) -> Int { sent[type.rawValue] ?? 0 }
  }

  @Test("A confirmation counts once, with the questions before it, and one that nobody asked for does not")
  func confirmation() {
    var confirming = Confirming()
    let (fewest, now) = (Confirming.limits.lowerBound, Instant.zero.advanced(by: .milliseconds(1)))
    confirming.sent(at: .zero)
    confirming.ask(9, at: .zero)
    let isQuick = confirming.confirm(9, at: now)
    // Two questions are under way where an answer takes no longer than packets may wait.
    let batch = confirming.limit / 2
    #expect(isQuick && batch > fewest)
    for nonce in 1...2 as ClosedRange<UInt64> {
      for _ in 0..<batch {
        #expect(!confirming.isDue)
        confirming.sent(at: now)
      }
      #expect(confirming.isDue)
      confirming.ask(nonce, at: now)
    }
    #expect(!confirming.isDue && confirming.unconfirmed == 2 * batch)
    while confirming.unconfirmed < confirming.limit { confirming.sent(at: now) }
    #expect(confirming.next == now.advanced(by: Confirming.time))
    let unasked = confirming.limit - 2 * batch
    let isStranger = confirming.confirm(4, at: now)
    let isSecond = confirming.confirm(2, at: now)
    let isFirst = confirming.confirm(1, at: now)
    #expect(!isStranger && isSecond && !isFirst && confirming.unconfirmed == unasked)
    #expect(confirming.next == .zero)
    while !confirming.isDue { confirming.sent(at: now) }
    confirming.ask(3, at: now)
    while confirming.unconfirmed < confirming.limit { confirming.sent(at: now) }
    confirming.sent(at: confirming.next)
    // One that comes too late confirms nothing, and shows that the link is slow.
    let late = Instant.zero.advanced(by: .seconds(2))
    let isLate = confirming.confirm(3, at: late)
    #expect(confirming.isDue && isLate && confirming.unconfirmed == fewest / 3 + 1)
    let isLateAgain = confirming.confirm(3, at: late)
    #expect(!isLateAgain)
    while confirming.unconfirmed < confirming.limit { confirming.sent(at: late) }
    #expect(confirming.next == late.advanced(by: now.duration(to: late) * 4))
  }

  @Test(
    "Where an answer takes longer than packets may wait on the way, it is asked for after as many packets as may wait",
    arguments: [(20, 48), (40, 48), (60, 38), (100, 32), (400, 32)] as [(Int64, Int)])
  func questions(wayMilliseconds: Int64, batch: Int) {
    var confirming = Confirming()
    var now = Instant.zero
    for nonce in 0..<20 as Range<UInt64> {
      let count = nonce == 0 ? 1 : confirming.limit
      for _ in 0..<count { confirming.sent(at: now) }
      confirming.ask(nonce, at: now)
      now = now.advanced(by: .milliseconds(wayMilliseconds))
      let isAnswered = confirming.confirm(nonce, at: now)
      #expect(isAnswered)
    }
    #expect(confirming.limit == Confirming.limits.upperBound)
    var count = 0
    while !confirming.isDue {
      confirming.sent(at: now)
      count += 1
    }
    #expect(count == batch)
  }

  @Test("What an answer takes on an empty link is measured with the first packet, and again after ten seconds")
  func measuresAnew() {
    var confirming = Confirming()
    confirming.sent(at: .zero)
    #expect(confirming.isDue, "the first packet alone")
    confirming.ask(1, at: .zero)
    confirming.sent(at: .zero)
    #expect(!confirming.isDue && confirming.next == .zero)
    let answered = Instant.zero.advanced(by: .milliseconds(20))
    let isFirst = confirming.confirm(1, at: answered)
    let later = answered.advanced(by: Confirming.period + .milliseconds(1))
    confirming.sent(at: later)
    #expect(isFirst && confirming.isDue && confirming.next > later, "all is confirmed before more goes")
    confirming.ask(2, at: later)
    let isSecond = confirming.confirm(2, at: later.advanced(by: .milliseconds(500)))
    #expect(isSecond && confirming.unconfirmed == 0 && confirming.next == .zero)
    confirming.sent(at: later)
    #expect(confirming.isDue)
    confirming.ask(3, at: later)
    confirming.sent(at: later)
    #expect(!confirming.isDue && confirming.next == .zero)
  }

  @Test(
    "As many packets may be unconfirmed as keep a link busy, and a line waits for them 80 ms, twice its time or three packets, at most",
    arguments: [(1, 5), (1, 25), (5, 25), (10, 17), (27, 5), (20, 100), (100, 500)] as [(Int64, Int64)])
  func followsTheLink(milliseconds: Int64, wayMilliseconds: Int64) {
    var link = BusyLink(packet: .milliseconds(milliseconds), way: .milliseconds(wayMilliseconds))
    let time = max(link.packet * 3000, .seconds(60))
    link.run(for: time)
    let all = Int(time / link.packet)
    #expect(link.sent * 10 >= all * 9, "\(link.sent) of \(all) that the link takes")
    let wait = link.waits.sorted()[link.waits.count * 99 / 100]
    let most = max((link.packet + link.way) * 2, .milliseconds(80), link.packet * 3)
    #expect(wait <= most, "what a line waits for: \(wait)")
  }

  @Test("A link that becomes longer, or slower, is busy again within twelve seconds, and lines wait no longer there")
  func followsChanges() {
    var link = BusyLink(packet: .milliseconds(5), way: .milliseconds(25))
    for (packet, way) in [(5, 100), (20, 25), (5, 25)] as [(Int64, Int64)] {
      (link.packet, link.way) = (.milliseconds(packet), .milliseconds(way))
      link.run(for: Confirming.period + .seconds(2))
      (link.sent, link.waits) = (0, [])
      link.run(for: .seconds(20))
      #expect(link.sent * 10 >= Int(.seconds(20) / link.packet) * 9, "\(link.sent)")
      let wait = link.waits.sorted()[link.waits.count * 99 / 100]
      #expect(wait <= max((link.packet + link.way) * 3, link.packet * Confirming.limits.lowerBound), "\(wait)")
    }
  }
}

/// A link that takes a packet in `packet`, one after the other, and brings it, and the answer to it, in `way`; and a file without end.
private struct BusyLink {
  var packet: Duration
  var way: Duration
  var sent = 0
  /// What each packet waited for until the link took it.
  var waits: [Duration] = []
  private var confirming = Confirming()
  private var (now, free, nonce) = (Instant.zero, Instant.zero, 0 as UInt64)
  private var answers: [(at: Instant, nonce: UInt64)] = []

  init(packet: Duration, way: Duration) { (self.packet, self.way) = (packet, way) }

  mutating func run(for time: Duration) {
    let end = now.advanced(by: time)
    while now < end {
      if confirming.next <= now {
        send()
      } else if answers.isEmpty || confirming.next < answers[0].at {
        now = confirming.next
      } else {
        let first = answers.removeFirst()
        now = max(now, first.at)
        _ = confirming.confirm(first.nonce, at: now)
      }
    }
  }

  private mutating func send() {
    confirming.sent(at: now)
    waits.append(now.duration(to: max(free, now)))
    (free, sent) = (max(free, now).advanced(by: packet), sent + 1)
    guard confirming.isDue else { return }
    nonce += 1
    confirming.ask(nonce, at: now)
    answers.append((max(answers.last?.at ?? .zero, free.advanced(by: way * 2)), nonce))
  }
}
