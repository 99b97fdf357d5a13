import Bytes
import Crypto
import Testing

@testable import Nostr

@Suite("Encoding of Nostr events")
struct EventTests {
  private static func draft(_ content: String, tags: [[String]] = []) throws -> EventDraft {
    EventDraft(
      author: try People.key(3).xOnlyKey, createdAt: People.now, kind: .channelText, tags: tags, content: content)
  }

  private static func signed(_ draft: EventDraft) throws -> NostrEvent {
    var random = SeededRandom(seed: 7)
    return try draft.signed(with: People.key(3), randomFrom: &random)
  }

  @Test("Every recorded event has its ID and a valid signature, also after it was written again")
  func vectors() throws {
    let vectors = Vectors.shared
    let events = [
      vectors.nostrGeohash.chat, vectors.nostrGeohash.presence, vectors.nostrPrivateEnvelope.seal,
      vectors.nostrPrivateEnvelope.giftWrap,
    ]
    for vector in events {
      let event = try ReceivedEvent(json: vector.json()).verified()
      #expect(event.id.hex == vector.id)
      #expect(event.draft.id.hex == vector.id)
      #expect(try ReceivedEvent(json: event.jsonBytes).verified() == event)
    }
  }

  @Test("An event that we sign is verified, and with another content, ID or signature it is refused")
  func verification() throws {
    let event = try Self.signed(Self.draft("hi", tags: [["g", "u4pruy"]]))
    let received = try ReceivedEvent(json: event.jsonBytes)
    #expect(try received.verified() == event)
    var other = event.draft
    other.content = "ho"
    let changed = ReceivedEvent(draft: other, claimedID: event.id, signature: event.signature)
    #expect(throws: EventRefusal.wrongID) { try changed.verified() }
    let forged = ReceivedEvent(draft: other, claimedID: other.id, signature: event.signature)
    #expect(throws: EventRefusal.wrongSignature) { try forged.verified() }
    var signature = event.signature
    signature[63] ^= 1
    let broken = ReceivedEvent(draft: event.draft, claimedID: event.id, signature: signature)
    #expect(throws: EventRefusal.wrongSignature) { try broken.verified() }
  }

  @Test("Event texts with quotes, control characters and emoji survive JSON, and the ID follows NIP-01")
  func texts() throws {
    let content = "a\"b\\c\n\r\t\u{8}\u{C}/é🍕\u{7F}\u{2028}"
    let draft = try Self.draft(content)
    let canonical = String(decoding: draft.canonicalJSON(.verbatim), as: UTF8.self)
    #expect(
      canonical == "[0,\"\(draft.author.hex)\",1755432100,20000,[],\"a\\\"b\\\\c\\n\\r\\t\\b\\f/é🍕\u{7F}\u{2028}\"]")
    let event = try Self.signed(draft)
    #expect(try ReceivedEvent(json: event.jsonBytes).draft.content == content)
  }

  @Test("An event with other control characters is accepted if its ID is over them raw or escaped")
  func controls() throws {
    let draft = try Self.draft("a\u{1}b")
    #expect(draft.canonicalJSON(.verbatim) != draft.canonicalJSON(.escaped))
    var random = SeededRandom(seed: 1)
    for controls in [JSONText.Controls.verbatim, .escaped] {
      let id = EventID(hashing: draft.canonicalJSON(controls))
      let signature = try People.key(3).sign(hash: id.bytes, randomFrom: &random)
      #expect(try ReceivedEvent(draft: draft, claimedID: id, signature: signature).verified().id == id)
    }
  }

  @Test("JSON escapes in an event are read as the characters that they represent")
  func escapes() throws {
    let event = try Self.signed(Self.draft("é🍕/\n"))
    let text = event.json.replacing("é🍕/\\n", with: "\\u00e9\\ud83c\\udf55\\/\\u000A")
    #expect(try ReceivedEvent(json: Array(text.utf8)).verified() == event)
  }

  @Test("Unknown event members are skipped; a repeated, missing or mistyped member is refused")
  func members() throws {
    let event = try Self.signed(Self.draft("hi", tags: [["g", "u4pruy"], []]))
    let json = event.json
    let extra = "{\"x\":{\"y\":[1,2.5e3,null,true,\"}\"]}," + json.dropFirst()
    #expect(try ReceivedEvent(json: Array(extra.utf8)).verified() == event)
    let changes: [(String, String)] = [
      ("\"kind\":20000", "\"kind\":20000,\"kind\":20000"), ("\"kind\":20000", "\"kind\":70000"),
      ("\"kind\":20000", "\"kind\":-1"), ("\"kind\":20000", "\"kind\":2e4"), ("\"kind\":20000", "\"kind\":20000.0"),
      ("\"kind\":20000", "\"kind\":\"20000\""), ("\"kind\":20000,", ""), ("1755432100", "-1"),
      ("1755432100", "99999999999999999999"), ("[[\"g\",\"u4pruy\"],[]]", "{}"),
      ("[[\"g\",\"u4pruy\"],[]]", "[\"g\"]"), ("[[\"g\",\"u4pruy\"],[]]", "[[1]]"), ("\"hi\"", "null"),
      ("\"hi\"", "\"\\ud800\""), ("\"hi\"", "\"\\u0000\""), ("\"hi\"", "\"\u{1}\""), ("\"hi\"", "\"\\x\""),
      (event.id.hex, event.id.hex.uppercased()), (event.id.hex, String(event.id.hex.dropLast())),
      (event.draft.author.hex, String(repeating: "f", count: 64)), ("\"sig\":\"", "\"sig\":\"00"), ("}", "},"),
      ("}", ""), ("{", "[{"),
    ]
    for (old, new) in changes {
      let changed = json.replacing(old, with: new, maxReplacements: 1)
      #expect(changed != json)
      #expect(throws: EventRefusal.malformedEvent, "\(old) → \(new)") { try ReceivedEvent(json: Array(changed.utf8)) }
    }
    #expect(throws: EventRefusal.malformedEvent) { try ReceivedEvent(json: Array(json.utf8) + [0xFF]) }
  }

  @Test("A Nostr event over 64 KiB, with too many tags or with a long tag is refused")
  func limits() throws {
    let long = try Self.signed(Self.draft(String(repeating: "a", count: NostrLimits.eventBytes)))
    #expect(throws: EventRefusal.eventTooLong) { try ReceivedEvent(json: long.jsonBytes) }
    let most = [[String]](repeating: ["a"], count: NostrLimits.tags)
    #expect(throws: Never.self) { try ReceivedEvent(json: Self.signed(Self.draft("", tags: most)).jsonBytes) }
    let wrong: [[[String]]] = [
      most + [["a"]], [[String](repeating: "a", count: NostrLimits.tagTexts + 1)],
      [[String(repeating: "a", count: NostrLimits.tagTextBytes + 1)]],
    ]
    for tags in wrong {
      let event = try Self.signed(Self.draft("", tags: tags))
      #expect(throws: EventRefusal.malformedEvent) { try ReceivedEvent(json: event.jsonBytes) }
    }
    let deep = String(repeating: "[", count: 30_000) + String(repeating: "]", count: 30_000)
    #expect(throws: EventRefusal.malformedEvent) { try ReceivedEvent(json: Array("{\"x\":\(deep)}".utf8)) }
  }

  @Test("The npub form of a key equals the recorded one, and is read again")
  func npub() throws {
    let vector = Vectors.shared.nostrPrivateEnvelope
    let key = try People.key(vector.senderPrivate).xOnlyKey
    #expect(key.npub == vector.senderNpub)
    #expect(try NostrKey(npub: vector.senderNpub) == key)
    // A valid checksum over 31 bytes, and over the coordinate of no point.
    let short = Bech32.encode(key.bytes.dropLast(), prefix: "npub")
    let off = Bech32.encode([UInt8](repeating: 0xFF, count: 32), prefix: "npub")
    for text in [short, off, "npub1", key.hex] {
      #expect(throws: WireError.badValue("npub")) { try NostrKey(npub: text) }
    }
  }
}

@Suite("Geohash channels on Nostr")
struct ChannelTests {
  @Test("The key for a geohash channel is the recorded one, and differs between channels")
  func identity() throws {
    let vector = Vectors.shared.nostrGeohashIdentity
    let seed = SecretBytes(copying: try Hex.decode(vector.deviceSeed))
    let key = try Geohash(vector.geohash).key(seed: seed)
    #expect(key.secret.withUnsafeBytes { Hex.encode($0) } == vector.private)
    #expect(try Geohash("u4pru").key(seed: seed).xOnlyKey != key.xOnlyKey)
  }

  @Test("The recorded channel events are read, and made again with the same ID")
  func vectors() throws {
    let vector = Vectors.shared.nostrGeohash
    let author = try People.key(3).xOnlyKey
    let place = try Geohash("u4pruy")
    let chat = try ChannelEvent(ReceivedEvent(json: vector.chat.json()).verified(), in: place)
    #expect(chat.text == "hi geo")
    #expect(chat.nickname == "alice")
    #expect(chat.isTeleported)
    let made = ChannelEvent.text(
      "hi geo", in: place, nickname: "alice", isTeleported: true, author: author,
      at: UnixTime(seconds: vector.chat.createdAt))
    #expect(made.id.hex == vector.chat.id)
    let larger = try Geohash("u4pru")
    let presence = try ChannelEvent(ReceivedEvent(json: vector.presence.json()).verified(), in: larger)
    #expect(presence.text == nil)
    let again = ChannelEvent.presence(
      in: larger, author: author, at: UnixTime(seconds: vector.presence.createdAt))
    #expect(again.id.hex == vector.presence.id)
  }

  @Test("A channel event of another channel, or with a text or nickname of wrong length, is refused")
  func refused() throws {
    let place = try Geohash("u4pruy")
    var random = SeededRandom(seed: 1)
    func event(_ kind: EventKind, _ tags: [[String]], _ content: String) throws -> NostrEvent {
      try EventDraft(
        author: People.key(3).xOnlyKey, createdAt: People.now, kind: kind, tags: tags, content: content
      ).signed(with: People.key(3), randomFrom: &random)
    }
    let name = String(repeating: "n", count: NostrLimits.nicknameBytes + 1)
    let wrong = [
      try event(.channelText, [["g", "u4pru"]], "hi"), try event(.channelText, [], "hi"),
      try event(.channelText, [["g", "u4pruy"]], ""),
      try event(.channelText, [["g", "u4pruy"]], String(repeating: "a", count: NostrLimits.channelTextBytes + 1)),
      try event(.channelText, [["g", "u4pruy"], ["n", name]], "hi"),
      try event(.channelPresence, [["g", "u4pruy"]], "hi"),
    ]
    for event in wrong {
      #expect(throws: EventRefusal.malformedChannelEvent) { try ChannelEvent(event, in: place) }
    }
    let seal = try event(.seal, [["g", "u4pruy"]], "hi")
    #expect(throws: EventRefusal.wrongKind) { try ChannelEvent(seal, in: place) }
  }

  @Test("A geohash has 1 to 12 characters of its alphabet, and presence uses at most 5 of them")
  func geohash() throws {
    for text in ["", "U4PRUY", "u4prua", "u4 ru", "0123456789bcd", "é"] {
      #expect(throws: WireError.badValue("geohash")) { try Geohash(text) }
    }
    #expect(try Geohash("0123456789bc").text == "0123456789bc")
    #expect(try Geohash("u4pru").hasPresence)
    #expect(try !Geohash("u4pruy").hasPresence)
  }
}
