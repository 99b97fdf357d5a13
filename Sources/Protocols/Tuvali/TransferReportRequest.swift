import Bytes

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
