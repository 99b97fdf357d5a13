import Bytes

/// Splits a private text into fragments that fit a `PrivateMessage`.
public enum PrivateText {
  /// Returns the text in fragments of at most 255 bytes of UTF-8, in order. Splits between characters; only a character
  /// longer than 255 bytes is split between scalars. An empty text gives one empty fragment.
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
