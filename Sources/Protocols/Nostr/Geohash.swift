import Bytes
import Crypto

/// A geohash: an area of the earth as 1 to 12 lower-case characters in base 32. Each further character selects a
/// smaller area. Facts: bitchat.md section 11.
public struct Geohash: Hashable, Sendable, CustomStringConvertible {
  public let text: String

  /// Reads a geohash. Throws `badValue("geohash")` for another length or a character outside the alphabet.
  public init(_ text: some StringProtocol) throws(WireError) {
    let alphabet = "0123456789bcdefghjkmnpqrstuvwxyz".utf8
    guard (1...NostrLimits.geohashCharacters).contains(text.utf8.count), text.utf8.allSatisfy(alphabet.contains) else {
      throw .badValue("geohash")
    }
    self.text = String(text)
  }

  public var description: String { text }

  /// Whether presence is published in the channel of this geohash. For a smaller area it would disclose a person's
  /// position.
  public var hasPresence: Bool { text.utf8.count <= NostrLimits.presenceCharacters }

  /// This machine's key in the channel of this geohash. Keys of different channels cannot be linked without the seed.
  ///
  /// It is the first of 10 candidates that is a valid key: HMAC-SHA256(seed, geohash ‖ number), with the number in four
  /// bytes, big endian, from 0. Facts: bitchat.md section 11.
  ///
  /// - Parameter seed: 32 random bytes of this machine.
  /// - Throws: `unavailable` if the library has no memory for its tables, or if no candidate is valid, which happens
  ///   with a probability below 2^-1000.
  public func key(seed: SecretBytes) throws(CryptoError) -> Secp256k1.PrivateKey {
    for number in 0..<NostrLimits.keyCandidates {
      let message = Array(text.utf8) + withUnsafeBytes(of: number.bigEndian, Array.init)
      do throws(CryptoError) {
        let candidate = HMACSHA256.authenticationCode(for: message, key: seed)
        return try Secp256k1.PrivateKey(SecretBytes(copying: candidate))
      } catch .invalidKey {
        continue
      }
    }
    throw .unavailable("a key for a geohash")
  }
}

/// A text, or the presence of a person, in a geohash channel. Facts: bitchat.md section 11.
///
///     kind     20000 text, 20001 presence
///     tags     ["g", geohash], ["n", nickname] optional, ["t", "teleport"] optional, ["nonce", …] optional (NIP-13)
///     content  the text; empty for presence
public struct ChannelEvent: Hashable, Sendable {
  public let geohash: Geohash
  public let author: NostrKey
  public let time: UnixTime
  /// The text; nil for presence.
  public let text: String?
  public let nickname: String?
  /// Whether the author has marked the text with the tag `teleport`: the author is not in the area of the geohash.
  public let isTeleported: Bool
  public let id: EventID

  /// Reads a verified event.
  ///
  /// - Throws: `wrongKind`, `malformedChannelEvent`.
  public init(_ event: NostrEvent, in channel: Geohash) throws(EventRefusal) {
    let draft = event.draft
    guard draft.tags.contains(where: { $0.count >= 2 && $0[0] == "g" && $0[1] == channel.text }) else {
      throw .malformedChannelEvent
    }
    let nickname = draft.tags.first { $0.count >= 2 && $0[0] == "n" }?[1]
    guard (nickname?.utf8.count ?? 0) <= NostrLimits.nicknameBytes else { throw .malformedChannelEvent }
    switch draft.kind {
    case .channelText:
      guard (1...NostrLimits.channelTextBytes).contains(draft.content.utf8.count) else { throw .malformedChannelEvent }
      text = draft.content
    case .channelPresence:
      guard draft.content.isEmpty else { throw .malformedChannelEvent }
      text = nil
    default: throw .wrongKind
    }
    (geohash, author, time, id) = (channel, draft.author, draft.createdAt, event.id)
    self.nickname = nickname
    isTeleported = draft.tags.contains { $0.count >= 2 && $0[0] == "t" && $0[1] == "teleport" }
  }

  /// The unsigned event of a text in a channel. An empty nickname is left out, as the iOS app does.
  static func text(
    _ text: String, in geohash: Geohash, nickname: String?, isTeleported: Bool, author: NostrKey, at time: UnixTime
  ) -> EventDraft {
    var tags = [["g", geohash.text]]
    if let nickname, !nickname.isEmpty { tags.append(["n", nickname]) }
    if isTeleported { tags.append(["t", "teleport"]) }
    return EventDraft(author: author, createdAt: time, kind: .channelText, tags: tags, content: text)
  }

  /// The unsigned event of a person's presence in a channel. It has no nickname.
  static func presence(in geohash: Geohash, author: NostrKey, at time: UnixTime) -> EventDraft {
    EventDraft(author: author, createdAt: time, kind: .channelPresence, tags: [["g", geohash.text]], content: "")
  }
}
