import Bytes
import Store

/// Received credential with the data needed after a restart: the content of a record in the spool. It is never printed.
///
/// | bytes | field |
/// |---|---|
/// | 1 | version: 3 with a verdict, 2 without |
/// | 8 | number of the transfer, big endian; 0 if it is not known |
/// | 8 | the service's running time when it was received, in seconds, big endian: `CredentialStoreNote.running` |
/// | 1 + n | dialect, UTF-8, with a length prefix |
/// | 1 + n | the wallet's address, UTF-8, with a length prefix; empty if it is unknown |
/// | 4 + n | only in version 3: the checker's verdict, JSON, with a length prefix, big endian |
/// | rest | credential |
///
/// Version 1 is read too; it has neither number nor running time.
struct CredentialRecord: Hashable, Sendable {
  static let version: UInt8 = 3
  /// Maximum length of dialect and address, in bytes of UTF-8.
  static let textLimit = 255
  /// Maximum length of a verdict, in bytes.
  static let verdictLimit = 1 << 20

  /// Dialect in which the credential was transferred, such as `0.5`.
  let dialect: String
  let peer: String
  let credential: [UInt8]
  /// Number of the transfer; 0 if unknown.
  let number: UInt64
  /// Total running time of the service at the reception of the credential, in seconds.
  var running: UInt64 = 0
  /// The checker's verdict as JSON; empty if the credential was not checked.
  var verdict: [UInt8] = []

  /// - Throws: `tooLong` for a text of more than `textLimit` bytes.
  init(dialect: String, peer: String, credential: [UInt8], number: UInt64 = 0) throws(WireError) {
    for (field, text) in [("dialect", dialect), ("peer", peer)] where text.utf8.count > Self.textLimit {
      throw .tooLong(field: field, limit: Self.textLimit)
    }
    self.dialect = dialect
    self.peer = peer
    self.credential = credential
    self.number = number
  }

  /// - Throws: `badValue("version")` for a record of another release.
  init(reading content: [UInt8]) throws(WireError) {
    var reader = ByteReader(content)
    let version = try reader.u8()
    guard (1...Self.version).contains(version) else { throw .badValue("version") }
    number = version == 1 ? 0 : try reader.u64be()
    running = version == 1 ? 0 : try reader.u64be()
    dialect = try reader.text("dialect")
    peer = try reader.text("peer")
    if version == 3 {
      let count = Int(try reader.u32be())
      guard count <= Self.verdictLimit else { throw .tooLong(field: "verdict", limit: Self.verdictLimit) }
      verdict = Array(try reader.bytes(count))
    }
    credential = Array(reader.rest())
  }

  /// - Throws: also `badValue("mark")` for an unknown mark.
  init(reading record: SpoolRecord) throws(WireError) {
    guard Mark(rawValue: record.mark) != nil else { throw .badValue("mark") }
    try self.init(reading: record.content)
  }

  private var contentSize: Int {
    19 + dialect.utf8.count + peer.utf8.count + Self.size(ofVerdict: verdict.count) + credential.count
  }

  /// Size in a record of a verdict of `count` bytes, in bytes.
  static func size(ofVerdict count: Int) -> Int { count == 0 ? 0 : 4 + count }

  /// Space that the file takes in the store, in bytes.
  var fileSize: Int { RecordSpool.size(ofContent: contentSize) }

  var content: [UInt8] {
    var writer = ByteWriter(capacity: contentSize)
    writer.u8(verdict.isEmpty ? 2 : Self.version)
    writer.u64be(number)
    writer.u64be(running)
    for text in [dialect, peer] {
      writer.u8(UInt8(clamping: text.utf8.count))
      writer.append(text.utf8)
    }
    if !verdict.isEmpty {
      writer.u32be(UInt32(clamping: verdict.count))
      writer.append(verdict)
    }
    writer.append(credential)
    return writer.bytes
  }
}

extension CredentialRecord {
  /// State of the credential in the mark of a spool record.
  enum Mark: UInt8 {
    case unjudged = 0
    /// The credential is accepted, and no program has fetched it yet.
    case accepted = 1

    init(isAccepted: Bool) { self = isAccepted ? .accepted : .unjudged }
  }
}

extension CredentialRecord: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  var description: String { "<credential of \(credential.count) bytes>" }
  var debugDescription: String { description }
  var customMirror: Mirror { Mirror(self, children: []) }
}

extension ByteReader {
  fileprivate mutating func text(_ field: String) throws(WireError) -> String {
    let bytes = try bytes(Int(try u8()))
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .badValue(field) }
    return text
  }
}
