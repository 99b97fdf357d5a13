import Crypto
import Synchronization

/// Random bytes from a seed that remembers what it handed out: private keys and nonces, for a test that looks for them
/// where they must not be. Its copies share the memory, and each begins anew.
public struct RecordingRandom: RandomSource, Sendable {
  private var source: SeededRandom
  private let record: Record

  public init(seed: UInt64) {
    source = SeededRandom(seed: seed)
    record = Record()
  }

  public mutating func fill(_ bytes: inout [UInt8]) {
    source.fill(&bytes)
    let drawn = bytes
    record.drawn.withLock { _ = $0.insert(drawn) }
  }

  /// All that was handed out with so many bytes at a time.
  public func drawn(_ count: Int) -> [[UInt8]] {
    record.drawn.withLock { $0.filter { $0.count == count } }
  }

  private final class Record: Sendable {
    let drawn = Mutex<Set<[UInt8]>>([])
  }
}
