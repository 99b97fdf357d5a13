/// The source of an engine's randomness: the system's generator in a service, a seeded generator in tests.
public protocol RandomSource {
  /// Overwrites every byte of the array.
  mutating func fill(_ bytes: inout [UInt8])
}

extension RandomSource {
  /// `count` random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    fill(&bytes)
    return bytes
  }
}
