import Bytes

/// What the verifier is missing.
///
///     offset  size
///     0       1     type: 0 missing chunks, 1 success
///     1       2     total pages, big endian; 0 on success
///     3       2k    missing sequence numbers, big endian, ascending: the first page, and never another
public enum TransferReport: Hashable, Sendable {
  case success
  /// Never empty when we send it: the iOS wallet would crash.
  case missing([Int], totalPages: Int)

  static let headerBytes = 3

  /// The report for a frame that is not complete, or is.
  public init(for assembler: Assembler) {
    let page = assembler.layout.reportPage
    if assembler.isComplete {
      self = .success
    } else {
      self = .missing(
        assembler.missingSequences(limit: page), totalPages: (assembler.missing + page - 1) / max(1, page))
    }
  }

  public var bytes: [UInt8] {
    var writer = ByteWriter(capacity: 3)
    switch self {
    case .success:
      writer.u8(1)
      writer.u16be(0)
    case .missing(let sequences, let pages):
      writer.u8(0)
      writer.u16be(UInt16(clamping: pages))
      for sequence in sequences { writer.u16be(UInt16(clamping: sequence)) }
    }
    return writer.bytes
  }

  /// An odd trailing byte is dropped, as both originals do.
  ///
  /// - Throws: `truncated` under three bytes, `badValue("type")` for a type over 1.
  public init(reading value: [UInt8]) throws(WireError) {
    var reader = ByteReader(value)
    let type = try reader.u8()
    let pages = try reader.u16be()
    switch type {
    case 0:
      var sequences: [Int] = []
      while reader.remaining >= 2 { sequences.append(Int(try reader.u16be())) }
      self = .missing(sequences, totalPages: Int(pages))
    case 1: self = .success
    default: throw .badValue("type")
    }
  }
}
