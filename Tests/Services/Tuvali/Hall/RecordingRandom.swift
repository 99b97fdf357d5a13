import Common
import Crypto

/// Random bytes from a seed that remembers what it handed out: private keys and nonces, for a test that looks for them
/// where they must not be. Its copies share the memory, and each begins anew.
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

  /// All that was handed out with so many bytes at a time, in order.
  public func drawn(_ count: Int) -> [[UInt8]] {
    record.withLock { $0.filter { $0.count == count } }
  }
}
