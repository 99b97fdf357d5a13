import CSodium

/// The operating system's generator.
public struct SystemRandom: RandomSource, Sendable {
  public init() {
    Sodium.start()
  }

  public mutating func fill(_ bytes: inout [UInt8]) {
    randombytes_buf(&bytes, bytes.count)
  }
}
