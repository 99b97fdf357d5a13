import BitchatWire
import Common
import Crypto

/// Verifies each signature once for all nodes. A signature made by a node of the field counts as valid. Concurrent
/// look-ups of one signature may both compute.
///
/// Recent results are cached in two generations: when the younger one is full, the older one is dropped.
public final class SharedSignatures: SignatureChecking {
  private struct Answers: Sendable {
    var younger: [KeyedHash.Value: Bool] = [:]
    var older: [KeyedHash.Value: Bool] = [:]
    var asked = 0
    var computed = 0
  }

  private static let generation = 1 << 18
  private let answers = Locked(Answers())
  private let hash: KeyedHash

  public init() {
    var random = SystemRandom()
    hash = KeyedHash(randomFrom: &random)
  }

  /// Number of look-ups, and of computed results.
  public var counts: (asked: Int, computed: Int) { answers.withLock { ($0.asked, $0.computed) } }

  public func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool {
    let question = hash(signature, message, key)
    let known: Bool? = answers.withLock { answers in
      answers.asked += 1
      if let answer = answers.younger[question] { return answer }
      guard let answer = answers.older[question] else { return nil }
      Self.remember(answer, of: question, in: &answers)
      return answer
    }
    if let known { return known }
    let answer = key.verify(signature, of: message)
    answers.withLock { answers in
      answers.computed += 1
      Self.remember(answer, of: question, in: &answers)
    }
    return answer
  }

  public func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey) {
    let question = hash(signature[...], message, key)
    answers.withLock { Self.remember(true, of: question, in: &$0) }
  }

  private static func remember(_ answer: Bool, of question: KeyedHash.Value, in answers: inout Answers) {
    if answers.younger.count >= generation { (answers.older, answers.younger) = (answers.younger, [:]) }
    answers.younger[question] = answer
  }

  private func hash(
    _ signature: ArraySlice<UInt8>, _ message: [UInt8], _ key: Ed25519.PublicKey
  ) -> KeyedHash.Value {
    key.withBytes { key in
      let count = signature.count + key.count + message.count
      return withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { buffer in
        var place = 0
        func put(_ bytes: some Collection<UInt8>) {
          UnsafeMutableRawBufferPointer(rebasing: buffer[place..<place + bytes.count]).copyBytes(from: bytes)
          place += bytes.count
        }
        put(signature)
        put(key)
        put(message)
        return hash.hash(UnsafeRawBufferPointer(buffer))
      }
    }
  }
}
