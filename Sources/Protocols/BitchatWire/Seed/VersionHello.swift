import Bytes

/// Payload that opens the version negotiation of dialect S. Facts: bitchat.md section 16.1. Layout:
///
///     1     flags: 01 capabilities
///     1     number of versions, then 1 each: 1 or 2
///     1     preferred version
///     1+n   version of the client; five characters at least keep it apart from a fragment
///     1+n   platform
///     1     number of capabilities, then 1+n each, if flag 01
///
/// It is sent with TTL 0 to a peer that has proven dialect S.
public struct VersionHello: WireValue, Hashable, Sendable {
  public var versions: [PacketVersion]
  public var preferred: UInt8
  /// Version of the client, up to 255 bytes, like the other texts.
  public var clientVersion: String
  public var platform: String
  /// Names of the sender's capabilities; nil without flag 01.
  public var capabilities: [String]?

  /// Throws `tooLong` for a text over 255 bytes, or over 255 versions or capabilities.
  public init(
    versions: [PacketVersion], preferred: UInt8, clientVersion: String, platform: String, capabilities: [String]? = nil
  ) throws(WireError) {
    for text in [clientVersion, platform] + (capabilities ?? []) { try Text.check(text, field: "hello") }
    guard max(versions.count, capabilities?.count ?? 0) <= Limits.shortValueBytes else {
      throw .tooLong(field: "hello", limit: Limits.shortValueBytes)
    }
    self.versions = versions
    self.preferred = preferred
    self.clientVersion = clientVersion
    self.platform = platform
    self.capabilities = capabilities
  }

  /// Decodes a hello. Throws `badValue` for an unknown flag, an unknown version or no version, and `trailing` if bytes
  /// follow.
  public init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags <= 1 else { throw .badValue("flags") }
    var versions: [PacketVersion] = []
    for _ in 0..<(try reader.u8()) {
      guard let version = PacketVersion(rawValue: try reader.u8()) else { throw .badValue("versions") }
      versions.append(version)
    }
    guard !versions.isEmpty else { throw .badValue("versions") }
    self.versions = versions
    preferred = try reader.u8()
    clientVersion = try reader.shortText("clientVersion")
    platform = try reader.shortText("platform")
    capabilities = flags == 1 ? try reader.shortTexts("capabilities") : nil
    try reader.finish()
  }

  public func write(to writer: inout ByteWriter) {
    writer.u8(capabilities == nil ? 0 : 1)
    writer.u8(UInt8(clamping: versions.count))
    for version in versions { writer.u8(version.rawValue) }
    writer.u8(preferred)
    writer.shortText(clientVersion)
    writer.shortText(platform)
    if let capabilities { writer.shortTexts(capabilities) }
  }
}
