import Bytes
import Crypto
import Store
import TestSupport
import Testing

@testable import Verifier

@Suite("Encoding of credential records")
struct CredentialRecordTests {
  /// A record, and the bytes of its content.
  struct Row: CustomStringConvertible, Sendable {
    let dialect: String
    let peer: String
    let credential: String
    var number: UInt64 = 0
    var running: UInt64 = 0
    var verdict = ""
    let hex: String

    var description: String { hex }

    func record() throws(WireError) -> CredentialRecord {
      var record = try CredentialRecord(
        dialect: dialect, peer: peer, credential: Array(credential.utf8), number: number)
      record.running = running
      record.verdict = Array(verdict.utf8)
      return record
    }
  }

  /// The prefix with the version, without a number or a running time.
  private static let none = "02" + String(repeating: "00", count: 16)

  static let rows = [
    Row(dialect: "", peer: "", credential: "", hex: none + "00" + "00"),
    Row(dialect: "0.5", peer: "", credential: "{}", hex: none + "03302e35" + "00" + "7b7d"),
    Row(
      dialect: "0.4", peer: "C0:FF:EE:00:00:01", credential: "é\u{0}", number: 258, running: 1 << 40,
      hex: "02" + "0000000000000102" + "0000010000000000" + "03302e34" + "1143303a46463a45453a30303a30303a3031"
        + "c3a900"),
    Row(
      dialect: String(repeating: "d", count: 255), peer: String(repeating: "é", count: 127), credential: "x",
      verdict: "[1]",
      hex: longest),
  ]

  /// Version 3, the longest dialect and peer, and a verdict of 3 bytes.
  private static var longest: String {
    let dialect = "ff" + String(repeating: "64", count: 255)
    let peer = "fe" + String(repeating: "c3a9", count: 127)
    return "03" + String(repeating: "00", count: 16) + dialect + peer + "00000003" + "5b315d" + "78"
  }

  @Test(
    "A credential record is encoded and decoded as its table specifies, with the predicted file size", arguments: rows)
  func layout(row: Row) throws {
    let record = try row.record()
    let bytes = try Hex.decode(row.hex)
    #expect(record.content == bytes)
    #expect(try CredentialRecord(reading: bytes) == record)
    #expect(record.fileSize == RecordSpool.size(ofContent: bytes.count))
  }

  @Test("A credential record of an earlier release, without number and running time, is read")
  func firstVersion() throws {
    let record = try CredentialRecord(reading: Hex.decode("01" + "03302e35" + "00" + "7b7d"))
    let expected = try Self.rows[1].record()
    #expect(record == expected)
  }

  @Test("A text of 256 bytes in a credential record is refused with the field's name")
  func longTexts() {
    let long = String(repeating: "é", count: 128)
    #expect(
      caught(WireError.self) { try CredentialRecord(dialect: long, peer: "", credential: []) }
        == .tooLong(field: "dialect", limit: 255))
    #expect(
      caught(WireError.self) { try CredentialRecord(dialect: "", peer: long, credential: []) }
        == .tooLong(field: "peer", limit: 255))
  }

  @Test("A truncated credential record, invalid UTF-8 or another version is refused with a named error")
  func refused() throws {
    let whole = try Hex.decode(Self.rows[1].hex)
    for count in 0..<22 {
      let error = caught(WireError.self) { try CredentialRecord(reading: Array(whole.prefix(count))) }
      if case .truncated? = error {} else { Issue.record("\(count) bytes: \(String(describing: error))") }
    }
    let cases: [([UInt8], String)] = [
      ([0, 0, 0], "version"), ([4, 0, 0], "version"), ([1, 1, 0xC3, 0], "dialect"), ([1, 0, 1, 0xFF], "peer"),
    ]
    for (bytes, field) in cases {
      #expect(caught(WireError.self) { try CredentialRecord(reading: bytes) } == .badValue(field))
    }
  }

  @Test("A stored verdict that is truncated or larger than 1 MiB is refused with a named error")
  func verdicts() throws {
    let start = try Hex.decode("03" + String(repeating: "00", count: 18))
    for (rest, expected) in [([0, 0], true), ([0, 0, 0, 2, 1], true), ([0, 0x10, 0, 1], false)] as [([UInt8], Bool)] {
      let error = caught(WireError.self) { try CredentialRecord(reading: start + rest) }
      if case .truncated? = error {
        #expect(expected)
      } else {
        #expect(error == .tooLong(field: "verdict", limit: 1 << 20))
      }
    }
  }

  @Test("A credential record with an unknown mark is refused", arguments: [0, 1, 2, 255] as [UInt8])
  func marks(mark: UInt8) throws {
    let content = try Self.rows[1].record().content
    let error = caught(WireError.self) {
      try CredentialRecord(reading: SpoolRecord(received: 0, mark: mark, content: content))
    }
    #expect(error == (mark > 1 ? .badValue("mark") : nil))
  }

  @Test("The printed form of a credential record contains no credential")
  func unprinted() throws {
    let record = try CredentialRecord(dialect: "0.5", peer: "", credential: Array("secret".utf8))
    var text = "\(record) \(String(reflecting: record))"
    dump(record, to: &text)
    #expect(!text.contains("secret") && !text.contains("115"))
  }
}
