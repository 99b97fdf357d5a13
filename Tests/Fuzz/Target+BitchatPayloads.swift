import BitchatWire
import Bytes

extension Target {
  /// The payloads of packets.
  static let bitchatPayloads =
    [
      wire("mesh-announcement", Announcement.self) { try BitchatVectors.read().payloads(of: 1) },
      wire("mesh-sync", SyncRequest.self) {
        try BitchatVectors.read().requestSync.compactMap(\.payload).map { try Hex.decode($0) }
      },
      wire("mesh-fragment", Fragment.self) {
        try BitchatVectors.read().fragments.flatMap(\.fragments).map { try Packet(decoding: Hex.decode($0)).payload }
      },
      wire("mesh-envelope", CourierEnvelope.self) { [try Hex.decode(try BitchatVectors.read().courier.envelope)] },
      wire("mesh-file", SharedFile.self) {
        [
          [1, 0, 1, 0x61, 2, 0, 4, 0, 0, 0, 2, 3, 0, 1, 0x6D, 4, 0, 0, 0, 2, 0xDE, 0xAD],
          [1, 0, 1, 0x61, 2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0, 2, 0x68, 0x69, 4, 0, 0],
        ]
      },
      wire("mesh-ping", PingPayload.self) { [[1, 2, 3, 4, 5, 6, 7, 8, 7], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]] },
      wire("mesh-seed-message", SeedMessage.self) {
        try BitchatVectors.read().bitchatMessage.map { try Hex.decode($0.hex) }
      },
      wire("mesh-seed-ack", SeedDeliveryAck.self) { try seeds(of: 0x05) },
      wire("mesh-seed-receipt", SeedReadReceipt.self) { try seeds(of: 0x06) },
      wire("mesh-hello", VersionHello.self) { try seeds(of: 0x20) },
      wire("mesh-hello-answer", VersionAck.self) { try seeds(of: 0x21) },
    ] + [
      Target(
        name: "mesh-noise-payload",
        seeds: { try BitchatVectors.read().noisePayloads.values.compactMap { $0.hex.flatMap { try? Hex.decode($0) } } },
        run: { bytes in
          guard let payload = taken({ try NoisePayload(reading: Array(bytes)) }) else { return }
          promise(taken { try NoisePayload(reading: payload.bytes) } == payload, "a payload is read as it was written")
        }),
      Target(
        name: "mesh-text",
        seeds: { ["", " hello mesh \n", "[FAVORITED]:npub1x", "é👨‍👩‍👧‍👦e\u{301}\u{301}"].map { Array($0.utf8) } },
        run: { bytes in
          guard let text = taken({ try PublicText(payload: Array(bytes)) }) else { return }
          promise(text.payload.elementsEqual(bytes), "a text is written as it was read")
          let pieces = taken { try PrivateText.pieces(of: text.text) }
          promise(pieces?.joined() == text.text, "the pieces of a text give it")
          promise(pieces?.allSatisfy { $0.utf8.count <= 255 } == true, "a piece fits a message")
          if let notice = FavoriteNotice(text: text.text) {
            promise(FavoriteNotice(text: notice.text) == notice, "a notice is read as it was written")
          }
          _ = MessageID.iOS(sender: PeerID(rawValue: 1), timestamp: 2, text: text.text)
        }),
      Target(
        name: "mesh-file-name",
        seeds: {
          ["../../etc/passwd", "a\u{202E}gpj.exe", ".bashrc", "C:\\x\\y.png", "  . ", "é.jpeg"].map { Array($0.utf8) }
        },
        run: { bytes in
          let plain = FileName.plain(String(decoding: bytes, as: UTF8.self), .png)
          promise(!plain.isEmpty && plain.unicodeScalars.count <= 100 && plain.utf8.count <= 200, "a name has a limit")
          promise(!plain.contains("/") && !plain.contains("\\") && !plain.hasPrefix("."), "a plain name is no path")
          promise(FileName.plain(plain, .png) == plain, "a plain name stays as it is")
          _ = FileKind(content: bytes)
        }),
      Target(
        name: "mesh-code", seeds: { [Array(try BitchatVectors.read().verificationQr.url.utf8)] },
        run: { bytes in
          guard let code = taken({ try VerificationCode(reading: String(decoding: bytes, as: UTF8.self)) }) else {
            return
          }
          promise(taken { try VerificationCode(reading: code.text) } == code, "a code is read as it was written")
          _ = (code.isSigned, code.isFresh(at: 0))
        }),
      Target(
        name: "mesh-filter", seeds: { [[7, 0, 0, 0, 128, 0x5C], [32, 255, 255, 255, 255, 0, 0, 0, 0, 0]] },
        run: { bytes in
          var reader = ByteReader(Array(bytes))
          let made = taken {
            try SyncFilter(p: Int(reader.u8()), m: reader.u32be(), bits: Array(reader.rest()))
          }
          guard let values = made?.values(), let m = made?.m else { return }
          promise(zip(values, values.dropFirst()).allSatisfy { $0 < $1 }, "values ascend")
          promise(values.allSatisfy { $0 > 0 && $0 < m }, "values are below M, and not 0")
        }),
    ]

  private static func wire<Value: WireValue & Equatable & Sendable>(
    _ name: String, _ type: Value.Type, seeds: @escaping @Sendable () throws -> [[UInt8]]
  ) -> Target {
    Target(name: name, seeds: seeds) { bytes in
      guard let value = taken({ try Value(reading: Array(bytes)) }) else { return }
      promise(taken { try Value(reading: value.bytes) } == value, "\(name) is read as it was written")
    }
  }

  private static func seeds(of type: UInt8) throws -> [[UInt8]] {
    try BitchatVectors.read().dialectDisambiguation.cases.filter { $0.type == type }.map { try Hex.decode($0.payload) }
  }
}
