import Bytes

/// Value of Verification status: the verdict. Facts: tuvali.md section 3.
///
///     offset  size
///     0       1     0 accepted, 1 rejected
public enum VerificationStatus: UInt8, WireValue, CaseIterable, Sendable {
  case accepted = 0
  case rejected = 1

  public init(isAccepted: Bool) {
    self = isAccepted ? .accepted : .rejected
  }

  /// Decodes a status. Every byte but 0 is a rejection, as in Android.
  public init(reading reader: inout ByteReader) throws(WireError) {
    self = try reader.u8() == Self.accepted.rawValue ? .accepted : .rejected
  }

  public func write(to writer: inout ByteWriter) { writer.u8(rawValue) }
}
