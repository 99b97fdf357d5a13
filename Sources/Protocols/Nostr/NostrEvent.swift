import Bytes
import Common
import Crypto

/// A public key of Nostr: the X coordinate of a point (NIP-01).
public typealias NostrKey = Secp256k1.XOnlyKey

extension Secp256k1.XOnlyKey {
  /// The key as 64 hexadecimal digits, as events have it.
  public var hex: String { Hex.encode(bytes) }

  /// The key in the form for people: `npub1` followed by 58 characters (NIP-19).
  public var npub: String { Bech32.encode(bytes, prefix: "npub") }

  /// Reads an `npub`.
  ///
  /// - Throws: `badValue("npub")` for any other text, a wrong checksum, or a coordinate of no point.
  public init(npub text: some StringProtocol) throws(WireError) {
    do {
      try self.init(try Bech32.decode(text, prefix: "npub"))
    } catch {
      throw .badValue("npub")
    }
  }

  /// Reads 64 hexadecimal digits in lower case; nil for any other text, or the coordinate of no point.
  init?(hex text: String) {
    guard let bytes = LowerHex.decode(text, count: Self.size), let key = try? Self(bytes) else { return nil }
    self = key
  }
}

/// A time of events: whole seconds since 1970-01-01 UTC, by the sender's clock.
public struct UnixTime: Hashable, Comparable, Sendable {
  public let seconds: Int64

  public init(seconds: Int64) { self.seconds = seconds }

  public func advanced(by duration: Duration) -> UnixTime {
    let (sum, overflow) = seconds.addingReportingOverflow(duration.components.seconds)
    return UnixTime(seconds: overflow ? (duration < .zero ? .min : .max) : sum)
  }

  public static func < (first: UnixTime, second: UnixTime) -> Bool { first.seconds < second.seconds }
}

/// The kind of an event (NIP-01). Facts: bitchat.md section 11.
public struct EventKind: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16

  public init(rawValue: UInt16) { self.rawValue = rawValue }

  /// A rumor's encrypted form, signed by its author (NIP-59).
  public static let seal = EventKind(rawValue: 13)
  /// A private message, which is never published unencrypted (NIP-17).
  public static let privateMessage = EventKind(rawValue: 14)
  /// A seal's encrypted form, signed with a key that is used once (NIP-59).
  public static let giftWrap = EventKind(rawValue: 1059)
  /// A text in a geohash channel.
  public static let channelText = EventKind(rawValue: 20000)
  /// The presence of a person in a geohash channel.
  public static let channelPresence = EventKind(rawValue: 20001)
}

/// The ID of an event: the SHA-256 of its canonical JSON (NIP-01), 32 bytes.
public struct EventID: Hashable, Sendable, CustomStringConvertible {
  public static let size = 32

  /// The hash, 32 bytes.
  public let bytes: [UInt8]

  init(hashing json: [UInt8]) { bytes = SHA256.hash(json) }

  /// A stored ID; nil if there are not 32 bytes.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.size else { return nil }
    self.bytes = Array(bytes)
  }

  /// Reads 64 hexadecimal digits in lower case; nil for any other text.
  init?(hex text: String) {
    guard let bytes = LowerHex.decode(text, count: Self.size) else { return nil }
    self.bytes = bytes
  }

  /// The ID as 64 lower-case hexadecimal digits.
  public var hex: String { Hex.encode(bytes) }
  public var description: String { hex }
}

/// The content of an event, without its signature.
public struct EventDraft: Hashable, Sendable {
  public var author: NostrKey
  public var createdAt: UnixTime
  public var kind: EventKind
  public var tags: [[String]]
  public var content: String

  public init(
    author: NostrKey, createdAt: UnixTime, kind: EventKind, tags: [[String]] = [], content: String
  ) {
    (self.author, self.createdAt, self.kind, self.tags, self.content) = (author, createdAt, kind, tags, content)
  }

  /// The ID of this event by NIP-01: the hash of its canonical JSON.
  public var id: EventID { EventID(hashing: canonicalJSON(.verbatim)) }

  /// The JSON whose hash is the ID, without white space:
  ///
  ///     [0,"author",created_at,kind,tags,"content"]
  ///
  /// - Parameter controls: the form of control characters that have no short escape. NIP-01 wants them verbatim, which
  ///   is not JSON; the apps' libraries escape them.
  func canonicalJSON(_ controls: JSONText.Controls) -> [UInt8] {
    var text = JSONText(controls: controls)
    text.raw("[0,")
    text.string(author.hex)
    text.raw(",\(createdAt.seconds),\(kind.rawValue),")
    text.lists(tags)
    text.raw(",")
    text.string(content)
    text.raw("]")
    return text.bytes
  }

  /// Signs the draft.
  ///
  /// - Parameter key: the author's key.
  /// - Throws: the errors of `Secp256k1.PrivateKey.sign`.
  public func signed(
    with key: Secp256k1.PrivateKey, randomFrom random: inout some RandomSource
  ) throws(CryptoError) -> NostrEvent {
    // The form that JSON libraries produce is the one that the apps verify. For text without control characters both
    // forms are equal.
    let id = EventID(hashing: canonicalJSON(.escaped))
    return NostrEvent(draft: self, id: id, signature: try key.sign(hash: id.bytes, randomFrom: &random))
  }
}

/// A signed event whose ID and signature are correct: an event that this machine signed, or a received one that was
/// verified.
public struct NostrEvent: Hashable, Sendable {
  public let draft: EventDraft
  public let id: EventID
  /// The BIP-340 signature of the ID, 64 bytes.
  public let signature: [UInt8]

  fileprivate init(draft: EventDraft, id: EventID, signature: [UInt8]) {
    (self.draft, self.id, self.signature) = (draft, id, signature)
  }

  /// The event as JSON, in the form that relays take.
  public var json: String { String(decoding: jsonBytes, as: UTF8.self) }

  var jsonBytes: [UInt8] {
    var text = JSONText(controls: .escaped)
    text.event(draft, id: id.hex, signature: Hex.encode(signature))
    return text.bytes
  }
}

/// A well-formed event from a relay or an envelope. Its ID and signature are not verified yet.
public struct ReceivedEvent: Hashable, Sendable {
  public let draft: EventDraft
  public let claimedID: EventID
  /// The BIP-340 signature of the ID, 64 bytes.
  public let signature: [UInt8]

  init(draft: EventDraft, claimedID: EventID, signature: [UInt8]) {
    (self.draft, self.claimedID, self.signature) = (draft, claimedID, signature)
  }

  /// Reads an event from JSON.
  ///
  /// - Throws: `eventTooLong`, or `malformedEvent` for bytes that are not the JSON of an event.
  public init(json bytes: [UInt8]) throws(EventRefusal) {
    self = try EventReader.event(bytes)
  }

  /// Checks the ID, then the signature, which takes longer.
  ///
  /// - Throws: `wrongID`, `wrongSignature`.
  public func verified() throws(EventRefusal) -> NostrEvent {
    guard draft.hasID(claimedID) else { throw .wrongID }
    guard draft.author.hasSigned(claimedID.bytes, signature: signature) else { throw .wrongSignature }
    return NostrEvent(draft: draft, id: claimedID, signature: signature)
  }
}

extension EventDraft {
  /// Whether the ID is that of this draft, with either form of control characters.
  func hasID(_ claimed: EventID) -> Bool {
    let verbatim = canonicalJSON(.verbatim)
    if EventID(hashing: verbatim) == claimed { return true }
    let escaped = canonicalJSON(.escaped)
    return escaped.count != verbatim.count && EventID(hashing: escaped) == claimed
  }
}

/// Parses hexadecimal digits as NIP-01 requires them: in lower case, and exactly as many as the field has.
enum LowerHex {
  static func decode(_ text: String, count: Int) -> [UInt8]? {
    guard text.utf8.count == 2 * count,
      text.utf8.allSatisfy({
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      })
    else { return nil }
    return try? Hex.decode(text)
  }
}

extension NostrEvent: CustomStringConvertible, CustomReflectable {
  /// The event ID only, because event content must not appear in logs.
  public var description: String { "event \(id)" }
  public var customMirror: Mirror { Mirror(self, children: ["id": id.hex]) }
}

extension EventDraft: CustomStringConvertible, CustomReflectable {
  /// The event kind only, because the content may be a private text and must not appear in logs.
  public var description: String { "event of kind \(kind.rawValue)" }
  public var customMirror: Mirror { Mirror(self, children: ["kind": kind.rawValue]) }
}
