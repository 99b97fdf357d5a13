import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat

@Suite("What neighbours are given")
struct GossipArchiveTests {
  private let time: UInt64 = 1_800_000_000_000

  private func item(
    _ type: MessageType = .message, from sender: UInt64 = 1, age milliseconds: UInt64 = 0, _ text: String = "hello"
  ) throws -> GossipArchive.Item {
    let packet = Packet(
      type: type, timestamp: time - milliseconds, sender: PeerID(rawValue: sender), payload: Array(text.utf8))
    return GossipArchive.Item(
      bytes: try packet.encoded(), id: PacketID(packet), type: type, sender: packet.sender, timestamp: packet.timestamp)
  }

  private func request(
    having items: [GossipArchive.Item] = [], _ types: SyncTypes? = nil, since: UInt64? = nil,
    fragments: [FragmentID] = []
  ) throws -> SyncRequest {
    try SyncRequest(filter: SyncFilter(items.map(\.id)), types: types, since: since, fragments: fragments)
  }

  @Test("A neighbour gets what its filter does not hold, the oldest first")
  func missing() throws {
    var archive = GossipArchive()
    let items = try (0..<5).map { try item(age: UInt64(1000 * (5 - $0)), "line \($0)") }
    for item in items.shuffled() { _ = archive.keep(item) }
    let given = archive.missing(try request(having: [items[1], items[3]]), at: time)
    #expect(given == [items[0], items[2], items[4]])
    #expect(archive.missing(try request(having: items), at: time) == [])
  }

  @Test("An announce of up to 60 s goes by itself; one of up to 900 s goes before its sender's messages, and else not")
  func announces() throws {
    var archive = GossipArchive()
    let fresh = try item(.announce, from: 1, age: 60_000)
    let old = try item(.announce, from: 2, age: 900_000)
    let older = try item(.announce, from: 3, age: 900_001)
    for announce in [fresh, old, older] { _ = archive.keep(announce) }
    #expect(archive.missing(try request(), at: time) == [fresh])
    let lines = try (1...3).map { try item(from: UInt64($0), age: 1000, "line") }
    for line in lines { _ = archive.keep(line) }
    let given = archive.missing(try request(), at: time)
    #expect(given.prefix(2) == [fresh, old])
    #expect(Set(given.dropFirst(2)) == Set(lines))
    // One that asks for messages alone gets the announces that it needs for them.
    #expect(Set(archive.missing(try request(.message), at: time).prefix(2)) == [fresh, old])
  }

  @Test("An announce that came in an answer goes on with messages of its sender, and by itself not")
  func far() throws {
    for (timeToLive, isNear) in [(0, false), (1, true), (7, true)] as [(UInt8, Bool)] {
      var archive = GossipArchive()
      let packet = Packet(
        type: .announce, timeToLive: timeToLive, timestamp: time, sender: PeerID(rawValue: 1),
        payload: Array("far".utf8))
      let far = GossipArchive.Item(
        bytes: try packet.encoded(), id: PacketID(packet), type: .announce, sender: packet.sender,
        timestamp: packet.timestamp)
      _ = archive.keep(far)
      #expect(archive.missing(try request(), at: time) == (isNear ? [far] : []))
      let line = try item(age: 1000)
      _ = archive.keep(line)
      #expect(archive.missing(try request(), at: time) == [far, line])
      #expect(archive.missing(try request(having: [far]), at: time) == [line])
    }
  }

  @Test("The newest announce of a peer is kept, and none of one that has left")
  func newest() throws {
    var archive = GossipArchive()
    let (old, new) = (try item(.announce, age: 2000, "old"), try item(.announce, age: 1000, "new"))
    _ = archive.keep(new)
    _ = archive.keep(old)
    #expect(archive.missing(try request(), at: time) == [new])
    archive.leave(PeerID(rawValue: 1))
    #expect(archive.missing(try request(), at: time) == [])
  }

  @Test("A request says from when on and of which types; announces have no beginning")
  func selection() throws {
    var archive = GossipArchive()
    let announce = try item(.announce, age: 50_000)
    let (old, new) = (try item(age: 40_000, "old"), try item(age: 10_000, "new"))
    for item in [announce, old, new] { _ = archive.keep(item) }
    #expect(archive.missing(try request(since: time - 20_000), at: time) == [announce, new])
    #expect(archive.missing(try request(.announce), at: time) == [announce])
    #expect(archive.missing(try request(.fragment), at: time) == [])
  }

  /// A fragment as it is kept, and as it is given.
  private func fragment(
    _ index: UInt16, of id: UInt64 = 7, from sender: UInt64 = 1, age milliseconds: UInt64 = 0,
    isCompressed: Bool = false
  ) throws -> (kept: GossipArchive.UnnamedFragment, given: GossipArchive.Item) {
    let id = FragmentID(rawValue: id)
    let slice = [UInt8](repeating: 7, count: 300)
    let payload = try Fragment(id: id, index: index, total: 9000, type: .fileTransfer, slice: slice).bytes
    let packet = Packet(
      type: .fragment, timestamp: time - milliseconds, sender: PeerID(rawValue: sender), payload: payload)
    let deflated = try #require(PayloadSection(deflating: payload, version: .v1, level: 6))
    let bytes = try packet.encoded(isCompressed ? deflated : PayloadSection(plain: payload))
    return (
      GossipArchive.UnnamedFragment(bytes: bytes, sender: packet.sender, timestamp: packet.timestamp, id: id),
      GossipArchive.Item(
        bytes: bytes, id: PacketID(packet), type: .fragment, sender: packet.sender, timestamp: packet.timestamp,
        fragment: id)
    )
  }

  @Test("Fragments are given to who asks for them, of the named packets where some are named")
  func fragments() throws {
    var archive = GossipArchive()
    let (one, two) = (try fragment(0, of: 1), try fragment(0, of: 2))
    archive.keep(one.kept)
    archive.keep(two.kept)
    #expect(archive.fragmentCount == 2)
    #expect(archive.missing(try request(), at: time) == [])
    #expect(Set(archive.missing(try request(.fragment), at: time)) == [one.given, two.given])
    #expect(archive.missing(try request(.fragment, fragments: [FragmentID(rawValue: 2)]), at: time) == [two.given])
    #expect(archive.missing(try request(having: [one.given], .fragment), at: time) == [two.given])
    // What this node asks for leaves out what came last.
    let three = try fragment(0, of: 3)
    archive.keep(three.kept)
    let request = archive.request(for: .fragment, at: time)
    let known = FilterValues(try #require(request).filter)
    #expect([one, two, three].allSatisfy { known.mayHave($0.given.filterHash) })
  }

  @Test("A fragment that comes twice, or that a relay has compressed, is given once, as it came first")
  func fragmentForms() throws {
    let (plain, deflated) = (try fragment(1), try fragment(1, isCompressed: true))
    #expect(deflated.kept.bytes != plain.kept.bytes && deflated.given.id == plain.given.id)
    for (first, second) in [(plain, deflated), (deflated, plain)] {
      var archive = GossipArchive()
      for each in [first, second, first] { archive.keep(each.kept) }
      #expect(archive.missing(try request(.fragment), at: time) == [first.given])
      archive.keep(second.kept)
      archive.keep(
        GossipArchive.UnnamedFragment(bytes: [1], sender: first.kept.sender, timestamp: time, id: first.kept.id))
      #expect(archive.missing(try request(.fragment), at: time) == [first.given])
      #expect(archive.fragmentCount == 1)
    }
  }

  @Test("Fragments of a cancelled file, of a blocked sender and of long ago are given to nobody, asked for or not")
  func fragmentsForgotten() throws {
    for isNamed in [false, true] {
      var archive = GossipArchive()
      let fragments = try [
        fragment(0, of: 1), fragment(0, of: 2), fragment(0, of: 2, from: 2), fragment(0, of: 3, from: 3),
        fragment(0, of: 4, age: 6 * 3600 * 1000 - 10),
      ]
      for fragment in fragments { archive.keep(fragment.kept) }
      if isNamed { _ = archive.missing(try request(.fragment), at: time) }
      archive.forget(FragmentID(rawValue: 2), of: PeerID(rawValue: 1))
      archive.forget(PeerID(rawValue: 3))
      archive.age(at: time + 20)
      #expect(archive.bytes == fragments[0].kept.bytes.count + fragments[2].kept.bytes.count, "named: \(isNamed)")
      let given = archive.missing(try request(.fragment), at: time)
      #expect(Set(given) == [fragments[0].given, fragments[2].given], "named: \(isNamed)")
    }
  }

  @Test("No more fragments wait for their IDs than are kept with them, and a relay keeps none")
  func fragmentRoom() throws {
    var archive = GossipArchive()
    for index in 0..<UInt16(8900) {
      archive.keep(try fragment(index).kept)
      #expect(archive.fragmentCount <= 6000)
    }
    #expect(archive.missing(try request(.fragment), at: time).contains(try fragment(8899).given))
    #expect(archive.fragmentCount <= 3000)
    for index in 0..<UInt16(60) {
      let part = try fragment(index, of: 8).kept
      archive.keep(
        GossipArchive.UnnamedFragment(
          bytes: part.bytes + [UInt8](repeating: 0, count: 100_000), sender: part.sender,
          timestamp: part.timestamp, id: part.id))
      #expect(archive.bytes <= 2 * (3 << 19) + 110_000)
    }
    var relay = GossipArchive(keepsMessages: false)
    relay.keep(try fragment(0).kept)
    #expect(relay.fragmentCount == 0)
  }

  @Test("Before fragments and small files goes the announce of their sender, as old as it may be, once")
  func announcesOfFiles() throws {
    for type in [MessageType.fragment, .fileTransfer] {
      var archive = GossipArchive()
      let announce = try item(.announce, age: 900_000)
      _ = archive.keep(announce)
      _ = archive.keep(try item(.announce, from: 2, age: 900_000))
      let parts = try (1...2).map { number in
        if type == .fragment {
          let part = try fragment(UInt16(number), age: UInt64(10 - number))
          archive.keep(part.kept)
          return part.given
        }
        let packet = Packet(
          type: type, timestamp: time - UInt64(10 - number), sender: PeerID(rawValue: 1), payload: [UInt8(number)])
        let part = try #require(GossipArchive.Item(bytes: try packet.encoded()))
        _ = archive.keep(part)
        return part
      }
      let types: SyncTypes = type == .fragment ? .fragment : .fileTransfer
      #expect(archive.missing(try request(types), at: time) == [announce] + parts)
      #expect(archive.missing(try request(having: [announce], types), at: time) == parts)
      #expect(archive.missing(try request(having: parts, types), at: time) == [])
      if type == .fileTransfer { archive.forget(filePacket: parts[0].bytes) }
      #expect(archive.missing(try request(types), at: time).count == (type == .fileTransfer ? 2 : 3))
    }
  }

  @Test("A thousand messages are kept, for six hours; of more the oldest go")
  func room() throws {
    var archive = GossipArchive()
    for number in 0..<1000 { _ = archive.keep(try item(age: UInt64(5000 + number), "line \(number)")) }
    let tooOld = archive.keep(try item(age: 10_000, "older than all"))
    #expect(!tooOld)
    let new = archive.keep(try item(age: 1, "new"))
    #expect(new)
    #expect(archive.messageCount == 1000)
    #expect(!archive.missing(try request(.message), at: time).contains(try item(age: 5999, "line 999")))
    archive.age(at: time + 6 * 3600 * 1000 - 1)
    #expect(archive.messageCount == 1)
    archive.age(at: time + 6 * 3600 * 1000)
    #expect(archive.messageCount == 0)
  }

  @Test("A line that came before is no new line")
  func twice() throws {
    var archive = GossipArchive()
    let first = archive.keep(try item())
    let second = archive.keep(try item())
    #expect(first && !second)
  }

  @Test("A relay keeps announces, and no message and no fragment")
  func relay() throws {
    var archive = GossipArchive(keepsMessages: false)
    let isKept = archive.keep(try item())
    #expect(!isKept)
    _ = archive.keep(try item(.announce))
    #expect(archive.announceCount == 1)
    #expect(archive.missing(try request(), at: time).map(\.type) == [.announce])
  }

  @Test("Its own request asks a like archive for nothing; where its filter is full it asks for what is newer")
  func ownRequest() throws {
    var archive = GossipArchive()
    for number in 0..<100 { _ = archive.keep(try item(age: UInt64(1000 + number), "line \(number)")) }
    let first = archive.request(for: .usual, at: time)
    let small = try #require(first)
    #expect(small.since == nil)
    #expect(archive.missing(small, at: time) == [])
    for number in 100..<1000 { _ = archive.keep(try item(age: UInt64(1000 + number), "line \(number)")) }
    let second = archive.request(for: .usual, at: time)
    let full = try #require(second)
    #expect(full.filter.bits.count <= Limits.filterBytes)
    let since = try #require(full.since)
    #expect(since > time - 2000 && since < time - 1200)
    #expect(archive.missing(full, at: time) == [])
  }

  @Test("What a blocked sender said is forgotten")
  func blocked() throws {
    var archive = GossipArchive()
    _ = archive.keep(try item(from: 1))
    _ = archive.keep(try item(from: 2))
    archive.forget(PeerID(rawValue: 1))
    #expect(archive.missing(try request(), at: time).map(\.sender) == [PeerID(rawValue: 2)])
  }

  @Test("Whoever says a thousand lines takes the room of nobody who has a quarter of it or less")
  func shares() throws {
    var archive = GossipArchive()
    let others = try (0..<200).map { try item(from: 2 + UInt64($0 % 2), age: UInt64(60_000 + $0), "other \($0)") }
    for item in others { _ = archive.keep(item) }
    for number in 0..<1500 { _ = archive.keep(try item(age: UInt64(50_000 - number), "line \(number)")) }
    #expect(archive.messageCount == 1000)
    #expect(others.allSatisfy { archive.hasMessage($0.id) })
    let newest = try item(age: UInt64(50_000 - 1499), "line 1499")
    #expect(archive.hasMessage(newest.id))
    // Long lines take room as well.
    for number in 0..<60 {
      let long = try item(from: 9, age: UInt64(1000 - number), "\(number)" + String(repeating: "x", count: 60_000))
      let item = GossipArchive.Item(
        bytes: long.bytes + [UInt8](repeating: 0, count: 100_000), id: long.id, type: .message, sender: long.sender,
        timestamp: long.timestamp)
      _ = archive.keep(item)
    }
    #expect(others.allSatisfy { archive.hasMessage($0.id) })
    #expect(archive.bytes <= 4 << 20)
    // Where nobody has more than a quarter, the oldest of all goes.
    var even = GossipArchive()
    let lines = try (UInt64(0)...1000).map { number in
      // Whoever says the last line has the most; the oldest line is another one's.
      try item(from: number == 1000 ? 2 : number % 5, age: 60_000 - number, "\(number)")
    }
    for line in lines { _ = even.keep(line) }
    #expect(lines.map { even.hasMessage($0.id) } == [false] + [Bool](repeating: true, count: 1000))
  }

  @Test("Four megabytes of messages are kept: of more the oldest go, and one that is longer by itself is not kept")
  func bytes() throws {
    var archive = GossipArchive()
    func long(_ number: UInt64, _ count: Int) -> GossipArchive.Item {
      let packet = Packet(type: .message, timestamp: time - 1000 + number, sender: PeerID(rawValue: 1), payload: [])
      return GossipArchive.Item(
        bytes: [UInt8](repeating: 0, count: count), id: PacketID(packet), type: .message, sender: packet.sender,
        timestamp: packet.timestamp)
    }
    for number in UInt64(0)..<60 { _ = archive.keep(long(number, 100_000)) }
    #expect(archive.messageCount == 41)
    #expect(archive.bytes == 4_100_000)
    let isKept = archive.hasMessage(long(59, 100_000).id)
    let isGone = !archive.hasMessage(long(18, 100_000).id)
    #expect(isKept && isGone)
    let isTaken = archive.keep(long(0, 5 << 20))
    #expect(!isTaken)
    archive.age(at: time + 7 * 3600 * 1000)
    #expect(archive.bytes == 0)
  }
}
