import Bitchat
import Bytes
import Crypto
import Testing

@testable import MeshStore

@Suite("Encoding of mesh store records")
struct MeshRecordTests {
  static func records() throws -> [MeshRecord] {
    var random = SeededRandom(seed: 3)
    let identity = MeshEngine.Identity(
      noiseKey: X25519.PrivateKey(randomFrom: &random), signingKey: Ed25519.PrivateKey(randomFrom: &random))
    var empty = PeerMarks(peer: Sample.peer(9))
    empty.isBlocked = true
    empty.isFavouriteOfPeer = true
    empty.isNoticeOwed = true
    var delivered = try Sample.publicMessage(3)
    (delivered.via, delivered.isReceiptOwed) = (77, true)
    let packet = try Sample.gossip()
    let marked = try #require(GossipArchive.Item(bytes: packet.bytes, via: 77))
    var traces = ErasedTraces(randomFrom: &random)
    traces.add([packet.id], own: identity.id, at: Sample.time)
    var renamed = try Sample.marks(3, isFavourite: true)
    (renamed.contacts, renamed.verifiedName) = ([.wrotePublicly, .wasWrittenTo], "mallory")
    renamed.nicknameHistory = (1...8).map { "name \($0)" }
    var favourite = renamed
    favourite.uplinkKey = "npub1" + String(repeating: "q", count: 58)
    var noticed = favourite
    noticed.noticedAt = Sample.time
    return [
      .peer(renamed), .peer(favourite), .peer(noticed), .uplinkKey(favourite.uplinkKey),
      .identity(identity), .nickname(""), .nickname(Sample.secretName), .number(.max),
      .pin(Sample.peer(1), try Sample.key(1)),
      .pin(Sample.peer(1), try Sample.key(1), isProven: true), .peer(try Sample.marks(1)), .peer(empty),
      .outgoing(try Sample.outgoing(5, tries: 8)), .outgoing(try Sample.deposited(6)),
      .outgoing(try Sample.outgoing(7, isDated: false)),
      .carried(try Sample.carried(1)),
      .carried(try Sample.carried(2, isOfFavourite: true, givenTo: [Sample.peer(5), Sample.peer(6)])),
      .gossip(packet), .gossip(marked), .message(delivered), .erased(traces),
      .file(KeptFilesTests.file(7)), .file(try KeptFilesTests.publicFile(8)),
      .deleted(DeletedFile(KeptFilesTests.file(7), at: 5)),
      .deleted(DeletedFile(try KeptFilesTests.privateFile(9), at: 6)),
      .deleted(DeletedFile(try KeptFilesTests.publicFile(8), at: 7)),
    ]
      + (try MeshMessage.State.allCases.flatMap { state in
        [.message(try Sample.privateMessage(1, state: state)), .message(try Sample.publicMessage(2, text: ""))]
      })
  }

  @Test("Each kind of mesh record is decoded as it was encoded")
  func roundTrip() throws {
    for record in try Self.records() {
      let bytes = try record.bytes()
      let back = try MeshRecord(reading: bytes)
      #expect(try back.bytes() == bytes)
      switch (record, back) {
      case (.identity(let one), .identity(let two)):
        #expect(one.id == two.id && one.noiseKey.secret.equals(two.noiseKey.secret))
        #expect(one.signingKey.seed.equals(two.signingKey.seed))
      case (.nickname(let one), .nickname(let two)): #expect(one == two)
      case (.number(let one), .number(let two)): #expect(one == two)
      case (.pin(let one, let key, let isProven), .pin(let two, let other, let isOtherProven)):
        #expect(one == two && key == other && isProven == isOtherProven)
      case (.peer(let one), .peer(let two)): #expect(one == two)
      case (.outgoing(let one), .outgoing(let two)): #expect(one == two)
      case (.gossip(let one), .gossip(let two)): #expect(one == two)
      case (.carried(let one), .carried(let two)): #expect(one == two)
      case (.message(let one), .message(let two)): #expect(one == two)
      case (.erased(let one), .erased(let two)): #expect(one == two)
      case (.file(let one), .file(let two)): #expect(one == two)
      case (.deleted(let one), .deleted(let two)): #expect(one == two)
      case (.uplinkKey(let one), .uplinkKey(let two)): #expect(one == two)
      default: Issue.record("another kind")
      }
    }
  }

  @Test("A mesh record that is truncated or has a trailing byte is refused, except for packets")
  func cut() throws {
    for record in try Self.records() {
      let bytes = try record.bytes()
      if case .gossip = record { continue }
      let whole = try Self.shorterForms(of: record).map(\.count)
      for count in 0..<bytes.count where !whole.contains(count) {
        #expect(throws: WireError.self) { try MeshRecord(reading: Array(bytes.prefix(count))) }
      }
      #expect(throws: WireError.self) { try MeshRecord(reading: bytes + [0]) }
    }
  }

  /// Returns the shortened forms of a record that are valid as well. They are a pin without its proof, a message or
  /// an envelope without the mark of the device that delivered it, and a peer that ends after its nickname, without its
  /// uplink key, or without the time of its notice. A waiting message may end after its pieces, or lack the byte for a
  /// wrong date.
  private static func shorterForms(of record: MeshRecord) throws -> [[UInt8]] {
    switch record {
    case .pin(_, _, isProven: true): return [Array(try record.bytes().dropLast())]
    case .message(let message) where message.via != nil: return [Array(try record.bytes().dropLast(4))]
    case .carried(let envelope) where envelope.via != nil: return [Array(try record.bytes().dropLast(4))]
    default: break
    }
    if case .peer(let marks) = record {
      let names = 3 + marks.verifiedName.utf8.count + marks.nicknameHistory.map { 1 + $0.utf8.count }.reduce(0, +)
      let key = marks.uplinkKey.isEmpty ? 0 : 1 + marks.uplinkKey.utf8.count
      let time = marks.uplinkKey.isEmpty || marks.noticedAt == 0 ? 0 : 8
      let bytes = try record.bytes()
      return [bytes.dropLast(names + key + time), bytes.dropLast(key + time), bytes.dropLast(time)].map { Array($0) }
    }
    guard case .outgoing(let message) = record else { return [] }
    let mark = message.isDated ? 0 : 1
    let behind = 1 + (message.noiseKey == nil ? 0 : 32) + 1 + 8 * message.couriers.count + mark
    let bytes = try record.bytes()
    return [bytes.dropLast(behind), bytes.dropLast(mark)].map { Array($0) }
  }

  @Test("A peer record of an earlier release is read without contacts and former names")
  func earlierPeer() throws {
    var marks = try Sample.marks(3, isFavourite: true)
    (marks.contacts, marks.verifiedName, marks.nicknameHistory) = (.wasWrittenTo, "mallory", ["mallory"])
    let bytes = try #require(try Self.shorterForms(of: .peer(marks)).first)
    (marks.contacts, marks.verifiedName, marks.nicknameHistory) = ([], "", [])
    guard case .peer(let read) = try MeshRecord(reading: bytes) else {
      Issue.record("another kind")
      return
    }
    #expect(read == marks)
  }

  @Test("A peer record of an earlier release is read without the time of its latest favourite notice")
  func earlierNotice() throws {
    var marks = try Sample.marks(3, isFavourite: true)
    (marks.uplinkKey, marks.noticedAt) = ("npub1" + String(repeating: "q", count: 58), Sample.time)
    let bytes = try #require(try Self.shorterForms(of: .peer(marks)).last)
    marks.noticedAt = 0
    guard case .peer(let read) = try MeshRecord(reading: bytes) else {
      Issue.record("another kind")
      return
    }
    #expect(read == marks)
  }

  @Test("A message record of an earlier release is read without couriers")
  func earlier() throws {
    let whole = try Sample.deposited(6)
    let bytes = try #require(try Self.shorterForms(of: .outgoing(whole)).first)
    guard case .outgoing(let read) = try MeshRecord(reading: bytes) else {
      Issue.record("another kind")
      return
    }
    #expect(read.pieces == whole.pieces && read.couriers.isEmpty && read.noiseKey == nil && read.isDated)
  }

  @Test("Decoding randomly changed mesh records never crashes")
  func noise() throws {
    var random = SeededRandom(seed: 5)
    for record in try Self.records() {
      let bytes = try record.bytes()
      for _ in 0..<300 {
        var altered = bytes
        for _ in 0...Int.random(in: 0..<3, using: &random) {
          altered[Int.random(in: 0..<altered.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
        }
        guard let read = try? MeshRecord(reading: altered) else { continue }
        #expect(throws: Never.self) { try read.bytes() }
      }
    }
  }

  @Test("A mesh record with an unknown version, state or kind is refused with a named error")
  func values() throws {
    var bytes = try MeshRecord.message(try Sample.privateMessage(1)).bytes()
    bytes[0] = 2
    #expect(throws: WireError.badValue("version")) { try MeshRecord(reading: bytes) }
    bytes[0] = 1
    bytes[14] = 0
    #expect(throws: WireError.badValue("state")) { try MeshRecord(reading: bytes) }
    bytes[14] = 8
    #expect(throws: WireError.badValue("state")) { try MeshRecord(reading: bytes) }
    #expect(throws: WireError.badValue("kind")) { try MeshRecord(reading: [1, 11]) }
  }

  @Test("A nickname longer than 255 bytes is not written to the mesh store")
  func tooLong() {
    let name = String(repeating: "x", count: 256)
    #expect(throws: WireError.tooLong(field: "nickname", limit: 255)) { try MeshRecord.nickname(name).bytes() }
  }

  @Test("The printed form of a stored message contains no text")
  func printed() throws {
    let message = try Sample.privateMessage(4)
    var dumped = ""
    dump(message, to: &dumped)
    #expect("\(message)" == "<message 4>" && !dumped.contains(Sample.secretText))
  }
}
