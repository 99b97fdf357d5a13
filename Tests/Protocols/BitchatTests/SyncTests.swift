import Bytes
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of sync requests and filters")
struct SyncTests {
  private func ids(_ count: Int) throws -> [PacketID] {
    try (0..<count).map { try SyncVectorTests.id($0) }
  }

  private func request(_ records: [(UInt8, [UInt8])]) throws -> SyncRequest {
    var writer = ByteWriter()
    for (type, value) in records { try TLV(type: type, value: value).write(to: &writer, length: .u16be) }
    return try SyncRequest(reading: writer.bytes)
  }

  private static let p: (UInt8, [UInt8]) = (1, [7])
  private static let m: (UInt8, [UInt8]) = (2, [0, 0, 1, 0])
  private static let bits: (UInt8, [UInt8]) = (3, [0x5C])

  @Test(
    "A full sync filter contains the first IDs, and fewer than 1 in 64 others match",
    arguments: [1, 10, 100, 355, 1000])
  func membership(count: Int) throws {
    let ids = try ids(count)
    let filter = SyncFilter(ids)
    #expect(filter.bits.count <= 400)
    #expect(filter.p == 7)
    let included = min(count, 355)
    #expect(Int(filter.m) == included << 7)
    let values = filter.values()
    #expect(values == values.sorted())
    let held = ids.prefix(included).count { values.contains(filter.value(of: $0)) }
    #expect(held == included)
    let others = try (2000..<4000).map { try SyncVectorTests.id($0) }
    let seeming = others.count { values.contains(filter.value(of: $0)) }
    #expect(seeming < 2000 / 64)
  }

  @Test(
    "A search in a sync filter finds the values of the filter and no others",
    arguments: [1, 2, 511, 512, 513, 45_440, UInt32.max])
  func found(m: UInt32) throws {
    let ids = try ids(600)
    // Values evenly spread as in a filter, and adjacent values as an attacker may send them.
    for bits in [
      SyncFilter(ids.prefix(300)).bits, [UInt8](repeating: 0, count: 1024), [UInt8](repeating: 0xFF, count: 1024),
    ] {
      for p in [1, 7, 32] {
        let filter = try SyncFilter(p: p, m: m, bits: bits)
        let (values, known) = (Set(filter.values()), FilterValues(filter))
        let hashes = ids.map(SyncFilter.hash) + (0..<300).map(UInt64.init)
        for hash in hashes { #expect(known.mayHave(hash) == values.contains(filter.value(of: hash))) }
      }
    }
  }

  @Test(
    "In sync answers an announce with TTL 0 is sent only with messages, and with over 512 peers also one with TTL 1",
    arguments: [512, 513])
  func farthest(count: Int) throws {
    let time: UInt64 = 1_900_000_000_000
    var archive = GossipArchive()
    for (number, id) in try ids(count).enumerated() {
      let timeToLive = UInt8(min(number, 2))
      _ = archive.keep(
        GossipArchive.Item(
          bytes: [1, 1, timeToLive], id: id, type: .announce, sender: PeerID(rawValue: UInt64(number)), timestamp: time)
      )
    }
    let request = try SyncRequest(filter: SyncFilter([]), types: .announce)
    #expect(archive.missing(request, at: time).count == (count > 512 ? count - 2 : count - 1))
  }

  @Test("A sync filter is never longer than its byte limit, and may be empty")
  func room() throws {
    let ids = try ids(400)
    for bytes in [0, 1, 2, 3, 8, 31, 32, 128, 256, 1024] {
      for rate in [0.25, 0.05, 0.01, 0.001, 0.000001] {
        let filter = SyncFilter(ids, bytes: bytes, falsePositives: rate)
        #expect(filter.bits.count <= bytes)
        #expect(filter.bits.isEmpty == (filter.m == 1))
        #expect(filter.bits.isEmpty || Int(filter.m) >= 1 << filter.p)
        #expect(Int(filter.m).isMultiple(of: 1 << filter.p) || filter.m == 1)
      }
    }
    #expect(SyncFilter(ids, bytes: 1, falsePositives: 0.000001) == SyncFilter([], falsePositives: 0.000001))
    #expect(SyncFilter(ids, bytes: 5000).bits.count <= 1024)
  }

  @Test("The filter parameter P is the smallest of 2 to 20 with 2^-P at most the false positive rate")
  func rates() {
    for (rate, p) in [(0.01, 7), (0.05, 5), (0.25, 2), (0.5, 2), (0.125, 3), (0, 20), (-1, 20), (.nan, 7)] {
      #expect(SyncFilter.p(rate) == p)
    }
  }

  @Test("The values of a sync filter end with the encoded bits and are below M")
  func reading() throws {
    // 93 is encoded as 5C: a zero bit, and 92 in seven bits.
    #expect(try SyncFilter(p: 7, m: 128, bits: [0x5C]).values() == [93])
    #expect(try SyncFilter(p: 7, m: 94, bits: [0x5C]).values() == [93])
    #expect(try SyncFilter(p: 7, m: 93, bits: [0x5C]).values() == [])
    #expect(try SyncFilter(p: 7, m: 1, bits: [0x5C]).values() == [])
    #expect(try SyncFilter(p: 7, m: 1000, bits: [0x5C, 0x5C, 0xFF]).values() == [93, 186])
    #expect(try SyncFilter(p: 32, m: .max, bits: [UInt8](repeating: 0, count: 1024)).values().count == 248)
    #expect(try SyncFilter(p: 1, m: .max, bits: [UInt8](repeating: 0, count: 1024)).values().count == 4096)
    #expect(try SyncFilter(p: 1, m: .max, bits: [UInt8](repeating: 0xFF, count: 1024)).values() == [])
    // 70 one bits, across the end of a word, and then distances of 3, 1 and 1.
    #expect(
      try SyncFilter(p: 1, m: 1000, bits: [UInt8](repeating: 0xFF, count: 8) + [0xFC, 0x80]).values() == [
        141, 144, 145, 146,
      ])
  }

  @Test("A packet ID that hashes to 0 has the filter value 1")
  func zero() throws {
    let id = try #require(try ids(2000).first { SyncFilter.hash($0).isMultiple(of: 128) })
    let filter = SyncFilter([id])
    #expect(filter.value(of: id) == 1)
    #expect(filter.values() == [1])
  }

  @Test("A sync filter with P outside 1 to 32, M of 0, or more than 1,024 bytes is refused")
  func filterLimits() throws {
    for p in [0, 33, 255] as [UInt8] {
      #expect(throws: WireError.badValue("P")) { try request([(1, [p]), Self.m, Self.bits]) }
    }
    for p in [1, 32] as [UInt8] {
      #expect(throws: Never.self) { try request([(1, [p]), Self.m, Self.bits]) }
    }
    #expect(throws: WireError.badValue("M")) { try request([Self.p, (2, [0, 0, 0, 0]), Self.bits]) }
    let most = [UInt8](repeating: 0, count: 1024)
    #expect(throws: Never.self) { try request([Self.p, Self.m, (3, most)]) }
    #expect(throws: WireError.tooLong(field: "filter", limit: 1024)) { try request([Self.p, Self.m, (3, most + [0])]) }
  }

  @Test("A sync request without P, M or filter is refused, and other invalid records are ignored")
  func required() throws {
    #expect(throws: WireError.badValue("P")) { try request([Self.m, Self.bits]) }
    #expect(throws: WireError.badValue("P")) { try request([(1, [7, 7]), Self.m, Self.bits]) }
    #expect(throws: WireError.badValue("M")) { try request([Self.p, Self.bits]) }
    #expect(throws: WireError.badValue("filter")) { try request([Self.p, Self.m]) }
    let bare = try request([Self.p, Self.m, Self.bits])
    #expect(bare.types == nil)
    #expect(bare.since == nil)
    #expect(bare.fragments == [])
    let long = [UInt8](repeating: 1, count: 9)
    #expect(try request([(9, [1]), (4, []), (4, long), (5, [1]), Self.bits, Self.m, (6, [1]), Self.p]) == bare)
    #expect(throws: WireError.self) { try SyncRequest(reading: bare.bytes + [4]) }
  }

  @Test("A sync request names up to 60 fragments, and invalid fragment IDs are skipped")
  func fragments() throws {
    let many = (0..<61).map { FragmentID(rawValue: $0 << 32) }
    #expect(throws: WireError.tooLong(field: "fragments", limit: 60)) {
      try SyncRequest(filter: SyncFilter([]), fragments: many)
    }
    let request = try SyncRequest(filter: SyncFilter([]), types: .fragment, since: 7, fragments: Array(many.prefix(60)))
    #expect(try SyncRequest(reading: request.bytes) == request)
    let text = "00000000000000aa,zz,0123,,00000000000000BB"
    let read = try self.request([Self.p, Self.m, Self.bits, (6, Array(text.utf8))])
    #expect(read.fragments.map(\.rawValue) == [0xAA, 0xBB])
    let full = many.map(\.description).joined(separator: ",")
    #expect(full.utf8.count > 1024)
    #expect(try self.request([Self.p, Self.m, Self.bits, (6, Array(full.utf8))]).fragments == [])
    let dense = (0..<64).map { _ in "00000000000000a" }.joined(separator: ",") + ",00000000000000"
    #expect(try self.request([Self.p, Self.m, Self.bits, (6, Array(dense.utf8))]).fragments == [])
  }

  @Test("The types in a sync request are encoded in little endian with the fewest bytes")
  func types() {
    #expect(SyncTypes.usual.bytes == [3])
    #expect(SyncTypes([.announce, .message, .groupMessage]).bytes == [0x03, 0x04])
    #expect(SyncTypes([0x03, 0x04, 0x00]) == [.announce, .message, .groupMessage])
    #expect(SyncTypes([UInt8]()[...]) == nil)
  }
}
