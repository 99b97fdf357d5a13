/// Suggests the intended word for a misspelt one.
public enum Spelling {
  /// Maximum bytes of a word: a comparison of longer words takes too long.
  private static let longestWord = 40

  /// The candidate nearest to `word`, ignoring case. Nil if the nearest needs more than one edit and more than a third
  /// of its length.
  public static func nearest(to word: String, among candidates: [String]) -> String? {
    guard word.utf8.count <= longestWord else { return nil }
    let wanted = Array(word.lowercased().utf8)
    let ranked = candidates.map { ($0, distance(wanted, Array($0.lowercased().utf8))) }
    guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, best.0.utf8.count / 3) else { return nil }
    return best.0
  }

  /// Number of bytes to insert, remove, replace or swap with their neighbour to change one word into the other.
  private static func distance(_ word: [UInt8], _ candidate: [UInt8]) -> Int {
    var before: [Int] = []
    var above = Array(0...candidate.count)
    for (row, byte) in word.enumerated() {
      var current = [row + 1]
      for (column, other) in candidate.enumerated() {
        var best = min(above[column] + (byte == other ? 0 : 1), above[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, byte == candidate[column - 1], word[row - 1] == other {
          best = min(best, before[column - 1] + 1)
        }
        current.append(best)
      }
      (before, above) = (above, current)
    }
    return above.last ?? 0
  }
}
