import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The archive of packets for sync answers")
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

  @Test("A sync answer contains the messages that the request's filter lacks, oldest first")
  func missing() throws {
    var archive = GossipArchive()
    let items = try (0..<5).map { try item(age: UInt64(1000 * (5 - $0)), "line \($0)") }
    for item in items.shuffled() { _ = archive.keep(item) }
    let given = archive.missing(try request(having: [items[1], items[3]]), at: time)
    #expect(given == [items[0], items[2], items[4]])
    #expect(archive.missing(try request(having: items), at: time) == [])
  }

  @Test("Sync answers contain files and their fragments for 15 min, and fragments of messages for 6 h")
  func ages() throws {
    let minute: UInt64 = 60_000
    func fragment(of type: MessageType, id: UInt64, age: UInt64) throws -> GossipArchive.Item {
      let payload = try Fragment(id: FragmentID(rawValue: id), index: 0, total: 2, type: type, slice: [1, 2, 3]).bytes
      let packet = Packet(type: .fragment, timestamp: time - age, sender: PeerID(rawValue: 1), payload: payload)
      return try #require(GossipArchive.Item(bytes: try packet.encoded()))
    }
    let kept = [
      try item(.fileTransfer, age: 15 * minute), try fragment(of: .fileTransfer, id: 1, age: 15 * minute),
      try fragment(of: .message, id: 2, age: 360 * minute),
    ]
    var archive = GossipArchive()
    for item in kept { _ = archive.keep(item) }
    let all = try request([.fragment, .fileTransfer])
    #expect(Set(archive.missing(all, at: time)) == Set(kept))
    #expect(archive.missing(all, at: time + 1).isEmpty)
    archive.age(at: time)
    #expect(archive.fragmentCount == 3)
    archive.age(at: time + 1)
    #expect(archive.fragmentCount == 0)
  }

  @Test("A sync answer has an announce alone up to 60 s, and before messages of its sender up to 900 s")
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
    // A request for messages alone also gets the announces that its sender needs for them.
    #expect(Set(archive.missing(try request(.message), at: time).prefix(2)) == [fresh, old])
  }

  @Test("An announce that came in a sync answer is given on only together with messages of its sender")
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

  @Test("Only the newest announce of a peer is archived, and none of a peer that has left")
  func newest() throws {
    var archive = GossipArchive()
    let (old, new) = (try item(.announce, age: 2000, "old"), try item(.announce, age: 1000, "new"))
    _ = archive.keep(new)
    _ = archive.keep(old)
    #expect(archive.missing(try request(), at: time) == [new])
    archive.leave(PeerID(rawValue: 1))
    #expect(archive.missing(try request(), at: time) == [])
  }

  @Test("A sync request selects types and a start time, and the start time does not apply to announces")
  func selection() throws {
    var archive = GossipArchive()
    let announce = try item(.announce, age: 50_000)
    let (old, new) = (try item(age: 40_000, "old"), try item(age: 10_000, "new"))
    for item in [announce, old, new] { _ = archive.keep(item) }
    #expect(archive.missing(try request(since: time - 20_000), at: time) == [announce, new])
    #expect(archive.missing(try request(.announce), at: time) == [announce])
    #expect(archive.missing(try request(.fragment), at: time) == [])
  }

  @Test("Fragments are in a sync answer only on request, and only those that the request names, if any")
  func fragments() throws {
    var archive = GossipArchive()
    func fragment(_ id: UInt8) throws -> GossipArchive.Item {
      let id = try FragmentID(reading: [UInt8](repeating: id, count: 8))
      let fragment = try Fragment(id: id, index: 0, total: 2, type: .message, slice: [1, 2, 3])
      let packet = Packet(
        type: .fragment, timestamp: time, sender: PeerID(rawValue: 1), payload: fragment.bytes)
      return GossipArchive.Item(
        bytes: try packet.encoded(), id: PacketID(packet), type: .fragment, sender: packet.sender, timestamp: time)
    }
    let (one, two) = (try fragment(1), try fragment(2))
    let isMessage = archive.keep(one)
    #expect(!isMessage)
    _ = archive.keep(two)
    #expect(archive.missing(try request(), at: time) == [])
    #expect(Set(archive.missing(try request(.fragment), at: time)) == [one, two])
    let named = try FragmentID(reading: [UInt8](repeating: 2, count: 8))
    #expect(archive.missing(try request(.fragment, fragments: [named]), at: time) == [two])
  }

  @Test("A sender's announce of up to 900 s comes once before its fragments and small files in a sync answer")
  func announcesOfFiles() throws {
    for type in [MessageType.fragment, .fileTransfer] {
      var archive = GossipArchive()
      let announce = try item(.announce, age: 900_000)
      _ = archive.keep(announce)
      _ = archive.keep(try item(.announce, from: 2, age: 900_000))
      let parts = try (1...2).map { number in
        let payload =
          type == .fragment
          ? try Fragment(id: FragmentID(rawValue: 7), index: UInt16(number), total: 9, type: .fileTransfer, slice: [1])
            .bytes
          : [UInt8(number)]
        let packet = Packet(
          type: type, timestamp: time - UInt64(10 - number), sender: PeerID(rawValue: 1), payload: payload)
        return try #require(GossipArchive.Item(bytes: try packet.encoded()))
      }
      for part in parts { _ = archive.keep(part) }
      let types: SyncTypes = type == .fragment ? .fragment : .fileTransfer
      #expect(archive.missing(try request(types), at: time) == [announce] + parts)
      #expect(archive.missing(try request(having: [announce], types), at: time) == parts)
      #expect(archive.missing(try request(having: parts, types), at: time) == [])
      if type == .fileTransfer { archive.forget(filePacket: parts[0].bytes) }
      #expect(archive.missing(try request(types), at: time).count == (type == .fileTransfer ? 2 : 3))
    }
  }

  @Test("At most 1,000 messages are archived, for 6 h, and the oldest are evicted")
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

  @Test("A repeated message is not archived again")
  func twice() throws {
    var archive = GossipArchive()
    let first = archive.keep(try item())
    let second = archive.keep(try item())
    #expect(first && !second)
  }

  @Test("A relay archives announces, but no messages or fragments")
  func relay() throws {
    var archive = GossipArchive(keepsMessages: false)
    let isKept = archive.keep(try item())
    #expect(!isKept)
    _ = archive.keep(try item(.announce))
    #expect(archive.announceCount == 1)
    #expect(archive.missing(try request(), at: time).map(\.type) == [.announce])
  }

  @Test("A node's filter requests nothing from an equal archive, and a full filter only newer messages")
  func ownRequest() throws {
    var archive = GossipArchive()
    for number in 0..<100 { _ = archive.keep(try item(age: UInt64(1000 + number), "line \(number)")) }
    let small = try #require(archive.request(for: .usual, at: time))
    #expect(small.since == nil)
    #expect(archive.missing(small, at: time) == [])
    for number in 100..<1000 { _ = archive.keep(try item(age: UInt64(1000 + number), "line \(number)")) }
    let full = try #require(archive.request(for: .usual, at: time))
    #expect(full.filter.bits.count <= Limits.filterBytes)
    let since = try #require(full.since)
    #expect(since > time - 2000 && since < time - 1200)
    #expect(archive.missing(full, at: time) == [])
  }

  @Test("The messages of a sender are removed from the archive when the sender is blocked")
  func blocked() throws {
    var archive = GossipArchive()
    _ = archive.keep(try item(from: 1))
    _ = archive.keep(try item(from: 2))
    archive.forget(PeerID(rawValue: 1))
    #expect(archive.missing(try request(), at: time).map(\.sender) == [PeerID(rawValue: 2)])
  }

  @Test("A sender of 1,500 messages evicts no message of a sender with at most a quarter of the archive")
  func shares() throws {
    var archive = GossipArchive()
    let others = try (0..<200).map { try item(from: 2 + UInt64($0 % 2), age: UInt64(60_000 + $0), "other \($0)") }
    for item in others { _ = archive.keep(item) }
    for number in 0..<1500 { _ = archive.keep(try item(age: UInt64(50_000 - number), "line \(number)")) }
    #expect(archive.messageCount == 1000)
    #expect(others.allSatisfy { archive.hasMessage($0.id) })
    let newest = try item(age: UInt64(50_000 - 1499), "line 1499")
    #expect(archive.hasMessage(newest.id))
    // Long messages use up the capacity in bytes as well.
    for number in 0..<60 {
      let long = try item(from: 9, age: UInt64(1000 - number), "\(number)" + String(repeating: "x", count: 60_000))
      let item = GossipArchive.Item(
        bytes: long.bytes + [UInt8](repeating: 0, count: 100_000), id: long.id, type: .message, sender: long.sender,
        timestamp: long.timestamp)
      _ = archive.keep(item)
    }
    #expect(others.allSatisfy { archive.hasMessage($0.id) })
    #expect(archive.bytes <= 4 << 20)
    // If every sender uses at most a quarter, the oldest message of the stranger with the most messages is evicted.
    var even = GossipArchive()
    let lines = try (UInt64(0)...1000).map { number in
      // The sender of the newest message has the most messages. The oldest message is another sender's.
      try item(from: number == 1000 ? 2 : number % 5, age: 60_000 - number, "\(number)")
    }
    for line in lines { _ = even.keep(line) }
    #expect(lines.filter { !even.hasMessage($0.id) }.map(\.id) == [lines[2].id])
  }

  @Test("The archive for sync answers holds 4 MiB of messages, evicts the oldest, and refuses a longer one")
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
