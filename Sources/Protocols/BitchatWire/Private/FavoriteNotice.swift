/// Text of a private message that states whether the recipient is a favourite of the sender. Facts: bitchat.md section
/// 5.2. Layout:
///
///     [FAVORITED]:npub1…    [UNFAVORITED]:npub1…    with or without the Nostr key
public struct FavoriteNotice: Hashable, Sendable {
  public let isFavorite: Bool
  /// The sender's Nostr public key, as text; nil if the sender has none.
  public let npub: String?

  public init(isFavorite: Bool, npub: String? = nil) {
    self.isFavorite = isFavorite
    self.npub = npub
  }

  /// Parses the text of a private message. Nil if it is not exactly a notice: the mark, optionally a colon, and
  /// optionally a key after it. A text that only begins like a notice is an ordinary message.
  public init?(text: String) {
    for isFavorite in [true, false] where Self.begins(text, Self.mark(isFavorite)) {
      let rest = text.unicodeScalars.dropFirst(Self.mark(isFavorite).unicodeScalars.count)
      let key = String(rest.dropFirst())
      guard rest.isEmpty || rest.first == ":" && (key.isEmpty || Self.isKey(key)) else { return nil }
      self.init(isFavorite: isFavorite, npub: key.isEmpty ? nil : key)
      return
    }
    return nil
  }

  /// Whether the apps may treat a text as a notice and not show it: they check only its beginning.
  public static func mayBeTaken(_ text: String) -> Bool {
    begins(text, mark(true)) || begins(text, mark(false))
  }

  /// Compares scalars: with characters, a combining mark could hide the bracket.
  private static func begins(_ text: String, _ mark: String) -> Bool {
    text.unicodeScalars.starts(with: mark.unicodeScalars)
  }

  /// Whether the text is a Nostr key in Bech32: `npub1` and 58 characters.
  public static func isKey(_ text: String) -> Bool {
    guard text.utf8.count == 63, text.hasPrefix("npub1") else { return false }
    return text.utf8.dropFirst(5).allSatisfy(Set("qpzry9x8gf2tvdw0s3jn54khce6mua7l".utf8).contains)
  }

  public var text: String { Self.mark(isFavorite) + (npub.map { ":" + $0 } ?? "") }

  private static func mark(_ isFavorite: Bool) -> String { isFavorite ? "[FAVORITED]" : "[UNFAVORITED]" }
}
