import Bytes
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Observed results of the originals for the same bytes; facts: bitchat.md section 13.
@Suite("Bitchat vectors: sync")
struct SyncVectorTests {
  let vectors = Vectors.shared

  static func id(_ number: Int) throws -> PacketID {
    try PacketID(reading: Array(SHA256.hash(Array("gcs\(number)".utf8)).prefix(16)))
  }

  private func ids(_ row: Vectors.FilterRow) throws -> [PacketID] {
    switch row.ids {
    case .list(let ids): try ids.map { try PacketID(reading: $0.bytes) }
    case .rule(let rule):
      try {
        #expect(rule == "sha256('gcs<i>')[:16], i=0..\(row.totalIds - 1)")
        return try (0..<row.totalIds).map { try Self.id($0) }
      }()
    }
  }

  @Test("A sync filter is built to the recorded bits and decoded to the recorded values", arguments: Vectors.shared.gcs)
  func filters(row: Vectors.FilterRow) throws {
    let ids = try ids(row)
    #expect(ids.count == row.totalIds)
    let filter = SyncFilter(ids, bytes: row.maxBytes, falsePositives: row.fpr)
    #expect((try SyncFilter(p: row.p, m: row.m, bits: row.data.bytes)) == filter)
    let values = filter.values()
    #expect(values.count == row.valueCount)
    #expect(Array(values.prefix(row.values.count)) == row.values)
    for id in ids.prefix(row.included) { #expect(values.contains(filter.value(of: id))) }
    for row in row.absentMembership {
      #expect(values.contains(filter.value(of: try PacketID(reading: row.id.bytes))) == row.isMember)
    }
  }

  @Test("Each recorded packet ID has the recorded filter hash", arguments: Vectors.shared.gcsH64)
  func hashes(row: Vectors.HashRow) throws {
    #expect(SyncFilter.hash(try PacketID(reading: row.id.bytes)) == row.h64)
  }

  @Test("A recorded sync request is decoded, and encoded unchanged", arguments: Vectors.requestRows)
  func requests(row: Vectors.RequestRow) throws {
    let payload = try #require(row.payload).bytes
    let request = try SyncRequest(reading: payload)
    if let types = row.types { #expect(request.types?.rawValue == types) }
    #expect(request.since == row.since)
    #expect(request.fragments.isEmpty == (row.name != "ios_fragment_filter"))
    #expect(request.bytes == payload)
  }

  @Test("A sync request names the recorded fragments, and an empty store has an empty filter")
  func requestedFragments() throws {
    let row = try #require(vectors.requestSync.first { $0.name == "ios_fragment_filter" }?.payload)
    let request = try SyncRequest(reading: row.bytes)
    #expect(request.fragments.map(\.description) == ["f0f1f2f3f4f5f6f7", "e0e1e2e3e4e5e6e7"])
    #expect(request.filter == SyncFilter([]))
    #expect(request.filter.values() == [])
  }

  @Test("A recorded sync request packet has TTL 0, one recipient and a valid signature")
  func requestPacket() throws {
    let row = try #require(vectors.requestSync.first { $0.wire != nil }?.wire)
    let view = try PacketView(row.bytes)
    let packet = try Packet(view)
    #expect(packet.type == .requestSync)
    #expect(packet.timeToLive == 0)
    #expect((try vectors.identity("bob").peerId) == view.recipient?.description)
    let key = try vectors.identity("alice").signingKey()
    #expect(SignatureCheck(view, decoded: packet, key: key.publicKey).isValid)
    #expect(try SyncRequest(reading: packet.payload).types == [.announce, .message, .groupMessage])
    #expect(try packet.signed(with: key).encoded() == row.bytes)
  }
}
