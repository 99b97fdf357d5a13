import Bytes

/// Value of Transfer report response: the chunks that the verifier lacks. Facts: tuvali.md section 6.
///
///     offset  size
///     0       1     type: 0 missing chunks, 1 success
///     1       2     total pages, big endian; 0 on success
///     3       2k    missing sequence numbers, big endian, ascending: always the first page
public enum TransferReport: WireValue, Hashable, Sendable {
  case success
  /// Numbers of the first page. This verifier never sends an empty list, which would crash the iOS wallet.
  case missing([Int], totalPages: Int)

  static let headerBytes = 3
  private static let missingType: UInt8 = 0
  private static let successType: UInt8 = 1

  /// Makes the report on a frame, complete or not.
  public init(for assembler: Assembler) {
    let page = assembler.layout.reportPage
    if assembler.isComplete {
      self = .success
    } else {
      self = .missing(
        assembler.missingSequences(limit: page), totalPages: (assembler.missing + page - 1) / max(1, page))
    }
  }

  /// Decodes a report, to the end of the value. An odd last byte is ignored, as in both originals.
  ///
  /// Throws `truncated` under three bytes, and `badValue("type")` for a type over 1.
  public init(reading reader: inout ByteReader) throws(WireError) {
    let type = try reader.u8()
    let pages = try reader.u16be()
    switch type {
    case Self.missingType:
      var sequences: [Int] = []
      while reader.remaining >= 2 { sequences.append(Int(try reader.u16be())) }
      self = .missing(sequences, totalPages: Int(pages))
    case Self.successType: self = .success
    default: throw .badValue("type")
    }
  }

  public func write(to writer: inout ByteWriter) {
    switch self {
    case .success:
      writer.u8(Self.successType)
      writer.u16be(0)
    case .missing(let sequences, let pages):
      writer.u8(Self.missingType)
      writer.u16be(UInt16(clamping: pages))
      for sequence in sequences { writer.u16be(UInt16(clamping: sequence)) }
    }
  }
}

/// Value of Transfer report request, of which one byte counts. Facts: tuvali.md section 3.
///
///     offset  size
///     0       1     1 send the report, 2 the wallet had an error
public enum TransferReportRequest: UInt8, WireValue, CaseIterable, Sendable {
  case report = 1
  /// The originals send this with an error of their own; a verifier only records it.
  case error = 2

  /// Decodes a request. Throws `badValue("request")` for any other byte.
  public init(reading reader: inout ByteReader) throws(WireError) {
    guard let request = Self(rawValue: try reader.u8()) else { throw .badValue("request") }
    self = request
  }

  public func write(to writer: inout ByteWriter) { writer.u8(rawValue) }
}
