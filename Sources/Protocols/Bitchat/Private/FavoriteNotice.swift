/// The text of a private message by which a peer says that somebody is, or is no longer, a favourite of its. Facts: bitchat.md
/// section 5.2. Layout:
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

  /// Reads the text of a private message; nil if it is no notice. Something behind a second colon is passed over.
  public init?(text: String) {
    // Over scalars: among characters, a combining mark could hide the bracket.
    let scalars = text.unicodeScalars
    for isFavorite in [true, false] where scalars.starts(with: Self.mark(isFavorite).unicodeScalars) {
      let rest = scalars.dropFirst(Self.mark(isFavorite).unicodeScalars.count)
      guard rest.isEmpty || rest.first == ":" else { continue }
      let key = String(rest.dropFirst().prefix { $0 != ":" })
      self.init(isFavorite: isFavorite, npub: key.isEmpty ? nil : key)
      return
    }
    return nil
  }

  public var text: String { Self.mark(isFavorite) + (npub.map { ":" + $0 } ?? "") }

  private static func mark(_ isFavorite: Bool) -> String { isFavorite ? "[FAVORITED]" : "[UNFAVORITED]" }
}
