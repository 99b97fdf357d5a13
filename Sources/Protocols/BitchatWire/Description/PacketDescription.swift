import Bytes

/// Describes a packet's fields for people, or why the bytes are not a packet. Texts and nicknames are as the sender
/// wrote them: the caller must make them printable.
public struct PacketDescription: Hashable, Sendable {
  /// Fields of the packet; for malformed bytes, `error` with a stable name and `sentence`.
  public let fields: [Described.Field]

  /// Describes one packet given as hexadecimal digits. White space is ignored.
  public init(hex line: some StringProtocol) {
    let digits = String(line.filter { !$0.isWhitespace })
    fields =
      (try? Hex.decode(digits)).map { Self.describe($0) }
      ?? Self.error("NotHex", "the line is not pairs of hexadecimal digits")
  }

  /// Decodes the bytes of one packet, and describes its fields or the error.
  public init(_ bytes: [UInt8]) {
    fields = Self.describe(bytes)
  }

  private static func describe(_ bytes: [UInt8]) -> [Described.Field] {
    do throws(PacketError) {
      let view = try PacketView(bytes)
      let packet = try Packet(view)
      return header(view) + contents(view, packet)
    } catch {
      return Self.error(error.name, error.description)
    }
  }

  private static func error(_ name: String, _ sentence: String) -> [Described.Field] {
    [.init("error", name), .init("sentence", sentence)]
  }

  private static func header(_ view: PacketView) -> [Described.Field] {
    var fields: [Described.Field] = [
      .init("version", view.version.rawValue), .init("type", view.type.rawValue),
      .init("timeToLive", view.timeToLive), .init("timestamp", view.timestamp), .init("flags", view.flags.rawValue),
      .init("sender", "\(view.sender)"),
    ]
    if let recipient = view.namedRecipient { fields.append(.init("recipient", "\(recipient)")) }
    if !view.route.isEmpty { fields.append(.init("route", view.route.map(\.description))) }
    if view.flags.contains(.compressed) { fields.append(.init("compressedBytes", view.section.count)) }
    if let signature = view.signature { fields.append(.init("signature", Hex.encode(signature))) }
    if view.flags.contains(.syncAnswer) { fields.append(.init("syncAnswer", true)) }
    let behind = view.bytes.count - view.count
    if behind > 0 {
      let isPadding = Padding.unpaddedCount(of: view.bytes) == view.count
      fields.append(.init(isPadding ? "paddingBytes" : "ignoredBytes", behind))
    }
    return fields
  }

  private static func contents(_ view: PacketView, _ packet: Packet) -> [Described.Field] {
    // The existence of a session is not visible in a packet. The number has no other meaning.
    let meaning = PacketMeaning(
      type: packet.type, payload: packet.payload, state: PacketMeaning.SeedState(hasSession: true))
    let name = meaning == .live ? packet.type.name ?? "unknown" : meaning.rawValue
    var fields: [Described.Field] = [
      .init("id", "\(PacketID(packet))"), .init("meaning", name), .init("payloadBytes", packet.payload.count),
    ]
    do throws(WireError) {
      if let says = try Described(meaning, packet, view) {
        fields.append(.init("says", says))
      } else if packet.payload.count <= shownBytes {
        fields.append(.init("payload", Hex.encode(packet.payload)))
      }
    } catch {
      fields.append(.init("problem", error.description))
    }
    return fields
  }

  /// Maximum length of a payload that is shown in hexadecimal, in bytes.
  private static let shownBytes = 512
}

/// JSON-like value that describes a part of a packet.
public indirect enum Described: Hashable, Sendable {
  case text(String)
  case number(UInt64)
  case flag(Bool)
  case list([Described])
  case fields([Field])

  /// Name and value of a field.
  public struct Field: Hashable, Sendable {
    public let name: String
    public let value: Described

    package init(_ name: String, _ value: Described) {
      self.name = name
      self.value = value
    }

    package init(_ name: String, _ text: String) { self.init(name, .text(text)) }
    package init(_ name: String, _ number: some BinaryInteger) { self.init(name, .number(UInt64(clamping: number))) }
    package init(_ name: String, _ flag: Bool) { self.init(name, .flag(flag)) }
    package init(_ name: String, _ texts: [String]) { self.init(name, .list(texts.map { .text($0) })) }

    package init?(_ name: String, _ text: String?) {
      guard let text else { return nil }
      self.init(name, text)
    }
  }
}
