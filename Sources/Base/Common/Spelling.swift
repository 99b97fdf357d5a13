/// Guesses what was meant by a misspelt word.
public enum Spelling {
  /// The candidate nearest to `word`, case aside, if it is near enough to be worth a guess.
  public static func nearest(to word: String, among candidates: [String]) -> String? {
    // Longer words are not worth the time, whoever wrote them.
    guard word.utf8.count <= 40 else { return nil }
    let wanted = Array(word.lowercased().utf8)
    let ranked = candidates.map { ($0, distance(wanted, Array($0.lowercased().utf8))) }
    guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, best.0.utf8.count / 3) else { return nil }
    return best.0
  }

  /// How many bytes have to be inserted, removed, replaced or swapped with their neighbour to get from one to the other.
  private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
    var before: [Int] = []
    var above = Array(0...right.count)
    for (row, byte) in left.enumerated() {
      var current = [row + 1]
      for (column, other) in right.enumerated() {
        var best = min(above[column] + (byte == other ? 0 : 1), above[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
          best = min(best, before[column - 1] + 1)
        }
        current.append(best)
      }
      (before, above) = (above, current)
    }
    return above.last ?? 0
  }
}
