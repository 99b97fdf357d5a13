import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Fragments of mesh packets and their reassembly")
struct FragmentTests {
  private typealias Outcome = FragmentAssembler.Outcome

  private static func instant(_ seconds: Int) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }

  private func fragment(
    id: UInt64 = 1, _ index: Int, of total: Int, type: MessageType = .message, _ slice: [UInt8] = [7]
  ) throws -> Fragment {
    try Fragment(
      id: FragmentID(rawValue: id), index: UInt16(index), total: UInt16(total), type: type, slice: slice)
  }

  private let alice = PeerID(rawValue: 1)

  @Test("A fragment with total 0, total above 10,000, or an index beyond its total is refused")
  func headers() throws {
    #expect(throws: WireError.badValue("total")) { try fragment(0, of: 0) }
    #expect(throws: WireError.badValue("index")) { try fragment(3, of: 3) }
    #expect(throws: WireError.tooLong(field: "fragments", limit: 10_000)) { try fragment(0, of: 10_001) }
    let last = try fragment(9999, of: 10_000, [])
    #expect(try Fragment(reading: last.bytes) == last)
    for count in 0..<Fragment.headerBytes {
      #expect(throws: WireError.self) { try Fragment(reading: Array(last.bytes.prefix(count))) }
    }
  }

  @Test("A set of fragments is complete when every index has arrived, in any order and with duplicates")
  func complete() throws {
    var assembler = FragmentAssembler()
    let order = [2, 0, 2, 0, 1]
    let outcomes = try order.map { index in
      assembler.add(try fragment(index, of: 3, [UInt8(index), 9]), from: alice, at: .zero)
    }
    #expect(outcomes == [.stored, .stored, .duplicate, .duplicate, .complete([0, 9, 1, 9, 2, 9])])
    #expect(assembler.deadline == nil)
    #expect(assembler.add(try fragment(0, of: 1, [5]), from: alice, at: .zero) == .complete([5]))
  }

  @Test("Fragments with a different sender, ID or type belong to different sets")
  func keys() throws {
    var assembler = FragmentAssembler()
    #expect(assembler.add(try fragment(id: 1, 0, of: 2), from: alice, at: .zero) == .stored)
    #expect(assembler.add(try fragment(id: 1, 1, of: 2), from: PeerID(rawValue: 2), at: .zero) == .stored)
    #expect(assembler.add(try fragment(id: 2, 1, of: 2), from: alice, at: .zero) == .stored)
    #expect(assembler.add(try fragment(id: 1, 1, of: 2, type: .leave), from: alice, at: .zero) == .stored)
    #expect(assembler.count == 4)
    #expect(assembler.add(try fragment(id: 1, 1, of: 2), from: alice, at: .zero) == .complete([7, 7]))
  }

  @Test("A fragment with another total or slice, or one that makes its packet too long, does not end the packet's set")
  func contradictions() throws {
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(0, of: 2), from: alice, at: .zero)
    #expect(assembler.add(try fragment(0, of: 2, [8]), from: alice, at: Self.instant(1)) == .otherSlice)
    let long = [UInt8](repeating: 9, count: Limits.payloadBytes)
    #expect(assembler.add(try fragment(1, of: 2, long), from: alice, at: Self.instant(1)) == .tooLong)
    #expect(assembler.bytes == 81 && assembler.deadline == Self.instant(30))
    #expect(assembler.add(try fragment(1, of: 3), from: alice, at: .zero) == .stored, "a set of its own")
    #expect(assembler.count(of: FragmentID(rawValue: 1)) == 2 && assembler.count(of: FragmentID(rawValue: 2)) == 0)
    #expect(assembler.add(try fragment(1, of: 2), from: alice, at: .zero) == .complete([7, 7]))
    #expect(assembler.count == 1 && assembler.bytes == 81)
    #expect(assembler.add(try fragment(0, of: 1, long + [9]), from: alice, at: .zero) == .tooLong)
    #expect(assembler.count == 1)
  }

  @Test("A set of a directed packet expires 30 s after its latest new fragment, and after 5 min in total")
  func time() throws {
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(id: 1, 0, of: 3), from: alice, at: .zero)
    _ = assembler.add(try fragment(id: 1, 0, of: 3), from: alice, at: Self.instant(20))
    _ = assembler.add(try fragment(id: 2, 0, of: 3), from: alice, at: .zero)
    _ = assembler.add(try fragment(id: 2, 2, of: 3), from: alice, at: Self.instant(20))
    #expect(assembler.deadline == Self.instant(30))
    assembler.expire(at: Self.instant(29))
    #expect(assembler.count == 2)
    assembler.expire(at: Self.instant(30))
    #expect(assembler.count == 1)
    #expect(assembler.abandoned == 1)
    #expect(assembler.deadline == Self.instant(50))
    // Without the call, the remaining fragments of an expired set begin a new set.
    #expect(assembler.add(try fragment(id: 2, 1, of: 3), from: alice, at: Self.instant(50)) == .stored)
    #expect(assembler.add(try fragment(id: 2, 2, of: 3), from: alice, at: Self.instant(50)) == .stored)
    #expect(assembler.count == 1)
    #expect(assembler.abandoned == 2)
    // A fragment every 29 s does not keep a set for ever.
    var slow = FragmentAssembler()
    for number in 0...10 {
      _ = slow.add(try fragment(id: 3, number, of: 99), from: alice, at: Self.instant(29 * number))
    }
    #expect(slow.count == 1 && slow.deadline == Self.instant(300))
  }

  @Test(
    "A public packet's set expires 5 min after its first fragment, and is requested 8 times without progress")
  func publicSet() throws {
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(id: 1, 0, of: 3), from: alice, isPublic: true, at: .zero)
    _ = assembler.add(try fragment(id: 2, 0, of: 3), from: alice, at: .zero)
    #expect(assembler.nextStalled(.seconds(2)) == Self.instant(2))
    #expect(assembler.askForStalled(.seconds(2), at: Self.instant(1), limit: 60).isEmpty)
    for second in 2...9 {
      let asked = assembler.askForStalled(.seconds(2), at: Self.instant(second), limit: 60)
      #expect(asked == [FragmentID(rawValue: 1)])
    }
    #expect(assembler.nextStalled(.seconds(2)) == nil)
    _ = assembler.add(try fragment(id: 1, 1, of: 3), from: alice, isPublic: true, at: Self.instant(200))
    #expect(assembler.nextStalled(.seconds(2)) == Self.instant(202), "something came of it")
    #expect(assembler.deadline == Self.instant(30))
    assembler.expire(at: Self.instant(299))
    #expect(assembler.count == 1)
    assembler.expire(at: Self.instant(300))
    #expect(assembler.count == 0)
    for number in 0..<100 {
      _ = assembler.add(
        try fragment(id: UInt64(number), 0, of: 3), from: PeerID(rawValue: UInt64(number)), isPublic: true,
        at: Self.instant(400))
    }
    #expect(assembler.askForStalled(.seconds(2), at: Self.instant(410), limit: 60).count == 60)
  }

  @Test("The ninth set of a sender evicts the same sender's oldest set, and no other sender's")
  func setsOfSender() throws {
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(id: 100, 0, of: 2), from: PeerID(rawValue: 2), at: .zero)
    for id in 0..<9 { _ = assembler.add(try fragment(id: UInt64(id), 0, of: 2), from: alice, at: Self.instant(1 + id)) }
    #expect(assembler.count == 9)
    #expect(assembler.abandoned == 1)
    #expect(assembler.add(try fragment(id: 0, 1, of: 2), from: alice, at: Self.instant(11)) == .stored)
    #expect(assembler.add(try fragment(id: 2, 1, of: 2), from: alice, at: Self.instant(11)) == .complete([7, 7]))
    #expect(
      assembler.add(try fragment(id: 100, 1, of: 2), from: PeerID(rawValue: 2), at: Self.instant(11))
        == .complete([7, 7]))
  }

  @Test("Sets in a sender's name over another link do not evict the sender's own sets")
  func forgedSets() throws {
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(id: 100, 0, of: 3), from: alice, over: LinkID(1), at: .zero)
    for id in 0..<20 {
      _ = assembler.add(try fragment(id: UInt64(id), 0, of: 2), from: alice, over: LinkID(2), at: Self.instant(1))
    }
    #expect(assembler.count == 9)
    _ = assembler.add(try fragment(id: 100, 1, of: 3), from: alice, over: LinkID(2), at: Self.instant(2))
    #expect(
      assembler.add(try fragment(id: 100, 2, of: 3), from: alice, over: LinkID(1), at: Self.instant(2))
        == .complete([7, 7, 7]))
  }

  @Test("The 129th set of fragments evicts the oldest set")
  func sets() throws {
    var assembler = FragmentAssembler()
    for number in 0..<129 {
      let now = Instant(nanoseconds: Int64(number))
      _ = assembler.add(try fragment(id: UInt64(number), 0, of: 2), from: PeerID(rawValue: UInt64(number)), at: now)
    }
    #expect(assembler.count == 128)
    #expect(assembler.abandoned == 1)
    let now = Instant(nanoseconds: 200)
    #expect(assembler.add(try fragment(id: 1, 1, of: 2), from: PeerID(rawValue: 1), at: now) == .complete([7, 7]))
    #expect(assembler.add(try fragment(id: 0, 1, of: 2), from: PeerID(rawValue: 0), at: now) == .stored)
  }

  @Test(
    "If sets of fragments began at the same time, the one with the smallest sender and ID is evicted")
  func equalSets() throws {
    // A single dictionary could have the right order by chance.
    for round in 0..<20 as Range<UInt64> {
      var assembler = FragmentAssembler()
      let first = round * 1000 + 1
      for id in [4, 8, 1, 6, 3, 7, 2, 5, 9] as [UInt64] {
        _ = assembler.add(try fragment(id: first + id, 0, of: 2), from: alice, at: .zero)
      }
      #expect(assembler.add(try fragment(id: first + 1, 1, of: 2), from: alice, at: .zero) == .stored)
      var full = FragmentAssembler()
      for place in 0..<129 as Range<UInt64> {
        let number = first + place * 50 % 129
        _ = full.add(try fragment(id: number, 0, of: 2), from: PeerID(rawValue: number), at: .zero)
      }
      #expect(full.count == 128 && full.abandoned == 1)
      // The last fragment arrived when the store was full, whatever its number.
      let last = first + 128 * 50 % 129
      let smallest = last == first ? first + 1 : first
      let again = full.add(try fragment(id: smallest, 1, of: 2), from: PeerID(rawValue: smallest), at: .zero)
      #expect(again == .stored)
    }
  }

  @Test("A set of fragments of 1,179,760 bytes is accepted; one byte more is refused")
  func bytesOfSet() throws {
    let half = [UInt8](repeating: 7, count: Limits.payloadBytes / 2)
    var assembler = FragmentAssembler()
    _ = assembler.add(try fragment(0, of: 2, half), from: alice, at: .zero)
    #expect(assembler.add(try fragment(1, of: 2, half), from: alice, at: .zero) == .complete(half + half))
    _ = assembler.add(try fragment(0, of: 2, half), from: alice, at: .zero)
    #expect(assembler.add(try fragment(1, of: 2, half + [7]), from: alice, at: .zero) == .tooLong)
    #expect(assembler.count == 1)
    #expect(assembler.add(try fragment(1, of: 2, half), from: alice, at: .zero) == .complete(half + half))
    #expect(assembler.bytes == 0)
  }

  @Test("All sets together hold at most 8 MiB including overhead per slice, and then the oldest is evicted")
  func bytes() throws {
    var assembler = FragmentAssembler()
    let slice = [UInt8](repeating: 7, count: 1 << 20)
    for number in 0..<9 {
      _ = assembler.add(
        try fragment(id: UInt64(number), 0, of: 2, slice), from: PeerID(rawValue: UInt64(number)),
        at: Instant(nanoseconds: Int64(number)))
      #expect(assembler.bytes <= 8 << 20)
    }
    #expect(assembler.count == 7)
    #expect(assembler.abandoned == 2)
    // Fragments of one byte each cost more memory than they hold.
    var small = FragmentAssembler()
    for number in 0..<120_000 {
      let peer = PeerID(rawValue: UInt64(number / 9999))
      _ = small.add(try fragment(id: 1, number % 9999, of: 10_000), from: peer, at: .zero)
    }
    #expect(small.bytes <= 8 << 20)
    #expect(small.abandoned > 0)
  }

  @Test(
    "If capacity for fragments is used up, the link that uses most loses a set, a stranger's set first")
  func fairness() throws {
    var assembler = FragmentAssembler()
    func add(_ number: Int, from sender: Int, isKnown: Bool, over link: UInt64, size: Int = 1, at time: Int) throws {
      _ = assembler.add(
        try fragment(id: UInt64(number), 0, of: 2, [UInt8](repeating: 7, count: size)),
        from: PeerID(rawValue: UInt64(sender)), isKnown: isKnown, over: LinkID(link),
        at: Instant(nanoseconds: Int64(time)))
    }
    func isUnderWay(_ number: Int, from sender: Int) throws -> Bool {
      var copy = assembler
      let peer = PeerID(rawValue: UInt64(sender))
      let outcome = copy.add(try fragment(id: UInt64(number), 1, of: 2, [9]), from: peer, at: .zero)
      if case .complete = outcome { return true } else { return false }
    }
    // A known peer and a stranger, each on a link with a flooder, and a stranger on a link of its own.
    try add(1, from: 1, isKnown: true, over: 1, at: 1)
    try add(2, from: 2, isKnown: false, over: 1, at: 2)
    try add(3, from: 3, isKnown: false, over: 2, at: 3)
    for number in 0..<500 { try add(100 + number, from: 100 + number, isKnown: false, over: 1, at: 10 + number) }
    #expect(assembler.count == 128)
    var kept = [try isUnderWay(1, from: 1), try isUnderWay(2, from: 2), try isUnderWay(3, from: 3)]
    #expect(kept == [true, false, true])
    // In the names of known peers the flooder evicts sets of its own link, and no others.
    for number in 0..<500 { try add(1000 + number, from: 1000 + number, isKnown: true, over: 1, at: 1000 + number) }
    kept = [try isUnderWay(1, from: 1), try isUnderWay(3, from: 3)]
    #expect(kept == [false, true])
    // The limit in bytes, too: few large sets do not evict those of another link.
    for number in 0..<20 {
      try add(2000 + number, from: 2000 + number, isKnown: true, over: 1, size: 1 << 20, at: 2000 + number)
    }
    kept = [try isUnderWay(3, from: 3)]
    #expect(kept == [true])
    #expect(assembler.bytes <= 8 << 20)
  }

  @Test("Fragments for a narrow link fit its frame limit and have the packet's sender, recipient, route and TTL")
  func plans() throws {
    let payload = (0..<3000).map { UInt8(truncatingIfNeeded: $0 &* 167 ^ $0 >> 3) }
    for (recipient, route) in [
      (nil, []), (PeerID(rawValue: 2), []), (PeerID(rawValue: 2), [PeerID(rawValue: 3), PeerID(rawValue: 4)]),
    ] as [(PeerID?, [PeerID])] {
      let packet = Packet(
        version: .v2, type: .fileTransfer, timeToLive: 5, timestamp: 6, sender: alice, recipient: recipient,
        route: route,
        payload: payload, isSyncAnswer: true)
      let view = try PacketView(packet.encoded())
      for limit in [182, 244, 509, 512, 600] {
        let plan = try #require(FragmentPlan(view, id: FragmentID(rawValue: 9), frameLimit: limit))
        var assembler = FragmentAssembler()
        var outcome: FragmentAssembler.Outcome?
        for fragment in plan.fragments {
          #expect(fragment.sender == alice)
          #expect(fragment.recipient == recipient)
          #expect(fragment.route == route)
          #expect(fragment.timestamp == 6)
          #expect(fragment.timeToLive == 5)
          #expect(fragment.isSyncAnswer == true)
          #expect(fragment.version == (route.isEmpty ? .v1 : .v2))
          #expect(fragment.type == .fragment)
          #expect(try fragment.encoded().count <= min(limit, 512))
          outcome = assembler.add(try Fragment(reading: fragment.payload), from: alice, at: .zero)
        }
        #expect(outcome == .complete(view.bytes))
      }
      #expect(FragmentPlan(view, id: FragmentID(rawValue: 9), frameLimit: 100) == nil)
    }
  }

  @Test("The fragments of a packet without a recipient may be addressed to one recipient")
  func directed() throws {
    let packet = Packet(type: .message, timestamp: 1, sender: alice, payload: [1, 2, 3])
    let view = try PacketView(packet.encoded())
    let plan = FragmentPlan(view, id: FragmentID(rawValue: 9), frameLimit: 512, recipient: PeerID(rawValue: 2))
    #expect(plan?.fragments.map(\.recipient) == [PeerID(rawValue: 2)])
  }

  @Test("The longest file is limited by the number of fragments for Android, and by the transfer time for iOS")
  func tooLong() throws {
    #expect(FragmentPlan.longestForAndroid() == 118_796)
    #expect(FragmentPlan.longestForIOS() == 502_780)
    // The limits where an iPhone with an MTU of 185 is near. The maximum is what every implementation accepts.
    #expect(FragmentPlan.longestForAndroid(sliceBytes: 140) == 35_340)
    #expect(FragmentPlan.longestForIOS(sliceBytes: 140) == 150_700)
    #expect(FragmentPlan.longestForAndroid(sliceBytes: 469) == 118_796)
    // With all headers the longest text just fits: with a long name, and in a private message over a route.
    let name = String(repeating: "n", count: 280)
    var random = SeededRandom(seed: 7)
    func fragments(_ sliceBytes: Int, more: Int = 0, to recipient: PeerID? = nil, route: [PeerID] = []) throws -> Int? {
      let content = random.bytes(FragmentPlan.longestForAndroid(sliceBytes: sliceBytes) + more)
      let file = try SharedFile(name: name, mime: "application/pdf", content: content)
      let seal = recipient == nil ? [] : [UInt8](repeating: 0, count: 25)
      let packet = Packet(
        version: .v2, type: recipient == nil ? .fileTransfer : .noiseEncrypted, timestamp: 1, sender: alice,
        recipient: recipient, route: route, payload: file.bytes + seal, signature: [UInt8](repeating: 1, count: 64))
      let view = try PacketView(packet.encoded())
      let id = FragmentID(rawValue: 9)
      return FragmentPlan(view, id: id, frameLimit: Limits.olderFrameBytes, recipient: recipient)?.fragments.count
    }
    let bob = PeerID(rawValue: 2)
    let routed = try #require(
      FragmentPlan.sliceSize(frameLimit: Limits.olderFrameBytes, hasRecipient: true, hops: 1))
    #expect(try fragments(FragmentPlan.olderSlice) == 256)
    #expect(try fragments(FragmentPlan.olderSlice, more: FragmentPlan.olderSlice) == 257)
    #expect(try fragments(routed, to: bob, route: [PeerID(rawValue: 3)]) == 256)
    #expect(try fragments(routed, more: routed, to: bob, route: [PeerID(rawValue: 3)]) == 257)
    // At 25 ms each, all fragments are sent before the timeout of 30 s, with a margin.
    #expect(OutgoingFiles.pause * Limits.fragmentsForIOS < .seconds(28))
  }
}
