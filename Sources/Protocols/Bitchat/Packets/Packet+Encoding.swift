import Bytes

extension Packet {
  /// Encodes the packet for sending. The payload is compressed if that makes it smaller.
  ///
  /// Throws `payloadTooLong`; `needsVersion2` for a route or a payload section over 65,535 bytes in version 1;
  /// `routeTooLong`; `badSignature` for a signature that is not 64 bytes long.
  ///
  /// - Parameter padded: whether padding is added; nil decides by the type.
  public func encoded(padded: Bool? = nil) throws(PacketError) -> [UInt8] {
    var bytes = try encoded(PayloadSection(sending: self))
    if padded ?? type.isPadded { Padding.pad(&bytes) }
    return bytes
  }

  /// Bytes that the signature covers: TTL 0, no signature, flags 02 and 10 clear, and padded even if the packet is sent
  /// without padding. Throws the errors of `encoded`.
  public func signingPreimage() throws(PacketError) -> [UInt8] {
    try signingPreimage(PayloadSection(sending: self))
  }

  /// Bytes that the signature covers, with the payload in this form.
  func signingPreimage(_ section: PayloadSection) throws(PacketError) -> [UInt8] {
    var unsigned = self
    unsigned.timeToLive = 0
    unsigned.signature = nil
    unsigned.isSyncAnswer = false
    var bytes = try unsigned.encoded(section)
    Padding.pad(&bytes)
    return bytes
  }

  /// Encodes the packet without padding, with the payload in this form.
  func encoded(_ section: PayloadSection) throws(PacketError) -> [UInt8] {
    guard payload.count <= Limits.payloadBytes else { throw .payloadTooLong(payload.count) }
    guard section.bytes.count <= version.sectionLimit, version == .v2 || route.isEmpty else { throw .needsVersion2 }
    guard route.count <= Limits.routeHops else { throw .routeTooLong(route.count) }
    if let signature, signature.count != PacketHeader.signatureBytes { throw .badSignature(signature.count) }
    var flags: PacketFlags = []
    if recipient != nil { flags.insert(.recipient) }
    if signature != nil { flags.insert(.signature) }
    if section.isCompressed { flags.insert(.compressed) }
    if !route.isEmpty { flags.insert(.route) }
    if isSyncAnswer { flags.insert(.syncAnswer) }

    // Maximum bytes around the payload: header, both IDs, a route's count, a signature and padding.
    var writer = ByteWriter(capacity: section.bytes.count + 8 * route.count + 16 + 16 + 1 + 64 + 255)
    writer.u8(version.rawValue)
    writer.u8(type.rawValue)
    writer.u8(timeToLive)
    writer.u64be(timestamp)
    writer.u8(flags.rawValue)
    switch version {
    case .v1: writer.u16be(UInt16(truncatingIfNeeded: section.bytes.count))
    case .v2: writer.u32be(UInt32(truncatingIfNeeded: section.bytes.count))
    }
    sender.write(to: &writer)
    recipient?.write(to: &writer)
    if !route.isEmpty {
      writer.u8(UInt8(truncatingIfNeeded: route.count))
      for hop in route { hop.write(to: &writer) }
    }
    writer.append(section.bytes)
    if let signature { writer.append(signature) }
    return writer.bytes
  }
}
