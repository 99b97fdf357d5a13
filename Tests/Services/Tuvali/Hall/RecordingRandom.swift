import Common
import Crypto

/// A seeded random source that records its output: private keys and nonces, for a test that searches for leaked
/// secrets. Copies share the record, and each restarts the sequence.
public struct RecordingRandom: RandomSource, Sendable {
  private var source: SeededRandom
  private let record = Locked<[[UInt8]]>([])

  public init(seed: UInt64) {
    source = SeededRandom(seed: seed)
  }

  public mutating func fill(_ bytes: inout [UInt8]) {
    source.fill(&bytes)
    let drawn = bytes
    record.withLock { $0.append(drawn) }
  }

  /// All values of this number of bytes, in order.
  public func drawn(_ count: Int) -> [[UInt8]] {
    record.withLock { $0.filter { $0.count == count } }
  }
}
