import Bytes

extension Described {
  /// Describes the payload. Nil if its type is not supported. Throws `WireError` for a malformed payload.
  package init?(_ meaning: PacketMeaning, _ packet: Packet, _ view: PacketView) throws(WireError) {
    let payload = packet.payload
    switch meaning {
    case .live where packet.type == .announce: self = .announcement(try Announcement(reading: payload), packet, view)
    case .live where packet.type == .message: self = .fields([.init("text", try PublicText(payload: payload).text)])
    case .courier: self = .envelope(try CourierEnvelope(reading: payload))
    case .live where packet.type == .leave: self = .leave(try Text.read(payload[...], field: "nickname"))
    case .live where packet.type == .fileTransfer: self = .file(try SharedFile(reading: payload))
    case .live where packet.type == .ping || packet.type == .pong: self = .ping(try PingPayload(reading: payload), view)
    case .seedLeave: self = .leave(try Text.read(payload[...], field: "nickname"))
    case .fragment, .seedFragment, .fragment2025: self = .fragment(try Fragment(reading: payload))
    case .requestSync: self = .request(try SyncRequest(reading: payload))
    case .seedMessage: self = .message(try SeedMessage(reading: payload))
    case .seedDeliveryAck, .deliveryAck2025: self = .deliveryAck(try SeedDeliveryAck(reading: payload))
    case .seedReadReceipt, .readReceipt2025: self = .readReceipt(try SeedReadReceipt(reading: payload))
    case .versionHello: self = .hello(try VersionHello(payload: payload))
    case .versionAck: self = .ack(try VersionAck(payload: payload))
    default: return nil
    }
  }

  private static func announcement(_ announcement: Announcement, _ packet: Packet, _ view: PacketView) -> Described {
    let check = SignatureCheck(view, decoded: packet, key: announcement.signingKey)
    var fields: [Field] = [
      .init("nickname", announcement.nickname), .init("peer", "\(announcement.peerID)"),
      .init("noiseKey", Hex.encode(announcement.noiseKey.bytes)),
      .init("signingKey", Hex.encode(announcement.signingKey.bytes)),
      .init("isOfSender", announcement.peerID == packet.sender), .init("isSigned", check.isValid),
    ]
    if let neighbours = announcement.neighbours { fields.append(.init("neighbours", neighbours.map(\.description))) }
    if let capabilities = announcement.capabilities {
      let bits = (0..<64).filter { capabilities.rawValue >> UInt64($0) & 1 == 1 }
      fields.append(.init("capabilities", .list(bits.map { .number(UInt64($0)) })))
    }
    if let geohash = announcement.geohash { fields.append(.init("geohash", geohash)) }
    if announcement.dialect == .seed { fields.append(.init("speaksSeed", true)) }
    return .fields(fields)
  }

  private static func envelope(_ envelope: CourierEnvelope) -> Described {
    var fields: [Field] = [
      .init("tag", Hex.encode(envelope.tag.bytes)), .init("expiry", envelope.expiry),
      .init("copies", envelope.copies), .init("ciphertextBytes", envelope.ciphertext.count),
    ]
    if let prekey = envelope.prekey { fields.append(.init("prekey", prekey)) }
    return .fields(fields)
  }

  private static func file(_ file: SharedFile) -> Described {
    let kind = FileKind(mime: file.mime)
    return .fields([
      .init("name", file.name), .init("mime", file.mime ?? ""), .init("bytes", file.content.count),
      .init("isTaken", kind?.isKind(of: file.content) ?? false),
    ])
  }

  private static func ping(_ ping: PingPayload, _ view: PacketView) -> Described {
    var fields: [Field] = [
      .init("nonce", Hex.encode(ping.bytes.prefix(8))), .init("firstTimeToLive", ping.firstTimeToLive),
    ]
    if let hops = ping.hops(at: view.timeToLive) { fields.append(.init("hops", hops)) }
    return .fields(fields)
  }

  private static func leave(_ nickname: String) -> Described {
    .fields(nickname.isEmpty ? [] : [.init("nickname", nickname)])
  }

  private static func fragment(_ fragment: Fragment) -> Described {
    .fields([
      .init("fragment", "\(fragment.id)"), .init("index", fragment.index), .init("total", fragment.total),
      .init("type", fragment.type.rawValue), .init("sliceBytes", fragment.slice.count),
    ])
  }

  private static func request(_ request: SyncRequest) -> Described {
    var fields: [Field] = [
      .init("p", request.filter.p), .init("m", request.filter.m), .init("filterBytes", request.filter.bits.count),
      .init("values", request.filter.values().count),
    ]
    if let types = request.types { fields.append(.init("types", types.rawValue)) }
    if let since = request.since { fields.append(.init("since", since)) }
    if !request.fragments.isEmpty { fields.append(.init("fragments", request.fragments.map(\.description))) }
    return .fields(fields)
  }

  private static func message(_ message: SeedMessage) -> Described {
    let optional: [Field?] = [
      .init("originalSender", message.originalSender), .init("recipientNickname", message.recipientNickname),
      .init("senderPeerID", message.senderPeerID), .init("channel", message.channel),
    ]
    var fields: [Field] = [
      .init("message", message.id), .init("nickname", message.sender), .init("text", message.text),
      .init("sentAt", message.timestamp), .init("isRelayed", message.isRelayed),
      .init("isPrivate", message.isPrivate),
    ]
    fields += optional.compactMap { $0 }
    if let mentions = message.mentions { fields.append(.init("mentions", mentions)) }
    return .fields(fields)
  }

  private static func deliveryAck(_ ack: SeedDeliveryAck) -> Described {
    .fields([
      .init("message", "\(ack.message)"), .init("ack", "\(ack.ack)"), .init("recipient", "\(ack.recipient)"),
      .init("hops", ack.hops), .init("deliveredAt", ack.timestamp), .init("nickname", ack.nickname),
    ])
  }

  private static func readReceipt(_ receipt: SeedReadReceipt) -> Described {
    .fields([
      .init("message", "\(receipt.message)"), .init("receipt", "\(receipt.receipt)"),
      .init("reader", "\(receipt.reader)"), .init("readAt", receipt.timestamp), .init("nickname", receipt.nickname),
    ])
  }

  private static func hello(_ hello: VersionHello) -> Described {
    .fields([
      .init("versions", .list(hello.versions.map { .number(UInt64($0.rawValue)) })),
      .init("preferred", hello.preferred), .init("clientVersion", hello.clientVersion),
      .init("platform", hello.platform), .init("capabilities", hello.capabilities ?? []),
    ])
  }

  private static func ack(_ ack: VersionAck) -> Described {
    let optional: [Field?] = [.init("reason", ack.reason)]
    return .fields(
      [
        .init("agreed", ack.agreed), .init("serverVersion", ack.serverVersion), .init("platform", ack.platform),
        .init("isRejected", ack.isRejected), .init("capabilities", ack.capabilities ?? []),
      ] + optional.compactMap { $0 })
  }
}
