import Bytes
import Crypto
import TestSupport
import Testing

@testable import Store

@Suite("The file of a kept credential")
struct SpoolFileTests {
  let key: SpoolKey
  let id: SpoolID
  let nonce = [UInt8](repeating: 0x11, count: 12)

  init() throws {
    key = try Fixture().key
    id = try #require(SpoolID("000102030405060708090a0b0c0d0e0f"))
  }

  static let entries = [
    SpoolEntry(received: 0, dialect: "", peer: "", credential: []),
    SpoolEntry(received: -1, dialect: "0.5", peer: "C0:FF:EE:00:00:01", credential: Array("{}".utf8)),
    SpoolEntry(
      received: .max, dialect: String(repeating: "d", count: 255), peer: String(repeating: "é", count: 127),
      credential: [UInt8](repeating: 0, count: 70_000)),
    SpoolEntry(received: .min, dialect: "0.4", peer: "", credential: [0]),
  ]

  @Test("What is sealed opens again, and is as large as foretold", arguments: entries)
  func roundTrip(entry: SpoolEntry) throws {
    let bytes = try SpoolFile.seal(entry, id: id, nonce: nonce, key: key)
    #expect(try SpoolFile.open(bytes, id: id, key: key) == entry)
    #expect(SpoolFile.size(of: entry) == bytes.count)
  }

  @Test("A text of 256 bytes is refused")
  func longText() {
    for entry in [
      SpoolEntry(received: 0, dialect: String(repeating: "d", count: 256), peer: "", credential: []),
      SpoolEntry(received: 0, dialect: "", peer: String(repeating: "é", count: 128), credential: []),
    ] {
      #expect(SpoolFile.size(of: entry) == nil)
      #expect(
        caught(StoreError.self) { try SpoolFile.seal(entry, id: id, nonce: nonce, key: key) }?.reason == .tooLarge)
    }
  }

  @Test("The header's bytes are as the table says, both ways")
  func layout() throws {
    let header = SpoolHeader(
      keyID: [1, 2, 3, 4, 5, 6, 7, 8], id: id, received: 0x0102_0304, nonce: nonce, sealedCount: 0xAABB)
    let bytes = try Hex.decode(
      "45415253504f4f4c" + "0001" + "0102030405060708" + "000102030405060708090a0b0c0d0e0f" + "0000000001020304"
        + "111111111111111111111111" + "0000aabb")
    #expect(header.bytes == bytes)
    #expect(bytes.count == SpoolHeader.size)
    var reader = ByteReader(bytes)
    #expect(try SpoolHeader(reading: &reader) == header)
  }

  @Test("Neither credential nor dialect nor peer is in the file in the clear")
  func encrypted() throws {
    let entry = SpoolEntry(
      received: 5, dialect: "dialect-0.5", peer: "peer-address", credential: Array("secret-text".utf8))
    let bytes = try SpoolFile.seal(entry, id: id, nonce: nonce, key: key)
    for text in ["dialect", "peer", "secret"] {
      #expect(!(0..<bytes.count).contains { bytes[$0...].starts(with: text.utf8) })
    }
  }

  @Test("Any bit that flips, any byte that is missing and any that is added is noticed")
  func damage() throws {
    let whole = try SpoolFile.seal(Fixture.entry("credential"), id: id, nonce: nonce, key: key)
    for bytes in brokenCopies(of: whole) {
      let failure = caught(SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: id, key: key) }
      let changed = bytes.count == whole.count ? bytes.indices.first { bytes[$0] != whole[$0] } : nil
      switch changed {
      case .some(8..<10): #expect(failure == .otherVersion)
      case .some(10..<18): #expect(failure == .otherKey)
      default:
        if case .damaged = failure {} else { Issue.record("\(bytes.count) bytes: \(String(describing: failure))") }
      }
    }
  }

  @Test("Another key is called that, and another credential's file is damaged")
  func strangers() throws {
    let bytes = try SpoolFile.seal(Fixture.entry("credential"), id: id, nonce: nonce, key: key)
    let other = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 9, count: 32)), .made)
    #expect(caught(SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: id, key: other) } == .otherKey)
    let wrong = try #require(SpoolID("ff0102030405060708090a0b0c0d0e0f"))
    let failure = caught(SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: wrong, key: key) }
    #expect(failure == .damaged("it is the file of another credential"))
    // An id that is written over in the header does not fit the seal.
    let forged: [UInt8] = Array(bytes[..<18]) + wrong.bytes + Array(bytes[34...])
    #expect(
      caught(SpoolFile.Failure.self) { try SpoolFile.open(forged, id: wrong, key: key) }
        == .damaged("its seal is broken"))
  }

  @Test("10000 random and mutated inputs are refused, and harm nothing")
  func anything() throws {
    var random = SeededRandom(seed: 7)
    let whole = try SpoolFile.seal(Fixture.entry("credential"), id: id, nonce: nonce, key: key)
    for round in 0..<10_000 {
      var bytes = random.bytes(Int.random(in: 0..<120, using: &random))
      if round % 3 == 1 { bytes = Array(whole.prefix(Int.random(in: 0..<60, using: &random))) + bytes }
      if round % 3 == 2 {
        bytes = whole
        for _ in 0...Int.random(in: 0..<4, using: &random) {
          let index = Int.random(in: 0..<bytes.count, using: &random)
          switch Int.random(in: 0..<3, using: &random) {
          case 0: bytes[index] = ~bytes[index]
          case 1: bytes.remove(at: index)
          default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: index)
          }
        }
        if bytes == whole { continue }
      }
      #expect(throws: SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: id, key: key) }
    }
  }

  @Test("An id is 32 hex digits in lower case and nothing else")
  func ids() {
    #expect(id.description == "000102030405060708090a0b0c0d0e0f")
    for text in ["", "00", "000102030405060708090A0B0C0D0E0F", "000102030405060708090a0b0c0d0e0f00", "../x"] {
      #expect(SpoolID(text) == nil)
    }
  }

  @Test("An entry does not print its credential")
  func unprinted() {
    var text = "\(Fixture.entry("secret")) \(String(reflecting: Fixture.entry("secret")))"
    dump(Fixture.entry("secret"), to: &text)
    #expect(!text.contains("secret") && !text.contains("115"))
  }
}
