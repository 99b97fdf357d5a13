/// The record of received nonces, for the 1,024 newest.
///
/// A nonce that is 1,024 or more below the highest counts as received.
struct ReplayWindow: Hashable, Sendable {
  /// Number of nonces that are remembered, including the highest.
  static let size: UInt32 = 1024
  /// Smallest distance above the highest nonce that is refused as a jump.
  static let jumpLimit: UInt32 = 1 << 31

  /// One bit for each nonce, in words of 64. There is one more word than 1,024 bits need, because the highest nonce can
  /// have any position in its word.
  private var words = [UInt64](repeating: 0, count: wordCount)
  private var highest: UInt32?

  private static let wordCount = Int(size / 64) + 1

  enum Verdict: Hashable, Sendable {
    case fresh, replayed, tooOld, jump
  }

  /// Classifies a nonce without recording it.
  func verdict(on nonce: UInt32) -> Verdict {
    // The last nonce is reserved.
    guard nonce != .max else { return .jump }
    guard let highest else { return nonce < Self.jumpLimit ? .fresh : .jump }
    if nonce > highest { return nonce - highest < Self.jumpLimit ? .fresh : .jump }
    if highest - nonce >= Self.size { return .tooOld }
    let (word, bit) = Self.place(of: nonce)
    return words[word] & bit == 0 ? .fresh : .replayed
  }

  /// Records a nonce with the verdict `fresh`.
  mutating func insert(_ nonce: UInt32) {
    if let highest, nonce > highest {
      // The words in between belonged to nonces that are now too old. A jump over all of them clears each word once.
      let (from, to) = (Int(highest / 64), Int(nonce / 64))
      for word in from..<min(to, from + Self.wordCount) { words[(word + 1) % Self.wordCount] = 0 }
    }
    highest = max(nonce, highest ?? nonce)
    let (word, bit) = Self.place(of: nonce)
    words[word] |= bit
  }

  private static func place(of nonce: UInt32) -> (word: Int, bit: UInt64) {
    (Int(nonce / 64) % wordCount, 1 << UInt64(nonce % 64))
  }
}
