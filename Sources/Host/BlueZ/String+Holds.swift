extension String {
  /// Whether the text contains `part`, compared by bytes. `contains` and `split` with a text argument link the code for regular
  /// expressions, 0.8 MB.
  func holds(_ part: String) -> Bool {
    let (own, part) = (Array(utf8), Array(part.utf8))
    return own.indices.contains { own[$0...].starts(with: part) }
  }
}
