import Bytes

/// Value of Disconnect, with which the verifier asks the wallet to end the link. Facts: tuvali.md section 3.
///
///     offset  size
///     0       1     1
public struct DisconnectRequest: WireValue, Hashable, Sendable {
  private static let code: UInt8 = 1

  public init() {}

  /// Decodes a request. Throws `badValue("request")` for any byte but 1, which wallets ignore.
  public init(reading reader: inout ByteReader) throws(WireError) {
    guard try reader.u8() == Self.code else { throw .badValue("request") }
  }

  public func write(to writer: inout ByteWriter) { writer.u8(Self.code) }
}
