import Bytes
import Common
import Crypto

/// The form of a private message on relays. Facts: bitchat.md section 11.
public enum EnvelopeDialect: String, CaseIterable, Hashable, Sendable {
  /// The apps' form: the kinds of NIP-59, with `AppCipher` and rules of its own.
  case app
  /// NIP-17, NIP-44 and NIP-59, for other Nostr clients: the seed's form.
  case nip17

  /// The dialect's name in settings and on D-Bus.
  public var name: String {
    switch self {
    case .app: "app"
    case .nip17: "nip17_strict"
    }
  }
}

/// A private message in three events, each inside the next one. Facts: bitchat.md section 11.
///
///     rumor      kind 14, not signed    the text
///     seal       kind 13, no tags       the rumor, encrypted and signed by the sender
///     gift wrap  kind 1059, ["p", …]    the seal, encrypted and signed with a key that is used once
///
/// A relay sees the wrap: the recipient, an approximate time, and a size. The wrap does not name the sender. The
/// connection that publishes it also subscribes for the sender's key, so that a relay can still conclude who sends.
public enum PrivateEnvelope {
  /// Encloses a text in a rumor, a seal and a gift wrap.
  ///
  /// The times of the seal and the wrap have random offsets, so that a relay cannot match them with observations of the
  /// radio. An offset has up to 15 min in either direction in the app's form, and up to 2 days into the past by NIP-59.
  ///
  /// - Parameters:
  ///   - text: 1 to `NostrLimits.contentBytes` bytes.
  ///   - sentAt: the time of the message, which the recipient sees.
  ///   - now: the present time, from which the offsets count.
  /// - Throws: `badLength` for a text of another length; the errors of the keys.
  public static func wrap(
    _ text: String, to recipient: NostrKey, from key: Secp256k1.PrivateKey, dialect: EnvelopeDialect,
    sentAt: UnixTime, now: UnixTime, randomFrom random: inout some RandomSource
  ) throws(CryptoError) -> NostrEvent {
    guard (1...NostrLimits.contentBytes).contains(text.utf8.count) else {
      throw .badLength("private text", expected: NostrLimits.contentBytes, got: text.utf8.count)
    }
    let rumor = EventDraft(
      author: key.xOnlyKey, createdAt: sentAt, kind: .privateMessage,
      tags: dialect == .app ? [] : [["p", recipient.hex]], content: text)
    let seal = EventDraft(
      author: key.xOnlyKey, createdAt: jittered(now, dialect, &random), kind: .seal,
      content: try encrypt(rumorJSON(rumor, dialect), to: recipient, from: key, dialect, &random))
    let signedSeal = try seal.signed(with: key, randomFrom: &random)
    let once = try Secp256k1.PrivateKey(randomFrom: &random)
    let wrap = EventDraft(
      author: once.xOnlyKey, createdAt: jittered(now, dialect, &random), kind: .giftWrap,
      tags: [["p", recipient.hex]],
      content: try encrypt(signedSeal.jsonBytes, to: recipient, from: once, dialect, &random))
    return try wrap.signed(with: once, randomFrom: &random)
  }

  /// The iOS app gives a rumor an empty ID, and NIP-17 requires the right one.
  private static func rumorJSON(_ rumor: EventDraft, _ dialect: EnvelopeDialect) -> [UInt8] {
    var text = JSONText(controls: .escaped)
    let id = dialect == .app ? "" : EventID(hashing: rumor.canonicalJSON(.escaped)).hex
    text.event(rumor, id: id, signature: nil)
    return text.bytes
  }

  private static func encrypt(
    _ text: [UInt8], to recipient: NostrKey, from key: Secp256k1.PrivateKey, _ dialect: EnvelopeDialect,
    _ random: inout some RandomSource
  ) throws(CryptoError) -> String {
    switch dialect {
    case .app:
      return try AppCipher.seal(text, from: key, to: recipient, nonce: random.bytes(XChaChaPoly.nonceSize))
    case .nip17:
      let conversation = try NIP44.conversationKey(key, recipient)
      return try NIP44.seal(text, key: conversation, nonce: random.bytes(NIP44.nonceSize))
    }
  }

  private static func jittered(
    _ now: UnixTime, _ dialect: EnvelopeDialect, _ random: inout some RandomSource
  ) -> UnixTime {
    switch dialect {
    case .app:
      let span = NostrLimits.appJitter.components.seconds
      return now.advanced(by: .seconds(random.number(in: -span...span)))
    case .nip17:
      let span = NostrLimits.nip59Jitter.components.seconds
      return now.advanced(by: .seconds(-random.number(in: 0...span)))
    }
  }

  /// The key and the settings with which this machine opens envelopes.
  public struct Reader: Sendable {
    public var key: Secp256k1.PrivateKey
    /// The forms that are accepted.
    public var dialects: Set<EnvelopeDialect>

    public init(key: Secp256k1.PrivateKey, dialects: Set<EnvelopeDialect> = [.app]) {
      (self.key, self.dialects) = (key, dialects)
    }
  }

  /// Opens a verified gift wrap, and checks every rule of its form.
  ///
  /// The text between the two decryptions names the sender: `isContact` then decides whether the rest is decrypted.
  ///
  /// - Throws: the reason; `EventRefusal` has one for each rule.
  public static func open(
    _ wrap: NostrEvent, by reader: Reader, now: UnixTime, isContact: (NostrKey) -> Bool
  ) throws(EventRefusal) -> OpenedMessage {
    let dialect = try check(wrap.draft, for: reader, now: now)
    guard let sealBytes = try decrypt(wrap.draft, reader.key, dialect) else { throw .wrapNotOpened }
    let seal = try openedSeal(sealBytes, dialect, accepted: reader.dialects, now: now)
    let sender = seal.draft.author
    guard sender != reader.key.xOnlyKey else { throw .ownMessage }
    guard isContact(sender) else { throw .stranger }
    guard let rumorBytes = try decrypt(seal.draft, reader.key, dialect) else { throw .sealNotOpened }
    let rumor = try openedRumor(rumorBytes, of: sender, for: reader.key.xOnlyKey, dialect, now: now)
    return OpenedMessage(
      text: rumor.content, sender: sender, sentAt: rumor.createdAt, dialect: dialect, id: rumor.id, wrap: wrap.id)
  }

  /// The form of an encrypted text, by its beginning: "v2:", or base64 of the version octet 02.
  private static func dialect(
    of content: String, accepted: Set<EnvelopeDialect>
  ) throws(EventRefusal) -> EnvelopeDialect {
    let dialect: EnvelopeDialect = content.utf8.starts(with: AppCipher.mark.utf8) ? .app : .nip17
    guard accepted.contains(dialect) else { throw .otherForm }
    return dialect
  }

  private static func decrypt(
    _ event: EventDraft, _ key: Secp256k1.PrivateKey, _ dialect: EnvelopeDialect
  ) throws(EventRefusal) -> [UInt8]? {
    do throws(CryptoError) {
      switch dialect {
      case .app: return try AppCipher.open(event.content, from: event.author, with: key)
      case .nip17: return try NIP44.open(event.content, key: try NIP44.conversationKey(key, event.author))
      }
    } catch {
      throw .failed
    }
  }

  // MARK: The rules of the three events

  /// Checks the rules for a gift wrap that can be verified without the recipient's key.
  @discardableResult
  static func check(
    _ wrap: EventDraft, for reader: Reader, now: UnixTime
  ) throws(EventRefusal) -> EnvelopeDialect {
    guard wrap.kind == .giftWrap else { throw .wrongKind }
    let dialect = try dialect(of: wrap.content, accepted: reader.dialects)
    try checkTime(wrap.createdAt, jitter: NostrLimits.nip59Jitter, now: now)
    let own = reader.key.xOnlyKey
    switch dialect {
    case .app: guard wrap.tags == [["p", own.hex]] else { throw .wrapTags }
    case .nip17: guard namesOnly(own, wrap.tags) else { throw .wrapTags }
    }
    return dialect
  }

  private static func openedSeal(
    _ bytes: [UInt8], _ dialect: EnvelopeDialect, accepted: Set<EnvelopeDialect>, now: UnixTime
  ) throws(EventRefusal) -> NostrEvent {
    guard let received = try? ReceivedEvent(json: bytes), received.draft.kind == .seal else { throw .malformedSeal }
    guard received.draft.tags.isEmpty else { throw .sealTags }
    guard let seal = try? received.verified() else { throw .sealNotSigned }
    try checkTime(seal.draft.createdAt, jitter: NostrLimits.nip59Jitter, now: now)
    // Seal and wrap must have the same dialect, because no client mixes them.
    guard try Self.dialect(of: seal.draft.content, accepted: accepted) == dialect else { throw .otherForm }
    return seal
  }

  private static func openedRumor(
    _ bytes: [UInt8], of sender: NostrKey, for own: NostrKey, _ dialect: EnvelopeDialect, now: UnixTime
  ) throws(EventRefusal) -> (content: String, createdAt: UnixTime, id: EventID) {
    guard let members = try? EventReader.members(bytes), let rumor = try? members.draft(),
      rumor.kind == .privateMessage
    else { throw .malformedRumor }
    guard members.signature == nil || members.signature == "" else { throw .rumorSigned }
    guard rumor.author == sender else { throw .otherAuthor }
    let claimed = members.id ?? ""
    let id: EventID
    if claimed.isEmpty, dialect == .app {
      id = rumor.id
    } else {
      guard let read = EventID(hex: claimed), rumor.hasID(read) else { throw .rumorID }
      id = read
    }
    switch dialect {
    case .app: guard rumor.tags.isEmpty || rumor.tags == [["p", own.hex]] else { throw .rumorTags }
    case .nip17: guard namesOnly(own, rumor.tags) else { throw .rumorTags }
    }
    guard (1...NostrLimits.contentBytes).contains(rumor.content.utf8.count) else { throw .contentLength }
    try checkTime(rumor.createdAt, jitter: .zero, now: now)
    return (rumor.content, rumor.createdAt, id)
  }

  /// Whether the tags name this machine as the only recipient. Other clients may add a relay to the tag `p`, and other
  /// tags.
  private static func namesOnly(_ own: NostrKey, _ tags: [[String]]) -> Bool {
    let recipients = tags.filter { $0.first == "p" }
    return recipients.count == 1 && recipients[0].count >= 2 && recipients[0][1] == own.hex
  }

  /// Checks a time against the window: 24 h and the offset into the past, the offset of the apps into the future.
  private static func checkTime(_ time: UnixTime, jitter: Duration, now: UnixTime) throws(EventRefusal) {
    let tolerance = NostrLimits.clockTolerance
    let ahead = jitter == .zero ? .zero : NostrLimits.appJitter
    guard time >= now.advanced(by: .zero - NostrLimits.lookback - jitter - tolerance) else { throw .tooOld }
    guard time <= now.advanced(by: ahead + tolerance) else { throw .tooNew }
  }
}

/// A private message from an opened envelope whose three events fulfil all rules.
public struct OpenedMessage: Hashable, Sendable {
  /// The text: an embedded packet in its text form, or the text that another Nostr client has written.
  public let text: String
  public let sender: NostrKey
  /// The time of the message, by the sender's clock.
  public let sentAt: UnixTime
  public let dialect: EnvelopeDialect
  /// The ID of the rumor. Copies of a message with equal times have equal IDs.
  public let id: EventID
  /// The ID of the gift wrap.
  public let wrap: EventID
}

extension OpenedMessage: CustomStringConvertible, CustomReflectable {
  public var description: String { "<private message>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
