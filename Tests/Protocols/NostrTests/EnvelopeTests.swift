import Bytes
import Crypto
import Testing

@testable import Nostr

/// Makes envelopes that each break one rule of their dialect.
struct Forge {
  var dialect = EnvelopeDialect.app
  var sender: Secp256k1.PrivateKey
  var recipient: Secp256k1.PrivateKey
  var random = SeededRandom(seed: 11)
  var rumor: EventDraft
  var rumorID = ""
  var rumorSignature: String?
  /// The text that is sealed; nil: the rumor.
  var rumorText: String?
  var sealKind = EventKind.seal
  var sealTags: [[String]] = []
  var sealTime: Int64 = 0
  /// Changes the seal's JSON after signing.
  var changeSeal: (String) -> String = { $0 }
  var wrapTags: [[String]]
  var wrapTime: Int64 = 0
  var sealRecipient: NostrKey
  var wrapRecipient: NostrKey

  init(_ dialect: EnvelopeDialect = .app) throws {
    self.dialect = dialect
    sender = try People.key(3)
    recipient = try People.key(7)
    (sealRecipient, wrapRecipient) = (recipient.xOnlyKey, recipient.xOnlyKey)
    wrapTags = [["p", recipient.xOnlyKey.hex]]
    rumor = EventDraft(
      author: sender.xOnlyKey, createdAt: People.now, kind: .privateMessage,
      tags: dialect == .app ? [] : [["p", recipient.xOnlyKey.hex]], content: "bitchat1:AREH")
    if dialect == .nip17 { rumorID = rumor.id.hex }
  }

  private mutating func encrypt(_ text: String, _ key: Secp256k1.PrivateKey, _ to: NostrKey) throws -> String {
    switch dialect {
    case .app: return try AppCipher.seal(Array(text.utf8), from: key, to: to, nonce: random.bytes(24))
    case .nip17:
      let conversation = try NIP44.conversationKey(key, to)
      return try NIP44.seal(Array(text.utf8), key: conversation, nonce: random.bytes(32))
    }
  }

  mutating func wrap() throws -> NostrEvent {
    var json = JSONText(controls: .escaped)
    json.event(rumor, id: rumorID, signature: rumorSignature)
    let text = rumorText ?? String(decoding: json.bytes, as: UTF8.self)
    let seal = try EventDraft(
      author: sender.xOnlyKey, createdAt: UnixTime(seconds: People.now.seconds + sealTime), kind: sealKind,
      tags: sealTags, content: encrypt(text, sender, sealRecipient)
    ).signed(with: sender, randomFrom: &random)
    let once = try Secp256k1.PrivateKey(randomFrom: &random)
    return try EventDraft(
      author: once.xOnlyKey, createdAt: UnixTime(seconds: People.now.seconds + wrapTime), kind: .giftWrap,
      tags: wrapTags, content: encrypt(changeSeal(seal.json), once, wrapRecipient)
    ).signed(with: once, randomFrom: &random)
  }

  /// The reason for which `PrivateEnvelope.open` refuses an envelope; nil if it is opened.
  static func refusal(
    _ dialect: EnvelopeDialect = .app, accepts: Set<EnvelopeDialect> = Set(EnvelopeDialect.allCases),
    isContact: Bool = true, _ change: (inout Forge) throws -> Void = { _ in }
  ) throws -> EventRefusal? {
    var forge = try Forge(dialect)
    try change(&forge)
    let wrap = try forge.wrap()
    let reader = PrivateEnvelope.Reader(key: try People.key(7), dialects: accepts)
    do throws(EventRefusal) {
      _ = try PrivateEnvelope.open(wrap, by: reader, now: People.now) { _ in isContact }
      return nil
    } catch {
      return error
    }
  }
}

@Suite("Nostr envelopes of private messages")
struct EnvelopeTests {
  @Test("The recorded envelope is opened, and each of its ciphertexts is made again from its nonce")
  func vector() throws {
    let vector = Vectors.shared.nostrPrivateEnvelope
    let recipient = try People.key(vector.recipientPrivate)
    let sender = try People.key(vector.senderPrivate)
    let wrap = try ReceivedEvent(json: vector.giftWrap.json()).verified()
    let reader = PrivateEnvelope.Reader(key: recipient)
    let message = try PrivateEnvelope.open(wrap, by: reader, now: People.now) { $0 == sender.xOnlyKey }
    #expect(message.text == vector.rumor.content)
    #expect(message.sender == sender.xOnlyKey)
    #expect(message.sentAt.seconds == vector.rumor.createdAt)
    #expect(message.dialect == .app)

    let point = try sender.sharedPoint(with: recipient.xOnlyKey)
    let key = try AppCipher.messageKey(point)
    #expect(key.withUnsafeBytes { Hex.encode($0) } == vector.envKeySeal)
    for (event, author) in [(vector.seal, sender), (vector.giftWrap, try People.key(vector.wrapPrivate))] {
      let nonce = Array(try Base64URL.decode(event.content.dropFirst(3)).prefix(24))
      let text = try #require(try AppCipher.open(event.content, from: author.xOnlyKey, with: recipient))
      let again = try AppCipher.seal(text, from: author, to: recipient.xOnlyKey, nonce: nonce)
      #expect(again == event.content)
    }
  }

  @Test(
    "A Nostr message in either form is opened by its recipient, with keys of even or odd parity",
    arguments: EnvelopeDialect.allCases)
  func roundTrip(dialect: EnvelopeDialect) throws {
    var random = SeededRandom(seed: 5)
    for _ in 0..<12 {
      let sender = try Secp256k1.PrivateKey(randomFrom: &random)
      let recipient = try Secp256k1.PrivateKey(randomFrom: &random)
      let wrap = try PrivateEnvelope.wrap(
        "bitchat1:é\n", to: recipient.xOnlyKey, from: sender, dialect: dialect, sentAt: People.now,
        now: People.now, randomFrom: &random)
      let reader = PrivateEnvelope.Reader(key: recipient, dialects: [dialect])
      let received = try ReceivedEvent(json: wrap.jsonBytes).verified()
      let opened = try PrivateEnvelope.open(received, by: reader, now: People.now) { $0 == sender.xOnlyKey }
      #expect(opened.text == "bitchat1:é\n")
      #expect(opened.sentAt == People.now)
      #expect(wrap.draft.author != sender.xOnlyKey)
      #expect(!wrap.json.contains(sender.xOnlyKey.hex))
    }
  }

  @Test("The longest text gives a Nostr event of at most 64 KiB in either form", arguments: EnvelopeDialect.allCases)
  func longest(dialect: EnvelopeDialect) throws {
    var random = SeededRandom(seed: 5)
    let (sender, recipient) = (try People.key(3), try People.key(7))
    func wrap(_ count: Int) throws -> NostrEvent {
      try PrivateEnvelope.wrap(
        String(repeating: "a", count: count), to: recipient.xOnlyKey, from: sender, dialect: dialect,
        sentAt: People.now, now: People.now, randomFrom: &random)
    }
    let event = try wrap(NostrLimits.contentBytes)
    #expect(event.jsonBytes.count <= NostrLimits.eventBytes)
    let reader = PrivateEnvelope.Reader(key: recipient, dialects: [dialect])
    let opened = try PrivateEnvelope.open(event, by: reader, now: People.now) { _ in true }
    #expect(opened.text.utf8.count == NostrLimits.contentBytes)
    for count in [0, NostrLimits.contentBytes + 1] {
      #expect(throws: CryptoError.badLength("private text", expected: NostrLimits.contentBytes, got: count)) {
        try wrap(count)
      }
    }
  }

  @Test("Times of seal and wrap differ from the message's by up to 15 min in the app's form, 2 days in NIP-17's")
  func jitter() throws {
    var random = SeededRandom(seed: 9)
    let (sender, recipient) = (try People.key(3), try People.key(7))
    for (dialect, range) in [(EnvelopeDialect.app, Int64(-900)...900), (.nip17, -172_800...0)] {
      var offsets: Set<Int64> = []
      for _ in 0..<20 {
        let wrap = try PrivateEnvelope.wrap(
          "a", to: recipient.xOnlyKey, from: sender, dialect: dialect, sentAt: People.now, now: People.now,
          randomFrom: &random)
        offsets.insert(wrap.draft.createdAt.seconds - People.now.seconds)
      }
      #expect(offsets.allSatisfy(range.contains))
      #expect(offsets.count > 15)
    }
  }

  @Test("An envelope that breaks one rule of the app's form is refused with the reason for that rule")
  func appRules() throws {
    let other = try People.key(9)
    let own = try People.key(7).xOnlyKey.hex
    #expect(try Forge.refusal() == nil)
    #expect(try Forge.refusal { $0.rumor.tags = [["p", own]] } == nil)
    #expect(try Forge.refusal { $0.rumorID = $0.rumor.id.hex } == nil)
    #expect(try Forge.refusal(accepts: [.nip17]) == .otherForm)
    #expect(try Forge.refusal(isContact: false) == .stranger)
    let tags: [[[String]]] = [
      [], [["p", other.xOnlyKey.hex]], [["p", own], ["p", own]], [["p", own, "wss://relay.example"]],
      [["p", own], ["x"]], [["e", own]],
    ]
    for tags in tags { #expect(try Forge.refusal { $0.wrapTags = tags } == .wrapTags) }
    #expect(try Forge.refusal { $0.wrapRecipient = other.xOnlyKey } == .wrapNotOpened)
    #expect(try Forge.refusal { $0.changeSeal = { _ in "{}" } } == .malformedSeal)
    #expect(try Forge.refusal { $0.sealKind = .giftWrap } == .malformedSeal)
    #expect(try Forge.refusal { $0.sealTags = [["p", own]] } == .sealTags)
    let change: (String) -> String = { $0.replacing("\"created_at\":1755432100", with: "\"created_at\":1755432101") }
    #expect(try Forge.refusal { $0.changeSeal = change } == .sealNotSigned)
    #expect(try Forge.refusal { $0.sealRecipient = other.xOnlyKey } == .sealNotOpened)
    #expect(try Forge.refusal { $0.rumorText = "[]" } == .malformedRumor)
    #expect(try Forge.refusal { $0.rumor.kind = .channelText } == .malformedRumor)
    #expect(try Forge.refusal { $0.rumorSignature = String(repeating: "0", count: 128) } == .rumorSigned)
    #expect(try Forge.refusal { $0.rumor.author = other.xOnlyKey } == .otherAuthor)
    #expect(try Forge.refusal { $0.rumorID = String(repeating: "0", count: 64) } == .rumorID)
    #expect(try Forge.refusal { $0.rumor.tags = [["p", other.xOnlyKey.hex]] } == .rumorTags)
    #expect(try Forge.refusal { $0.rumor.content = "" } == .contentLength)
    let long = String(repeating: "a", count: NostrLimits.contentBytes + 1)
    #expect(try Forge.refusal { $0.rumor.content = long } == .contentLength)
    #expect(try Forge.refusal { ($0.sender, $0.rumor.author) = ($0.recipient, $0.recipient.xOnlyKey) } == .ownMessage)
  }

  @Test("An envelope that breaks one rule of NIP-17 is refused for it, and other clients' tags are accepted")
  func nip17Rules() throws {
    let own = try People.key(7).xOnlyKey.hex
    let other = try People.key(9).xOnlyKey.hex
    #expect(try Forge.refusal(.nip17) == nil)
    #expect(try Forge.refusal(.nip17, accepts: [.app]) == .otherForm)
    let more = [["p", own, "wss://relay.example"], ["expiration", "1"]]
    #expect(try Forge.refusal(.nip17) { $0.wrapTags = more } == nil)
    #expect(try Forge.refusal(.nip17) { $0.wrapTags = [["p", own], ["p", other]] } == .wrapTags)
    #expect(try Forge.refusal(.nip17) { $0.rumorID = "" } == .rumorID)
    #expect(
      try Forge.refusal(.nip17) {
        $0.rumor.tags = [["p", own, "wss://relay.example"], ["subject", "s"]]
        $0.rumorID = $0.rumor.id.hex
      } == nil)
    for tags in [[], [["p", own], ["p", other]], [["p", other]]] {
      let refusal = try Forge.refusal(.nip17) {
        $0.rumor.tags = tags
        $0.rumorID = $0.rumor.id.hex
      }
      #expect(refusal == .rumorTags)
    }
  }

  @Test("An envelope is accepted at the limits of its time window, and refused beyond them")
  func window() throws {
    let (day, jitter, ahead): (Int64, Int64, Int64) = (86_400, 172_800, 900)
    let slack: Int64 = 300
    func at(_ change: (inout Forge) throws -> Void) throws -> EventRefusal? { try Forge.refusal(.app, change) }
    func rumor(_ offset: Int64) throws -> EventRefusal? {
      try at { $0.rumor.createdAt = UnixTime(seconds: People.now.seconds + offset) }
    }
    #expect(try at { $0.wrapTime = -(day + jitter + slack) } == nil)
    #expect(try at { $0.wrapTime = -(day + jitter + slack) - 1 } == .tooOld)
    #expect(try at { $0.wrapTime = ahead + slack } == nil)
    #expect(try at { $0.wrapTime = ahead + slack + 1 } == .tooNew)
    #expect(try at { $0.sealTime = -(day + jitter + slack) - 1 } == .tooOld)
    #expect(try at { $0.sealTime = ahead + slack + 1 } == .tooNew)
    #expect(try rumor(-(day + slack)) == nil)
    #expect(try rumor(-(day + slack) - 1) == .tooOld)
    #expect(try rumor(slack) == nil)
    #expect(try rumor(slack + 1) == .tooNew)
  }

  @Test("A text in another form than that of the apps' cipher, or with any part changed, is not decrypted")
  func changedText() throws {
    let (sender, recipient) = (try People.key(3), try People.key(7))
    let text = try AppCipher.seal(
      Array("hello".utf8), from: sender, to: recipient.xOnlyKey, nonce: [UInt8](repeating: 1, count: 24))
    let bytes = try Base64URL.decode(text.dropFirst(3))
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 0x10
      let altered = "v2:" + Base64URL.encode(changed)
      #expect(try AppCipher.open(altered, from: sender.xOnlyKey, with: recipient) == nil)
    }
    for altered in ["", "v2:", "v1:" + text.dropFirst(3), text + "=", "v2:" + Base64URL.encode(bytes.prefix(40))] {
      #expect(try AppCipher.open(altered, from: sender.xOnlyKey, with: recipient) == nil)
    }
  }
}

@Suite("NIP-44 encryption")
struct NIP44Tests {
  @Test("NIP-44 conversation keys, payloads and padded lengths are those of the official vectors")
  func vectors() throws {
    let vectors = Vectors.shared.nip44V2OfficialSubset
    for row in vectors.conversationKeys {
      let key = try NIP44.conversationKey(People.key(row[0]), NostrKey(Hex.decode(row[1])))
      #expect(key.withUnsafeBytes { Hex.encode($0) } == row[2])
    }
    for row in vectors.messages {
      let key = SecretBytes(copying: try Hex.decode(row.conversationKey))
      let payload = try NIP44.seal(Array(row.plaintext.utf8), key: key, nonce: Hex.decode(row.nonce))
      #expect(payload == row.payload)
      #expect(try NIP44.open(row.payload, key: key) == Array(row.plaintext.utf8))
    }
    for row in vectors.padding { #expect(NIP44.paddedLength(row[0]) == row[1]) }
    #expect(NIP44.paddedLength(1) == 32)
    #expect(NIP44.paddedLength(NIP44.limit) == 65_536)
  }

  @Test("A NIP-44 payload that was changed, truncated or padded in another way is not decrypted")
  func changed() throws {
    let key = SecretBytes(copying: [UInt8](repeating: 4, count: 32))
    let nonce = [UInt8](repeating: 1, count: 32)
    let payload = try NIP44.seal(Array("hello".utf8), key: key, nonce: nonce)
    let bytes = try Base64.decode(payload)
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 0x10
      let altered = Base64.encode(changed)
      #expect(try NIP44.open(altered, key: key) == nil)
    }
    for altered in ["", "#" + payload, payload + "AAAA", String(payload.dropLast(4))] {
      #expect(try NIP44.open(altered, key: key) == nil)
    }
    #expect(throws: CryptoError.badLength("text", expected: NIP44.limit, got: 0)) {
      try NIP44.seal([], key: key, nonce: nonce)
    }
    let longest = try NIP44.seal([UInt8](repeating: 7, count: NIP44.limit), key: key, nonce: nonce)
    #expect(try NIP44.open(longest, key: key)?.count == NIP44.limit)
  }
}
