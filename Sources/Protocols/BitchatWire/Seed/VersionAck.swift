import Bytes

/// Payload of the answer to a `VersionHello`. Facts: bitchat.md section 16.1. Layout:
///
///     1     flags: 01 capabilities, 02 reason
///     1     agreed version; 0 if rejected
///     1+n   version of the server
///     1+n   platform
///     1     1 if rejected, else 0
///     1     number of capabilities, then 1+n each, if flag 01
///     1+n   reason, if flag 02
public struct VersionAck: WireValue, Hashable, Sendable {
  public var agreed: UInt8
  /// Version of the server, up to 255 bytes, like the other texts.
  public var serverVersion: String
  public var platform: String
  public var isRejected: Bool
  /// Names of the sender's capabilities; nil without flag 01.
  public var capabilities: [String]?
  /// Reason for a rejection, as text; nil without flag 02.
  public var reason: String?

  /// Throws `tooLong` for a text over 255 bytes, or over 255 capabilities.
  public init(
    agreed: UInt8, serverVersion: String, platform: String, isRejected: Bool = false, capabilities: [String]? = nil,
    reason: String? = nil
  ) throws(WireError) {
    for text in [serverVersion, platform, reason ?? ""] + (capabilities ?? []) { try Text.check(text, field: "ack") }
    guard capabilities?.count ?? 0 <= Limits.shortValueBytes else {
      throw .tooLong(field: "ack", limit: Limits.shortValueBytes)
    }
    self.agreed = agreed
    self.serverVersion = serverVersion
    self.platform = platform
    self.isRejected = isRejected
    self.capabilities = capabilities
    self.reason = reason
  }

  /// Decodes an answer. Throws `badValue` for an unknown flag, or a rejection other than 0 and 1, and `trailing` if
  /// bytes follow.
  public init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags <= 3 else { throw .badValue("flags") }
    agreed = try reader.u8()
    serverVersion = try reader.shortText("serverVersion")
    platform = try reader.shortText("platform")
    let rejected = try reader.u8()
    guard rejected <= 1 else { throw .badValue("rejected") }
    isRejected = rejected == 1
    capabilities = flags & 1 != 0 ? try reader.shortTexts("capabilities") : nil
    reason = flags & 2 != 0 ? try reader.shortText("reason") : nil
    try reader.finish()
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8((capabilities == nil ? 0 : 1) | (reason == nil ? 0 : 2))
    writer.u8(agreed)
    writer.shortText(serverVersion)
    writer.shortText(platform)
    writer.u8(isRejected ? 1 : 0)
    if let capabilities { writer.shortTexts(capabilities) }
    if let reason { writer.shortText(reason) }
  }
}
