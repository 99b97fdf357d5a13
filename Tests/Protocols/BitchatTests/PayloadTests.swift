import Bytes
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of mesh packet payloads")
struct PayloadTests {
  let noiseKey: X25519.PublicKey
  let key: Ed25519.PrivateKey

  init() throws {
    let alice = try Vectors.shared.identity("alice")
    (noiseKey, key) = (try alice.noiseKey(), try alice.signingKey())
  }

  private func announcement(
    _ nickname: String = "alice", neighbours: [PeerID]? = nil, capabilities: Capabilities? = nil,
    geohash: String? = nil,
    dialect: MeshDialect = .live, isEarshot: Bool = false, longestWrite: UInt16? = nil
  ) throws -> Announcement {
    try Announcement(
      nickname: nickname, noiseKey: noiseKey, signingKey: key.publicKey, neighbours: neighbours,
      capabilities: capabilities, geohash: geohash, dialect: dialect, isEarshot: isEarshot,
      longestWrite: longestWrite)
  }

  private func records(_ payload: [UInt8]) throws -> [TLV] {
    try TLV.all(in: payload[...], length: .u8, limit: 255, maximumCount: 64)
  }

  private func bytes(_ records: [TLV]) throws -> [UInt8] {
    var writer = ByteWriter()
    for record in records { try record.write(to: &writer, length: .u8) }
    return writer.bytes
  }

  // MARK: Announcements

  @Test("An announcement is encoded and decoded with all its optional fields")
  func announcements() throws {
    let peers = (1...10).map { PeerID(rawValue: $0) }
    for value in [
      try announcement(), try announcement("", neighbours: []), try announcement("é\u{202E}\n", neighbours: peers),
      try announcement(capabilities: []), try announcement(capabilities: Capabilities(rawValue: .max)),
      try announcement(geohash: "u4pruydqqvj8", dialect: .seed),
      try announcement(isEarshot: true), try announcement(isEarshot: true, longestWrite: 510),
      try announcement(String(repeating: "x", count: 255), neighbours: peers, capabilities: .prekeys),
    ] {
      #expect(try Announcement(reading: value.bytes) == value)
    }
  }

  @Test("Record B6 of an announcement marks an Earshot peer, and may limit the length of writes")
  func longestWrite() throws {
    func mark(_ value: Announcement) throws -> [UInt8]? {
      for record in try records(value.bytes) where record.type == 0xB6 { return Array(record.value) }
      return nil
    }
    #expect(try mark(announcement(isEarshot: true)) == [0x45, 0x31])
    #expect(try mark(announcement(isEarshot: true, longestWrite: 510)) == [0x45, 0x31, 0x01, 0xFE])
    #expect(try mark(announcement(longestWrite: 510)) == nil)
    for (value, isEarshot, longestWrite) in [
      ([0x45, 0x31, 0x01, 0xFE], true, 510), ([0x45, 0x31, 0x01], true, nil), ([0x45, 0x31, 0x01, 0xFE, 7], true, 510),
      ([0x45, 0x32, 0x01, 0xFE], false, nil), ([0x45], false, nil),
    ] as [([UInt8], Bool, UInt16?)] {
      let read = try Announcement(reading: announcement().bytes + [0xB6, UInt8(value.count)] + value)
      #expect(read.isEarshot == isEarshot && read.longestWrite == longestWrite)
    }
  }

  @Test("Announcement records are read in any order, and unknown ones are skipped")
  func order() throws {
    let value = try announcement(
      neighbours: [PeerID(rawValue: 9)], capabilities: .groups, geohash: "u4", dialect: .seed)
    let unknown = [TLV(type: 0x77, value: []), TLV(type: 0, value: [1, 2])]
    let mixed = try bytes(unknown + records(value.bytes).reversed() + unknown)
    #expect(try Announcement(reading: mixed) == value)
  }

  @Test(
    "An announcement with a missing or invalid required record is refused with the record's name",
    arguments: [
      (UInt8(1), "nickname"), (2, "noiseKey"), (3, "signingKey"),
    ])
  func required(type: UInt8, name: String) throws {
    let all = try records(announcement().bytes)
    #expect(throws: WireError.badValue(name)) {
      try Announcement(reading: bytes(all.filter { $0.type != type }))
    }
    let wrong = all.map { $0.type == type ? TLV(type: type, value: $0.value.dropLast() + [0xFF, 0xFF]) : $0 }
    #expect(throws: WireError.badValue(name)) { try Announcement(reading: bytes(wrong)) }
  }

  @Test("An announcement has at most 10 neighbours, 255 bytes of nickname and 12 of geohash")
  func announcementLimits() throws {
    let eleven = (1...11).map { PeerID(rawValue: $0) }
    #expect(throws: WireError.tooLong(field: "neighbours", limit: 10)) { try announcement(neighbours: eleven) }
    let read = try bytes(records(announcement().bytes) + [TLV(type: 4, value: eleven.flatMap(\.bytes))])
    #expect(throws: WireError.tooLong(field: "neighbours", limit: 10)) { try Announcement(reading: read) }
    let odd = try bytes(records(announcement().bytes) + [TLV(type: 4, value: [1, 2, 3])])
    #expect(throws: WireError.badValue("neighbours")) { try Announcement(reading: odd) }
    let long = String(repeating: "é", count: 128)
    #expect(throws: WireError.tooLong(field: "nickname", limit: 255)) { try announcement(long) }
    #expect(throws: WireError.tooLong(field: "geohash", limit: 12)) { try announcement(geohash: "u4pruydqqvj8z") }
    let none = try bytes(records(announcement().bytes) + [TLV(type: 5, value: [])])
    #expect(throws: WireError.badValue("capabilities")) { try Announcement(reading: none) }
  }

  @Test("Only the value S1 of the dialect record in an announcement marks dialect S")
  func seedMark() throws {
    for (value, speaks) in [("S1", true), ("S2", false), ("S", false), ("S11", false), ("", false)] {
      let read = try bytes(records(announcement().bytes) + [TLV(type: 0xB5, value: Array(value.utf8))])
      #expect(try Announcement(reading: read).dialect == (speaks ? .seed : .live))
    }
  }

  @Test("Capabilities in an announcement are encoded in little endian with the fewest bytes")
  func capabilities() throws {
    for (bits, bytes) in [(0, [0]), (1, [1]), (0x0329, [0x29, 0x03]), (1 << 16, [0, 0, 1])] as [(UInt64, [UInt8])] {
      #expect(Capabilities(rawValue: bits).bytes == bytes)
      #expect(try Capabilities((bytes + [0])[...]).rawValue == bits)
      #expect(try Capabilities((bytes + [UInt8](repeating: 0, count: 8))[...]).rawValue == bits)
    }
    let long: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0x80, 0xFF]
    let bits: UInt64 = 1 << 63 | 1
    #expect(try Capabilities(long[...]).rawValue == bits)
  }

  // MARK: Texts

  @Test("A public text is UTF-8 of at most 60,000 characters")
  func publicText() throws {
    let most = String(repeating: "é", count: 60_000)
    #expect(try PublicText(payload: Array(most.utf8)).text == most)
    #expect(try PublicText(most).payload == Array(most.utf8))
    #expect(throws: WireError.tooLong(field: "text", limit: 60_000)) { try PublicText(most + "e") }
    #expect(throws: WireError.badValue("text")) { try PublicText(payload: [0xC3]) }
    #expect(try PublicText(payload: []).text == "")
  }

  @Test("White space around a public text does not change its message ID in the iOS app's form")
  func trimming() {
    func id(_ text: String) -> MessageID {
      .iOS(sender: PeerID(rawValue: 1), timestamp: 2, text: text)
    }
    for blanks in [" ", "\t", "\n", "\r\n", "\u{A0}", "\u{2028}", "\u{3000}", "\u{85}", " \u{B}\u{C} "] {
      #expect(id(blanks + "a b" + blanks) == id("a b"))
    }
    #expect(id(" \n") == id(""))
    #expect(id("\u{200B}a") != id("a"))
    #expect(id("a  b") != id("a b"))
  }

  @Test("A new message ID is a random UUID in upper case")
  func newIDs() {
    var random = SeededRandom(seed: 6)
    let text = MessageID(randomFrom: &random).text
    let parts = text.split(separator: "-").map(\.count)
    #expect(parts == [8, 4, 4, 4, 12])
    #expect(text == text.uppercased())
    #expect(Array(text)[14] == "4" && "89AB".contains(Array(text)[19]))
    #expect(MessageID(randomFrom: &random).text != text)
  }

  @Test("A private message has an ID and a text of at most 255 bytes each")
  func privateMessages() throws {
    let most = String(repeating: "x", count: 255)
    let message = try PrivateMessage(id: MessageID(most), text: most)
    let payload = NoisePayload.privateMessage(message)
    #expect(try NoisePayload(reading: payload.bytes) == payload)
    #expect(throws: WireError.tooLong(field: "text", limit: 255)) {
      try PrivateMessage(id: message.id, text: most + "x")
    }
    #expect(throws: WireError.tooLong(field: "messageID", limit: 255)) { try MessageID(most + "x") }
    #expect(throws: WireError.badValue("messageID")) { try MessageID("") }
  }

  @Test("A private message with an unknown, missing, repeated or non-UTF-8 record is refused")
  func badPrivateMessages() throws {
    let good: [UInt8] = [0x00, 1, 0x61, 0x01, 1, 0x62]
    #expect(throws: Never.self) { try NoisePayload(reading: [0x01] + good) }
    let bad: [([UInt8], WireError)] = [
      (good + [0x02, 0], .badValue("TLV 2")), (good + [0x01, 0], .badValue("TLV 1")),
      ([0x00, 1, 0x61], .badValue("text")), ([0x01, 1, 0x61], .badValue("messageID")), ([], .badValue("messageID")),
      ([0x00, 1, 0x61, 0x01, 1, 0xFF], .badValue("text")), ([0x00, 0, 0x01, 1, 0x62], .badValue("messageID")),
      (good.dropLast(), .truncated(needed: 1, available: 0)),
    ]
    for (bytes, error) in bad {
      #expect(throws: NoisePayloadError.malformed(error)) { try NoisePayload(reading: [0x01] + bytes) }
    }
  }

  @Test("A Noise payload of an unknown type is refused with the number of its type")
  func unknownPayloads() {
    #expect(throws: NoisePayloadError.empty) { try NoisePayload(reading: []) }
    for type in UInt8.min...UInt8.max where ![0x01, 0x02, 0x03, 0x09, 0x10, 0x11, 0x20, 0x21].contains(type) {
      #expect(throws: NoisePayloadError.unknownType(type)) { try NoisePayload(reading: [type, 1, 2, 3]) }
    }
  }

  @Test("A receipt with an empty or non-UTF-8 message ID is refused")
  func badReceipts() {
    for type in [0x02, 0x03] as [UInt8] {
      #expect(throws: NoisePayloadError.malformed(.badValue("messageID"))) { try NoisePayload(reading: [type]) }
      #expect(throws: NoisePayloadError.malformed(.badValue("messageID"))) { try NoisePayload(reading: [type, 0xFF]) }
    }
  }

  @Test("A peer state of another version is refused, and unknown records are skipped")
  func peerStates() throws {
    let state = NoisePayload.peerState(PeerState(capabilities: .privateMedia, signingKey: key.publicKey))
    #expect(try NoisePayload(reading: state.bytes + [0x09, 1, 7]) == state)
    var other = state.bytes
    other[1] = 2
    #expect(throws: NoisePayloadError.malformed(.badValue("version"))) { try NoisePayload(reading: other) }
    #expect(throws: NoisePayloadError.malformed(.badValue("capabilities"))) { try NoisePayload(reading: [0x21, 1]) }
    #expect(throws: NoisePayloadError.malformed(.badValue("signingKey"))) {
      try NoisePayload(reading: [0x21, 1, 1, 1, 0])
    }
  }

  @Test("A long text is split between characters into pieces of at most 255 bytes, which together are the text")
  func pieces() throws {
    let family = "👨‍👩‍👧‍👦"
    let marks = "e" + String(repeating: "\u{301}", count: 400)
    for text in [
      "", "a", String(repeating: "a", count: 255), String(repeating: "a", count: 256),
      String(repeating: "é", count: 300),
      String(repeating: family, count: 50), "a" + String(repeating: family, count: 50), "x" + marks + "y",
    ] {
      let pieces = try PrivateText.pieces(of: text)
      #expect(pieces.joined() == text)
      let longest = pieces.map(\.utf8.count).max() ?? 0
      #expect(longest <= 255)
      let isCutBetween = pieces.map(\.count).reduce(0, +) == text.count
      #expect(isCutBetween || text.contains(marks))
      let isEmpty = pieces.contains("")
      #expect(isEmpty == text.isEmpty)
    }
    #expect(try PrivateText.pieces(of: String(repeating: "a", count: 256)).map(\.utf8.count) == [255, 1])
    #expect(try PrivateText.pieces(of: String(repeating: "a", count: 65_536)).count == 258)
    #expect(throws: WireError.tooLong(field: "text", limit: 65_536)) {
      try PrivateText.pieces(of: String(repeating: "a", count: 65_537))
    }
  }

  @Test("A favourite notice may contain a key, and a text that only begins like a notice is none")
  func notices() {
    let key = "npub1" + String(repeating: "q0", count: 29)
    for (text, isFavorite, npub) in [
      ("[FAVORITED]:\(key)", true, key), ("[UNFAVORITED]:\(key)", false, key), ("[FAVORITED]", true, nil),
      ("[UNFAVORITED]:", false, nil),
    ] as [(String, Bool, String?)] {
      #expect(FavoriteNotice.mayBeTaken(text))
      #expect(FavoriteNotice(text: text) == FavoriteNotice(isFavorite: isFavorite, npub: npub))
    }
    for text in [
      "[FAVORITED] you", "[FAVORITED]s", "[FAVORITED]: what does that mean?", "[UNFAVORITED]:see list",
      "[FAVORITED]:npub1x",
      "[FAVORITED]:\(key):nut", "[FAVORITED]:\(key)q", "[FAVORITED]:\(key.dropLast())b", "[FAVORITED]::",
    ] {
      #expect(FavoriteNotice(text: text) == nil && FavoriteNotice.mayBeTaken(text), "\(text)")
    }
    for text in ["", "[FAVORITED", "[favorited]", " [FAVORITED]", "x[UNFAVORITED]:"] {
      #expect(FavoriteNotice(text: text) == nil && !FavoriteNotice.mayBeTaken(text))
    }
    #expect(FavoriteNotice(isFavorite: false).text == "[UNFAVORITED]")
  }

  // MARK: Verification

  @Test("A verification code is encoded and decoded with any nickname, and its signature covers all fields")
  func codes() throws {
    var random = SeededRandom(seed: 7)
    for nickname in ["", "alice", "a&b=c%+ é\u{0}", String(repeating: "é", count: 127)] {
      for npub in [nil, "npub1x"] {
        let code = try VerificationCode(
          noiseKey: noiseKey, key: key, nickname: nickname, npub: npub, seconds: 1_755_432_100, randomFrom: &random)
        let read = try VerificationCode(reading: code.text)
        #expect(read == code)
        #expect(read.isSigned)
      }
    }
    let text = try VerificationCode(
      noiseKey: noiseKey, key: key, nickname: "alice", seconds: 1, randomFrom: &random
    ).text
    #expect(try !VerificationCode(reading: text.replacing("nick=alice", with: "nick=alicia")).isSigned)
    #expect(try !VerificationCode(reading: text.replacing("ts=1&", with: "ts=2&")).isSigned)
    #expect(try !VerificationCode(reading: text + "&npub=npub1x").isSigned)
    #expect(throws: WireError.tooLong(field: "nick", limit: 255)) {
      try VerificationCode(
        noiseKey: noiseKey, key: key, nickname: String(repeating: "x", count: 256), seconds: 1, randomFrom: &random)
    }
  }

  @Test("An invalid verification code is refused with the name of the bad field")
  func badCodes() throws {
    let text = Vectors.shared.verificationQr.url
    for (bad, name) in [
      ("", "code"), (text.replacing("bitchat:", with: "bitchut:"), "code"), (text.replacing("v=1", with: "v=2"), "v"),
      (text + "&v=1", "v"), (text.replacing("ts=", with: "ts=+"), "ts"), (text.replacing("ts=", with: "ts=0"), "ts"),
      (text.replacing("&ts=", with: "&tt="), "ts"), (text.replacing("noise=88", with: "noise=8"), "noise"),
      (text.replacing("noise=88", with: "noise="), "noiseKey"),
      (text.replacing("sign=4e", with: "sign="), "signingKey"),
      (text.replacing("sig=32", with: "sig="), "sig"), (text.replacing("nick=alice", with: "nick=%FF"), "nick"),
    ] {
      #expect(throws: WireError.badValue(name), "\(bad)") { try VerificationCode(reading: bad) }
    }
    #expect(throws: WireError.tooLong(field: "code", limit: 4096)) {
      try VerificationCode(reading: text + String(repeating: "x", count: 4096))
    }
    #expect(try VerificationCode(reading: text + "&x=1&y").isSigned)
  }

  @Test("A verification code with an extreme time is not fresh, and causes no arithmetic overflow")
  func freshness() throws {
    let text = Vectors.shared.verificationQr.url.replacing("ts=1755432100", with: "ts=\(Int64.min)")
    let code = try VerificationCode(reading: text)
    #expect(!code.isFresh(at: .max))
    #expect(!code.isFresh(at: 0))
    #expect(code.isFresh(at: .min))
  }

  @Test("A challenge without a nonce, or with an invalid key, is refused")
  func badChallenges() throws {
    let digits = Array(Hex.encode(noiseKey.bytes).utf8)
    let good = [TLV(type: 1, value: digits), TLV(type: 2, value: [1, 2, 3])]
    #expect(throws: Never.self) { try NoisePayload(reading: [0x10] + bytes(good)) }
    for (bad, error) in [
      ([good[0]], WireError.badValue("nonce")), ([good[1]], .badValue("noiseKey")),
      ([good[0], TLV(type: 2, value: [])], .badValue("nonce")),
      ([TLV(type: 1, value: digits.dropLast(2)), good[1]], .badValue("noiseKey")),
      ([TLV(type: 1, value: digits.dropLast()), good[1]], .badValue("hex")),
    ] {
      #expect(throws: NoisePayloadError.malformed(error)) { try NoisePayload(reading: [0x10] + bytes(bad)) }
    }
    #expect(throws: NoisePayloadError.malformed(.badValue("signature"))) {
      try NoisePayload(reading: [0x11] + bytes(good + [TLV(type: 3, value: [1])]))
    }
  }
}
