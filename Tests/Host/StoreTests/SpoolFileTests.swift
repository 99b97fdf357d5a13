import Bytes
import Crypto
import TestSupport
import Testing

@testable import Store

@Suite("Encoding of spool files")
struct SpoolFileTests {
  let key: SpoolKey
  let id: SpoolID
  let nonce = [UInt8](repeating: 0x11, count: 12)

  init() throws {
    key = try Fixture().key
    id = try #require(SpoolID("000102030405060708090a0b0c0d0e0f"))
  }

  static let records = [
    SpoolRecord(received: 0, content: []),
    SpoolRecord(received: -1, mark: 1, content: Array("{}".utf8)),
    SpoolRecord(received: .max, mark: 255, content: [UInt8](repeating: 0, count: 70_000)),
    SpoolRecord(received: .min, content: [0]),
  ]

  @Test("A sealed spool record is opened again and has the predicted size", arguments: records)
  func roundTrip(record: SpoolRecord) throws {
    let bytes = try SpoolFile.seal(record, id: id, nonce: nonce, key: key)
    #expect(try SpoolFile.open(bytes, id: id, mark: record.mark, key: key) == record)
    #expect(SpoolFile.size(ofContent: record.content.count) == bytes.count)
  }

  @Test("A spool file has the documented bytes, sealed as libsodium would seal them")
  func vector() throws {
    let record = SpoolRecord(received: 0x0102_0304, mark: 9, content: Array("content".utf8))
    let bytes = try SpoolFile.seal(record, id: id, nonce: nonce, key: key)
    let header = Array(bytes.prefix(SpoolHeader.size))
    let sealed = try ChaChaPoly.seal(record.content, key: key.key(for: id), nonce: nonce, aad: header)
    #expect(bytes == header + sealed)
  }

  @Test("The header of a spool file is encoded and decoded as its table specifies")
  func layout() throws {
    let header = SpoolHeader(
      keyID: [1, 2, 3, 4, 5, 6, 7, 8], id: id, received: 0x0102_0304, nonce: nonce, sealedCount: 0xAABB)
    let bytes = try Hex.decode(
      "45415253504f4f4c" + "0002" + "0102030405060708" + "000102030405060708090a0b0c0d0e0f" + "0000000001020304"
        + "111111111111111111111111" + "0000aabb")
    #expect(header.bytes == bytes)
    #expect(bytes.count == SpoolHeader.size)
    var reader = ByteReader(bytes)
    #expect(try SpoolHeader(reading: &reader) == header)
  }

  @Test("A spool file contains no part of the record in plain text")
  func encrypted() throws {
    let record = SpoolRecord(received: 5, content: Array("secret-text".utf8))
    let bytes = try SpoolFile.seal(record, id: id, nonce: nonce, key: key)
    for text in ["secret", "text"] {
      #expect(!(0..<bytes.count).contains { bytes[$0...].starts(with: text.utf8) })
    }
  }

  @Test("Any flipped bit and any missing or added byte of a spool file is detected")
  func damage() throws {
    let whole = try SpoolFile.seal(Fixture.record("credential"), id: id, nonce: nonce, key: key)
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

  @Test("A spool file with another key is reported as such, and one with another record's ID as damaged")
  func strangers() throws {
    let bytes = try SpoolFile.seal(Fixture.record("credential"), id: id, nonce: nonce, key: key)
    let other = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 9, count: 32)), .made)
    #expect(caught(SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: id, key: other) } == .otherKey)
    let wrong = try #require(SpoolID("ff0102030405060708090a0b0c0d0e0f"))
    let failure = caught(SpoolFile.Failure.self) { try SpoolFile.open(bytes, id: wrong, key: key) }
    #expect(failure == .damaged("it belongs to another record"))
    // An ID that is replaced in the header does not match the seal.
    let forged: [UInt8] = Array(bytes[..<18]) + wrong.bytes + Array(bytes[34...])
    #expect(
      caught(SpoolFile.Failure.self) { try SpoolFile.open(forged, id: wrong, key: key) }
        == .damaged("it cannot be decrypted"))
  }

  @Test("10,000 random and mutated inputs are refused as spool files")
  func anything() throws {
    var random = SeededRandom(seed: 7)
    let whole = try SpoolFile.seal(Fixture.record("credential"), id: id, nonce: nonce, key: key)
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

  @Test("A record ID is a text of 32 lower-case hex digits")
  func ids() {
    #expect(id.description == "000102030405060708090a0b0c0d0e0f")
    for text in ["", "00", "000102030405060708090A0B0C0D0E0F", "000102030405060708090a0b0c0d0e0f00", "../x"] {
      #expect(SpoolID(text) == nil)
    }
  }

  @Test("The printed form of a record contains no content")
  func unprinted() {
    var text = "\(Fixture.record("secret")) \(String(reflecting: Fixture.record("secret")))"
    dump(Fixture.record("secret"), to: &text)
    #expect(!text.contains("secret") && !text.contains("115"))
  }

  @Test("Every spool file name is parsed as it was written, and other names are refused")
  func names() throws {
    let names: [(SpoolFileName, String)] = [
      (.record(id, mark: 0), "00.record"), (.record(id, mark: 0xAF), "af.record"), (.new(id), "new"),
      (SpoolFileName.record(id, mark: 1).whileErased, "01.record.erased"),
      (SpoolFileName.record(id, mark: 1).whenDamaged, "01.record.damaged"),
      (.otherRelease(id, "\(id).credential"), "credential"),
      (SpoolFileName.otherRelease(id, "\(id).credential").whileErased, "credential.erased"),
    ]
    for (name, ending) in names {
      #expect(name.text == "\(id).\(ending)" && name.id == id)
      #expect(SpoolFileName("\(id).\(ending)") == name)
    }
    for ending in ["", ".", ".0.record", ".000.record", ".AF.record", ".+1.record", ".bak1", "x.new", ".Record"] {
      #expect(SpoolFileName("\(id)\(ending)") == nil, "\(ending)")
    }
    #expect(names.filter { $0.0.holdsRecord }.count == 3)
  }
}
