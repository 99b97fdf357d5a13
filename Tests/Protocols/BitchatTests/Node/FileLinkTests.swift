import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

/// The effects of links on files: links that stall, and links that are evicted.
@Suite("Mesh files over slow links")
struct FileLinkTests {
  @Test("A stalled link does not delay a public file for other peers, and no peer gets the file twice")
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
    "A file that needs over 2 min on a slow link arrives at the first attempt, also over a second hop",
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
    #expect(sender.fileFrames.count < 2700, "each fragment once, and few pings")
  }

  @Test("A file too slow for a phone stops at the phone's time limit and continues to Earshot peers")
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

  @Test("A private file with a lost fragment is sent again in the same fragments")
  func slowAndLossy() throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.filePacketTime = .milliseconds(50)
    let counts = Counts.losingTheFifthFragment(in: &hall)
    try hall.sendFile(FileTests.content(1 << 20), to: 1, as: 7, at: 0)
    hall.pass(.seconds(200))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered && hall.nodes[1].files.count == 1)
    #expect(counts.ids.count == 1 && counts[.fragment] > 2200)
  }

  @Test("A private file whose first receipt is lost is acknowledged when its copies arrive")
  func lostReceipt() throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    final class Lost { var count = 0 }
    let lost = Lost()
    hall.passes = { bytes, from, _ in
      guard from == 1, lost.count == 0, bytes[1] == MessageType.noiseEncrypted.rawValue else { return true }
      lost.count += 1
      return false
    }
    try hall.sendFile(FileTests.content(20_000), to: 1, as: 7, at: 0)
    hall.pass(.seconds(5))
    #expect(lost.count == 1 && hall.nodes[1].files.count == 1 && hall.nodes[0].fileStates[7] == [.sending])
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered && hall.nodes[1].files.count == 1)
  }

  @Test(
    "A file waits while no link has a large enough MTU, then uses the link with the largest MTU",
    arguments: [false, true])
  func narrowLinks(isPrivate: Bool) throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.disconnect(hall.links(0, 1)[0])
    let narrow = hall.connect(stranger: Stranger(1), to: 0, frameLimit: 20)
    try hall.sendFile(FileTests.content(5000), to: isPrivate ? 1 : nil, as: 7, at: 0)
    hall.pass(.seconds(10))
    #expect([nil, .waiting].contains(hall.nodes[0].fileStates[7]?.last), "\(hall.nodes[0].fileStates)")
    hall.connect(0, 1, frameLimit: isPrivate ? 512 : 150)
    let low = hall.connect(stranger: Stranger(2), to: 0, frameLimit: 120)
    hall.pass(.seconds(20))
    #expect(hall.nodes[1].files.count == 1 && hall.nodes[0].fileStates[7]?.last == (isPrivate ? .delivered : .sent))
    let fragments = [narrow, low].map {
      (hall.nodes[0].sent[$0] ?? []).count { $0[1] == MessageType.fragment.rawValue }
    }
    #expect(fragments[0] == 0 && fragments[1] < 20, "the file is over 50 such fragments")
  }

  @Test("A private file sealed for a lost session is sent again in the new session")
  func newSession() throws {
    var hall = FileTests.line(2)
    try hall.tell("first", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.filePacketTime = .milliseconds(5)
    try hall.sendFile(FileTests.content(200_000), to: 1, as: 7, at: 0)
    hall.pass(.milliseconds(500))
    #expect(hall.nodes[0].fileStates[7] == [.sending])
    hall.restart(1)
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    // The node that returned begins a new session during the transfer.
    try hall.tell("back", to: 0, as: 2, at: 1)
    hall.pass(.seconds(40))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered && hall.nodes[1].files.count == 1)
  }

  @Test("Of several links with small MTUs a file is sent over the one with the largest MTU")
  func widestOfNarrow() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let links = [110, 150, 120].enumerated().map { place, limit in
      hall.connect(stranger: Stranger(UInt64(place + 1)), to: 0, frameLimit: limit)
    }
    hall.pass(.seconds(1))
    try hall.sendFile(FileTests.content(5000), as: 7, at: 0)
    hall.pass(.seconds(2))
    let sent = links.map {
      (hall.nodes[0].sent[$0] ?? []).filter { $0[1] == MessageType.fragment.rawValue }.map(\.count)
    }
    #expect(
      sent[0].count < 20 && sent[2].count < 20 && sent[1].count > 40 && sent[1].allSatisfy { $0 <= 150 }, "\(sent)")
  }

  @Test(
    "The slice size of a public file fits the smallest link MTU that is not below an iPhone's",
    arguments: [
      ([], nil), ([20], nil), ([512], 469), ([509, 512], 467), ([182, 512], 140), ([512, 120, 182], 140),
      ([110, 150, 20], 108),
    ] as [([Int], Int?)])
  func slices(limits: [Int], slice: Int?) throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let links = limits.enumerated().map { place, limit in
      hall.connect(stranger: Stranger(UInt64(place + 1)), to: 0, frameLimit: limit)
    }
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].engine.sliceBytes == slice)
    guard let slice else { return }
    try hall.sendFile(FileTests.content(5000), as: 7, at: 0)
    hall.pass(.seconds(2))
    let sent = links.flatMap { hall.nodes[0].sent[$0] ?? [] }.compactMap { try? Packet(PacketView($0)) }
    let fragments = sent.filter { $0.type == .fragment }.compactMap { try? Fragment(reading: $0.payload) }
    #expect(fragments.contains { $0.slice.count == slice })
  }

  @Test("A link with a small MTU does not prevent that a private file is sent again in the same fragments")
  func narrowAndLossy() throws {
    var hall = FileTests.line(3)
    hall.connect(stranger: Stranger(1), to: 0, frameLimit: 20)
    try hall.tell("first", to: 2, at: 0)
    hall.pass(.seconds(5))
    let counts = Counts.losingTheFifthFragment(in: &hall)
    try hall.sendFile(FileTests.content(50_000), to: 2, as: 7, at: 0)
    hall.pass(.seconds(40))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered && hall.nodes[2].files.count == 1)
    #expect(counts.ids.count == 1 && counts[.fragment] > 107)
  }

  @Test("A private file over hops does not wait for an earlier file on the same fast link")
  func fastBeforeSlow() throws {
    var hall = FileTests.line(3)
    try hall.tell("first", to: 2, at: 0)
    hall.pass(.seconds(5))
    hall.filePacketTime = .milliseconds(4)
    try hall.sendFile(FileTests.content(1 << 20), to: 1, as: 7, at: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[1].files.count == 1)
    try hall.sendFile(FileTests.content(2000), to: 2, as: 8, at: 0)
    hall.pass(.seconds(5))
    #expect(hall.nodes[2].files.count == 1)
  }

  @Test("A file that needs over 5 min on its link is fragmented anew, and finally fails")
  func tooSlow() throws {
    var hall = FileTests.line(2)
    hall.filePacketTime = .milliseconds(500)
    try hall.sendFile(FileTests.content(1 << 20), as: 7, at: 0)
    hall.pass(.seconds(299))
    #expect(hall.nodes[0].fileStates[7] == [.sending])
    hall.pass(.seconds(6 * 301))
    #expect(hall.nodes[0].fileStates[7]?.last == .failed(.unsendable) && hall.nodes[1].files.isEmpty)
  }

  @Test("A public file arrives even if its first fragments had expired before the last one arrived")
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

  @Test("A fragment that contradicts those of a public file is relayed, and the file still arrives")
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

  @Test("A node's own fragments are sent before relayed ones, and have a buffer of their own")
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
    hall.pass(.seconds(60)) { relay.engine.transmitter.paced.longest == PacedPackets.limit }
    #expect(relay.engine.transmitter.paced.longest == PacedPackets.limit)
    _ = hall.say(LimitStage.text(3000), at: 1)
    let before = fragments()
    hall.pass(.milliseconds(500))
    #expect(fragments(of: relay.id) >= 5 && relay.engine.counters.unsendable == 0)
    #expect(fragments() - before <= 21, "what has no room does not go at once")
    let dropped = relay.engine.counters.relaysDropped
    hall.pass(.seconds(2))
    #expect(
      relay.engine.counters.relaysDropped > dropped && relay.engine.transmitter.paced.longest <= PacedPackets.limit)
  }

  @Test("Fragments that fill the buffer of one link do not reduce the capacity of other links")
  func room() {
    var paced = PacedPackets()
    let (one, other) = (LinkID(1), LinkID(2))
    let packet: [UInt8] = [1]
    func add(_ count: Int, _ link: LinkID, _ lane: PacedPackets.Lane, _ paced: inout PacedPackets) -> Bool {
      paced.add(Array(repeating: packet, count: count), on: link, as: .fragment, in: lane, at: .zero) == 0
    }
    let others = PacedPackets.Lane.passedOn(from: LinkID(3))
    let isTaken = add(PacedPackets.limit, one, others, &paced)
    let isRefused = !add(1, one, others, &paced)
    let isOwnTaken = add(3, one, .own, &paced)
    let isOtherTaken = add(PacedPackets.limit, other, others, &paced)
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

  @Test("A packet after a fragment of an own file is sent 25 ms later, on the link of the fragment only")
  func behindOwnFile() throws {
    var paced = PacedPackets()
    let links = [LinkID(1), LinkID(2)]
    paced.giveWay(on: links[0], at: .zero)
    let now = Instant.zero.advanced(by: .milliseconds(10))
    for link in links { _ = paced.add([[1]], on: link, as: .fragment, in: .own, at: now) }
    #expect(paced.takeDue(at: now).map(\.link) == [links[1]])
    let due = Instant.zero.advanced(by: .milliseconds(25))
    #expect(paced.deadline == due && paced.takeDue(at: due).map(\.link) == [links[0]])
  }

  @Test("After a stall fragments that are paced for a phone are sent one by one, and not all at once")
  func standstill() {
    var paced = PacedPackets()
    _ = paced.add(Array(repeating: [1], count: 40), on: LinkID(1), as: .fragment, in: .own, at: .zero)
    func left(after milliseconds: Int) -> Int {
      paced.takeDue(at: .zero.advanced(by: .milliseconds(milliseconds))).count
    }
    #expect([0, 1000, 1010, 1020, 1045, 1070].map { left(after: $0) } == [1, 1, 0, 1, 1, 1])
  }

  @Test("If one link's fragments fill the buffer to a phone, another link's fragments evict up to half of them")
  func shares() {
    var paced = PacedPackets()
    let (phone, packet): (LinkID, [UInt8]) = (LinkID(1), [1])
    func add(_ packet: [UInt8], from link: LinkID?) -> Int? {
      paced.add([packet], on: phone, as: .fragment, in: .passedOn(from: link), at: .zero)
    }
    let (flood, other) = (LinkID(2), LinkID(3))
    for _ in 0..<PacedPackets.limit { _ = add(packet, from: flood) }
    #expect(add(packet, from: flood) == nil)
    var taken = 0
    while taken <= PacedPackets.limit, add([2], from: other) == 1 {
      taken += 1
      #expect(add(packet, from: flood) == nil, "the flood takes nothing back")
    }
    #expect(taken == PacedPackets.limit / 2 && paced.count == PacedPackets.limit)
    // The packet of the flood that was queued longest is still the first, and packets from the other link follow it.
    var left: [[UInt8]] = []
    for number in 0..<PacedPackets.limit {
      left += paced.takeDue(at: .zero.advanced(by: PacedPackets.pause * number)).map(\.bytes)
    }
    #expect(left == Array(repeating: packet, count: taken) + Array(repeating: [2], count: taken))
    // An empty queue leaves no record of its share.
    #expect(paced.count == 0 && add(packet, from: flood) == 0)
  }

  @Test("If several links fill a buffer equally, the newest of them loses a packet")
  func equalShares() {
    for first in stride(from: 10, to: 210, by: 10) as StrideTo<UInt64> {
      var paced = PacedPackets()
      func add(_ count: Int, from link: UInt64) -> Int? {
        let packets = Array(repeating: [UInt8(link - first)], count: count)
        return paced.add(packets, on: LinkID(1), as: .fragment, in: .passedOn(from: LinkID(link)), at: .zero)
      }
      for place in [2, 0, 4, 1, 3] as [UInt64] { _ = add(PacedPackets.limit / 5, from: first + place) }
      let gone = add(1, from: first + 5)
      #expect(gone == 1)
      var left = [Int](repeating: 0, count: 6)
      for number in 0..<PacedPackets.limit {
        for packet in paced.takeDue(at: .zero.advanced(by: PacedPackets.pause * number)) {
          left[Int(packet.bytes[0])] += 1
        }
      }
      #expect(left[4] == PacedPackets.limit / 5 - 1 && left[5] == 1)
    }
  }

  @Test("A public file that no link received completely is fragmented anew, and is never reported as sent")
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

  @Test("A file that was interrupted by 10 radio inhibits is still delivered", arguments: [true, false])
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

  @Test("With the capabilities of 2,000 peers stored, a private file to a new peer is still sent")
  func manyProven() throws {
    var hall = FileTests.line(2)
    for number in 1...2000 as ClosedRange<UInt64> {
      hall.nodes[0].engine.plant([.groups], of: PeerID(rawValue: number), at: hall.now, time: hall.time)
    }
    try hall.sendFile(FileTests.content(1000), to: 1, as: 7, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[0].fileStates[7]?.last == .delivered)
    #expect(hall.nodes[0].engine.files.capabilities.count <= 256)
  }

  @Test("A neighbour that gets requests for missing fragments for 10 min still answers regular sync requests")
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

  /// The packets that a node has sent, by type, and the IDs of its fragments.
  private final class Counts {
    var sent: [UInt8: Int] = [:]
    var ids: Set<FragmentID> = []
    subscript(type: MessageType) -> Int { sent[type.rawValue] ?? 0 }

    /// Counts the first node's fragments from now on, and drops the fifth.
    static func losingTheFifthFragment(in hall: inout MeshHall) -> Counts {
      let counts = Counts()
      hall.passes = { bytes, from, _ in
        guard from == 0, let id = FragmentID(ofPacket: bytes) else { return true }
        counts.ids.insert(id)
        counts.sent[bytes[1], default: 0] += 1
        return counts[.fragment] != 5
      }
      return counts
    }
  }
}
