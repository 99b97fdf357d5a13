import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

/// How Earshot peers confirm fragments of files to each other.
@Suite("Confirmation of file fragments between neighbours")
struct ConfirmingTests {
  @Test(
    "A file of 1 MiB needs at most 20 pings, and the neighbour confirms fragments with unsigned pongs"
  )
  func unasked() throws {
    var hall = FileTests.line(2)
    hall.pass(.seconds(3))
    hall.filePacketTime = .milliseconds(5)
    let air = Overheard.listen(to: &hall)
    let content = FileTests.content(1 << 20)
    try hall.sendFile(content, as: 7, at: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[1].files.map(\.content) == [content])
    let (fragments, pings, pongs) = (air.all(.fragment), air.all(.ping), air.all(.pong))
    #expect(fragments.count > 2200 && pings.count <= 20, "\(pings.count) pings")
    #expect(pongs.count * 5 <= fragments.count && pongs.count * 48 >= fragments.count)
    #expect((pings + pongs).allSatisfy { $0.view?.signature == nil })
    #expect(hall.nodes[0].engine.counters.unaskedPongs == 0 && hall.nodes[1].engine.counters.refusedPings == 0)
  }

  enum Line: CaseIterable { case own, toOne, passedOn }

  @Test(
    "For 30 s after a public message, file confirmations are requested for at most half as many packets each",
    arguments: Line.allCases)
  func besideChat(line: Line) throws {
    var hall = FileTests.line(3)
    hall.pass(OutgoingFiles.chatTime)
    hall.filePacketTime = .milliseconds(20)
    let air = Overheard.listen(to: &hall)
    try hall.sendFile(FileTests.content(1 << 20), as: 7, at: 1)
    func fragmentsForOne(in time: Duration) -> Int {
      hall.pass(.seconds(2))
      air.forget()
      hall.pass(time)
      return air.all(.fragment).count { $0.from == 1 } / max(air.all(.pong).count { $0.to == 1 }, 1)
    }
    let before = fragmentsForOne(in: .seconds(4))
    switch line {
    case .own: _ = hall.say("one", at: 1)
    case .toOne: try hall.tell("one", to: 2, at: 1)
    case .passedOn: _ = hall.say("one", at: 0)
    }
    let beside = fragmentsForOne(in: OutgoingFiles.chatTime - .seconds(3))
    let after = fragmentsForOne(in: .seconds(4))
    #expect(beside * 2 <= before && beside * 2 <= after, "\(before), \(beside), \(after)")
  }

  @Test("A public message during a file is delayed only by packets that are sent and unconfirmed")
  func lineAmidFile() throws {
    for moment in stride(from: 0, to: 600, by: 20) as StrideTo<Int64> {
      var hall = FileTests.line(2)
      hall.pass(OutgoingFiles.chatTime)
      hall.filePacketTime = .milliseconds(5)
      // The file has 86 fragments.
      try hall.sendFile(FileTests.content(40_000), as: 7, at: 0)
      hall.pass(.milliseconds(moment))
      _ = hall.say("one", at: 0)
      hall.pass(.milliseconds(1200 - moment))
      #expect(hall.nodes[1].files.count == 1, "\(moment) ms")
    }
  }

  @Test("Small mesh files in succession do not wait for each other's confirmation")
  func small() throws {
    var hall = FileTests.line(2)
    hall.pass(.seconds(3))
    // The files follow each other faster than the timeout of a confirmation.
    for number in 1...8 as ClosedRange<UInt32> {
      try hall.sendFile([UInt8(number)], as: number, at: 0)
      hall.pass(.milliseconds(50))
    }
    #expect(hall.nodes[1].files.count == 8)
  }

  @Test("The number of unconfirmed fragments is limited, and without confirmations a few are sent per second")
  func confirming() throws {
    var hall = FileTests.line(2)
    hall.pass(.seconds(3))
    let air = Overheard.listen(to: &hall)
    hall.passes = { bytes, _, _ in bytes[1] != MessageType.pong.rawValue }
    try hall.sendFile(FileTests.content(200_000), as: 7, at: 0)
    hall.pass(.milliseconds(900))
    let fewest = Confirming.limits.lowerBound
    #expect(air.all(.fragment).count == fewest && air.all(.ping).count == 1)
    hall.pass(.milliseconds(300))
    #expect((fewest + 1...2 * fewest).contains(air.all(.fragment).count))
    hall.passes = { _, _, _ in true }
    hall.pass(.seconds(3))
    #expect(hall.nodes[0].fileStates[7] == [.sending, .sent] && hall.nodes[1].files.count == 1)
  }

  /// Ann, and Eve, an Earshot peer whose packets the test makes.
  private struct Asked {
    var stage = LimitStage()
    let eve = Stranger(1)
    private var sent: UInt64 = 0

    init(isEarshot: Bool = true) { stage.inject(eve.announce(at: stage.time, isEarshot: isEarshot)) }

    mutating func ping(_ nonce: UInt64, interval: UInt8? = nil) {
      sent += 1
      let payload = PingPayload(nonce: nonce, interval: interval).bytes
      stage.inject(eve.packet(.ping, payload, at: stage.time + sent, to: stage.ann.id, isSigned: false))
    }

    mutating func fragments(
      _ indices: Range<UInt16>, of id: UInt64 = 100, from sender: Stranger? = nil, to recipient: PeerID? = nil,
      type: MessageType = .fileTransfer, timeToLive: UInt8 = Limits.timeToLive
    ) {
      for index in indices {
        stage.inject(
          (sender ?? eve).fragment(
            id, index, of: 2000, [1], at: stage.time, to: recipient, type: type, timeToLive: timeToLive))
      }
    }

    /// The nonces of Ann's answers to Eve.
    var answers: [UInt64] { answers(to: eve) }

    func answers(to peer: Stranger) -> [UInt64] { payloads(to: peer).map(\.nonce) }

    var payloads: [PingPayload] { payloads(to: eve) }

    private func payloads(to peer: Stranger) -> [PingPayload] {
      (stage.ann.sent[stage.link] ?? []).compactMap { bytes in
        guard let packet = try? Packet(decoding: bytes), packet.type == .pong, packet.recipient == peer.id else {
          return nil
        }
        return try? PingPayload(reading: packet.payload)
      }
    }
  }

  @Test("A node confirms every n-th fragment of a file as requested, by fragment ID and index, also of copies")
  func confirms() {
    var asked = Asked()
    asked.fragments(0..<10)
    #expect(asked.answers.isEmpty, "nobody has asked")
    asked.ping(1, interval: 3)
    asked.fragments(10..<18)
    #expect(asked.answers == [1, 112, 115])
    asked.ping(2)
    asked.fragments(18..<19)
    #expect(asked.answers == [1, 112, 115, 2, 118], "a ping that asks for nothing leaves that as it is")
    asked.ping(3, interval: 2)
    asked.fragments(10..<14)
    #expect(asked.answers.suffix(3) == [3, 111, 113], "copies were taken, too")
    asked.ping(7, interval: 3)
    asked.fragments(0..<2)
    asked.ping(8, interval: 3)
    asked.fragments(2..<4)
    #expect(asked.answers.last == 8, "its answer has confirmed what came before it")
    asked.ping(4, interval: 0)
    asked.fragments(19..<40)
    #expect(asked.answers.last == 4)
  }

  @Test("Only fragments of the neighbour's own files for this node are counted for file confirmations")
  func counted() {
    var asked = Asked()
    asked.ping(1, interval: 2)
    asked.fragments(0..<5, of: 200, type: .message)
    asked.fragments(0..<5, of: 300, timeToLive: 0)
    asked.fragments(0..<5, of: 400, from: Stranger(2))
    asked.fragments(0..<5, of: 500, to: Stranger(3).id)
    #expect(asked.answers == [1])
    asked.fragments(0..<2, of: 600, to: asked.stage.ann.id, type: .noiseEncrypted)
    #expect(asked.answers == [1, 601])
  }

  @Test("A peer's request for file confirmations ends when another peer takes over the link")
  func nextPeer() {
    var asked = Asked()
    asked.ping(1, interval: 1)
    asked.fragments(0..<2)
    #expect(asked.answers == [1, 100, 101])
    asked.stage.hall.pass(MeshLink.rebindTime + .seconds(1))
    let next = Stranger(2)
    asked.stage.inject(next.announce(at: asked.stage.time, isEarshot: true))
    asked.fragments(0..<5, of: 200, from: next)
    #expect(asked.stage.ann.engine.neighbours.contains(next.id) && asked.answers(to: next).isEmpty)
  }

  @Test("A phone gets only the pong for its ping; an Earshot peer gets up to 250 confirmations a second")
  func limits() {
    var phone = Asked(isEarshot: false)
    phone.ping(1, interval: 1)
    phone.fragments(0..<5)
    #expect(phone.answers == [1])
    var node = Asked()
    node.ping(1, interval: 1)
    node.fragments(0..<300)
    #expect(node.answers.count == Pings.fastAnswers)
    let quiet = node.answers.count
    node.stage.hall.pass(.seconds(1))
    node.fragments(300..<301)
    #expect(node.answers.count == quiet + 1 && node.answers.last == 400)
  }

  @Test("A file confirmation counts once and covers all earlier packets, and one for an unsent packet is ignored")
  func confirmation() {
    var confirming = Confirming()
    let (fewest, now) = (Confirming.limits.lowerBound, Instant.zero.advanced(by: .milliseconds(1)))
    confirming.sent(900, at: .zero)
    confirming.ask(9, at: .zero)
    let isQuick = confirming.confirm(.answer(9), at: now)
    // Two confirmations are under way where one takes no longer than the maximum queueing time of packets.
    let (limit, batch) = (confirming.limit, confirming.limit / 2)
    #expect(isQuick && batch > fewest && confirming.interval == batch)
    for number in 1..<UInt64(batch) {
      confirming.sent(number, at: now)
      #expect(!confirming.isDue)
    }
    confirming.sent(UInt64(batch), at: now)
    #expect(confirming.isDue, "it was told a smaller number")
    confirming.ask(1000, at: now)
    for number in batch + 1...limit { confirming.sent(UInt64(number), at: now) }
    #expect(!confirming.isDue && confirming.unconfirmed == limit)
    #expect(confirming.next == now.advanced(by: Confirming.time))
    let isStranger = confirming.confirm(.fragment(2000), at: now)
    let isAnswer = confirming.confirm(.answer(1000), at: now)
    #expect(!isStranger && isAnswer && confirming.unconfirmed == limit - batch && confirming.next == .zero)
    let isLast = confirming.confirm(.fragment(UInt64(2 * batch)), at: now)
    let isEarlier = confirming.confirm(.fragment(UInt64(2 * batch - 1)), at: now)
    #expect(isLast && !isEarlier && confirming.unconfirmed == limit - 2 * batch)
    while confirming.unconfirmed < confirming.limit { confirming.sent(nil, at: now) }
    let givenUp = confirming.next
    confirming.sent(3000, at: givenUp)
    #expect(confirming.isDue && confirming.unconfirmed == 1 && confirming.limit == fewest)
    confirming.ask(3001, at: givenUp)
    while confirming.unconfirmed < confirming.limit { confirming.sent(nil, at: givenUp) }
    confirming.sent(4000, at: confirming.next)
    // A late confirmation confirms nothing, and shows that the link is slow.
    let late = givenUp.advanced(by: .seconds(2))
    let isMarkLate = confirming.confirm(.fragment(3001), at: late)
    let isLate = confirming.confirm(.answer(3001), at: late)
    #expect(!isMarkLate && isLate && confirming.unconfirmed == 1)
    let isLateAgain = confirming.confirm(.answer(3001), at: late)
    #expect(!isLateAgain)
    while confirming.unconfirmed < confirming.limit { confirming.sent(nil, at: late) }
    #expect(confirming.next == late.advanced(by: .seconds(2) * 4))
  }

  @Test("A pong does not confirm a fragment, and a confirmation of a fragment does not answer a ping")
  func kinds() {
    var confirming = Confirming()
    confirming.sent(900, at: .zero)
    confirming.ask(9, at: .zero)
    let wrong = [FileConfirmation.answer(900), .fragment(9)].map { confirming.confirm($0, at: .zero) }
    #expect(wrong == [false, false] && confirming.unconfirmed == 1)
    let isRight = confirming.confirm(.fragment(900), at: .zero)
    #expect(isRight && confirming.unconfirmed == 0)
  }

  @Test("A ping whose nonce imitates a fragment of the file does not confirm the fragment")
  func forgedQuestion() throws {
    var asked = Asked()
    asked.ping(112, interval: 0)
    #expect(asked.payloads == [PingPayload(nonce: 112)], "what it repeats is the nonce alone")
    asked.ping(1, interval: 2)
    asked.fragments(0..<2)
    #expect(asked.payloads.last == PingPayload(nonce: 101, interval: 0))

    try asked.stage.hall.sendFile(FileTests.content(50_000), as: 7, at: 0)
    func marks() -> [UInt64] {
      (asked.stage.ann.sent[asked.stage.link] ?? []).compactMap {
        (try? PacketView($0)).flatMap(FragmentMark.init)?.rawValue
      }
    }
    let before = marks()
    #expect(before.count == Confirming.limits.lowerBound)
    for (interval, count) in [(nil, before.count), (0, before.count + 1)] as [(UInt8?, Int)] {
      let payload = PingPayload(nonce: before[0], interval: interval).bytes
      asked.stage.inject(
        asked.eve.packet(.pong, payload, at: asked.stage.time, to: asked.stage.ann.id, isSigned: false))
      #expect(marks().count >= count && (interval == 0 || marks() == before))
    }
  }

  @Test(
    "On a slow link one confirmation is requested for each batch of file packets that may be unconfirmed",
    arguments: [(20, 48), (40, 48), (60, 38), (100, 32), (400, 32)] as [(Int64, Int)])
  func questions(wayMilliseconds: Int64, batch: Int) {
    var confirming = Confirming()
    var now = Instant.zero
    for nonce in 0..<20 as Range<UInt64> {
      let count = nonce == 0 ? 1 : confirming.limit
      for _ in 0..<count { confirming.sent(nil, at: now) }
      confirming.ask(nonce, at: now)
      now = now.advanced(by: .milliseconds(wayMilliseconds))
      let isAnswered = confirming.confirm(.answer(nonce), at: now)
      #expect(isAnswered)
    }
    #expect(confirming.limit == Confirming.limits.upperBound && confirming.interval == batch)
  }

  @Test("The round-trip time of an idle link is measured with a file's first packet, and again after 10 s")
  func measuresAnew() {
    var confirming = Confirming()
    confirming.sent(nil, at: .zero)
    #expect(confirming.isDue, "the first packet alone")
    confirming.ask(1, at: .zero)
    confirming.sent(nil, at: .zero)
    #expect(!confirming.isDue && confirming.next == .zero)
    let answered = Instant.zero.advanced(by: .milliseconds(20))
    let isFirst = confirming.confirm(.answer(1), at: answered)
    let later = answered.advanced(by: Confirming.period + .milliseconds(1))
    confirming.sent(9, at: later)
    #expect(isFirst && confirming.isDue && confirming.next > later, "all is confirmed before more goes")
    confirming.ask(2, at: later)
    let isUnasked = confirming.confirm(.fragment(9), at: later.advanced(by: .milliseconds(499)))
    #expect(isUnasked && confirming.unconfirmed == 0 && confirming.next > later, "the answer is still on its way")
    let isSecond = confirming.confirm(.answer(2), at: later.advanced(by: .milliseconds(500)))
    #expect(isSecond && confirming.unconfirmed == 0 && confirming.next == .zero)
    confirming.sent(nil, at: later)
    #expect(confirming.isDue)
    confirming.ask(3, at: later)
    confirming.sent(nil, at: later)
    #expect(!confirming.isDue && confirming.next == .zero)
  }

  @Test(
    "Unconfirmed file packets fill 90% of a link; a public message waits at most 80 ms, 2 round trips or 3 packets",
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

  @Test(
    "Without chat more file packets may be unconfirmed, and the first public message waits up to 0.4 s longer",
    arguments: [(1, 5), (5, 25), (27, 5), (20, 100)] as [(Int64, Int64)])
  func leavesRoomForChat(milliseconds: Int64, wayMilliseconds: Int64) {
    func run(_ isBesideChat: Bool) -> BusyLink {
      var link = BusyLink(packet: .milliseconds(milliseconds), way: .milliseconds(wayMilliseconds))
      link.confirming.isBesideChat = isBesideChat
      link.run(for: .seconds(60))
      return link
    }
    var (busy, quiet) = (run(true), run(false))
    let wait = quiet.waits.max() ?? .zero
    #expect(wait <= (quiet.packet + quiet.way) * 2 + Confirming.waitWithoutChat, "\(wait)")
    #expect(busy.sent > quiet.sent / 10 * 9 && quiet.sent > busy.sent / 10 * 9)
    #expect(quiet.confirming.limit >= min(busy.confirming.limit * 3 / 2, Confirming.limits.upperBound))
    quiet.confirming.isBesideChat = true
    // Packets that are under way go first, and are confirmed.
    quiet.run(for: Confirming.waitWithoutChat * 2)
    #expect(quiet.confirming.limit <= busy.confirming.limit && quiet.confirming.interval <= busy.confirming.interval)
    quiet.waits = []
    quiet.run(for: .seconds(5))
    #expect(quiet.waits.max() ?? .zero <= busy.waits.max() ?? .zero)
  }

  @Test("The number of unconfirmed file packets adapts to a slower link within 15 s, and messages wait no longer")
  func followsChanges() {
    var link = BusyLink(packet: .milliseconds(5), way: .milliseconds(25))
    for (packet, way) in [(5, 100), (20, 25), (5, 25)] as [(Int64, Int64)] {
      (link.packet, link.way) = (.milliseconds(packet), .milliseconds(way))
      // 64 round trips of the previous link, of 205 ms each, take 13 s.
      link.run(for: .seconds(15))
      (link.sent, link.waits) = (0, [])
      link.run(for: .seconds(20))
      #expect(link.sent * 10 >= Int(.seconds(20) / link.packet) * 9, "\(link.sent)")
      let wait = link.waits.sorted()[link.waits.count * 99 / 100]
      #expect(wait <= max((link.packet + link.way) * 3, link.packet * Confirming.limits.lowerBound), "\(wait)")
    }
  }
}

extension FileConfirmation {
  fileprivate static func answer(_ nonce: UInt64) -> Self { Self(mark: nonce, isOfFragment: false) }
  fileprivate static func fragment(_ mark: UInt64) -> Self { Self(mark: mark, isOfFragment: true) }
}

/// A link that transmits one packet at a time in `packet`, and delivers it, and its answer, after `way`; and an
/// endless file.
private struct BusyLink {
  var packet: Duration
  var way: Duration
  var sent = 0
  /// The time for which each packet was queued before transmission.
  var waits: [Duration] = []
  var confirming = Confirming()
  private var (now, free, number) = (Instant.zero, Instant.zero, 0 as UInt64)
  private var answers: [(at: Instant, confirmation: FileConfirmation)] = []
  /// Fragments that the peer has received since its last confirmation, and the number after which it confirms.
  private var (taken, told) = (0, 0)

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
        _ = confirming.confirm(first.confirmation, at: now)
      }
    }
  }

  private mutating func send() {
    number += 1
    confirming.sent(number, at: now)
    waits.append(now.duration(to: max(free, now)))
    (free, sent, taken) = (max(free, now).advanced(by: packet), sent + 1, taken + 1)
    if taken == told { answer(.fragment(number)) }
    guard confirming.isDue else { return }
    number += 1
    confirming.ask(number, at: now)
    told = confirming.interval
    answer(.answer(number))
  }

  private mutating func answer(_ confirmation: FileConfirmation) {
    taken = 0
    answers.append((max(answers.last?.at ?? .zero, free.advanced(by: way * 2)), confirmation))
  }
}
