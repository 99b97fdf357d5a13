import Bytes

/// A private text of any length, in pieces that a `PrivateMessage` can carry.
public enum PrivateText {
  /// The text in pieces of at most 255 bytes of UTF-8, in their order. A cut is between two characters; only a character that
  /// is longer than a piece is cut between two of its scalars. An empty text is one empty piece.
  ///
  /// Throws `tooLong` over 65,536 bytes.
  public static func pieces(of text: String) throws(WireError) -> [String] {
    guard text.utf8.count <= Limits.privateTextBytes else {
      throw .tooLong(field: "text", limit: Limits.privateTextBytes)
    }
    var pieces: [String] = []
    var piece = ""
    var count = 0
    func add(_ part: String, _ bytes: Int) {
      if count + bytes > Limits.shortValueBytes {
        pieces.append(piece)
        (piece, count) = ("", 0)
      }
      piece += part
      count += bytes
    }
    for character in text {
      let bytes = character.utf8.count
      if bytes <= Limits.shortValueBytes {
        add(String(character), bytes)
      } else {
        for scalar in character.unicodeScalars { add(String(scalar), UTF8.width(scalar)) }
      }
    }
    return pieces + [piece]
  }
}
