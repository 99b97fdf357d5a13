/// Which nonces were received, as far as the 1,024 newest ones.
///
/// A nonce that is 1,024 or more below the highest is too old: it counts as received.
struct ReplayWindow: Hashable, Sendable {
  /// How many nonces are remembered, the highest one among them.
  static let size: UInt32 = 1024
  /// What a nonce may be ahead of the highest, plus one.
  static let jumpLimit: UInt32 = 1 << 31

  /// One bit for each nonce, in words of 64. One word more than the window has bits for: the highest nonce may stand
  /// anywhere in its word, and all 1,024 have to be there.
  private var words = [UInt64](repeating: 0, count: wordCount)
  private var highest: UInt32?

  private static let wordCount = Int(size / 64) + 1

  enum Verdict: Hashable, Sendable {
    case fresh, replayed, tooOld, jump
  }

  /// What there is to say of a nonce; nothing is remembered.
  func verdict(on nonce: UInt32) -> Verdict {
    // Nobody may use the last one, so nobody did.
    guard nonce != .max else { return .jump }
    guard let highest else { return nonce < Self.jumpLimit ? .fresh : .jump }
    if nonce > highest { return nonce - highest < Self.jumpLimit ? .fresh : .jump }
    if highest - nonce >= Self.size { return .tooOld }
    let (word, bit) = Self.place(of: nonce)
    return words[word] & bit == 0 ? .fresh : .replayed
  }

  /// Remembers a nonce on which the verdict was `fresh`.
  mutating func insert(_ nonce: UInt32) {
    if let highest, nonce > highest {
      // The words between were of nonces that are too old now. After a jump over all of them each is emptied once.
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
