import Glibc

/// A node's position, in metres.
public struct AirPosition: Hashable, Sendable {
  public var x: Double
  public var y: Double
  public var z: Double

  public init(x: Double = 0, y: Double = 0, z: Double = 0) {
    self.x = x
    self.y = y
    self.z = z
  }

  public func distance(to other: AirPosition) -> Double {
    let (dx, dy, dz) = (x - other.x, y - other.y, z - other.z)
    return (dx * dx + dy * dy + dz * dz).squareRoot()
  }

  /// The RSSI at `other` in dBm: -59 dBm at one metre, 20 dB less per tenfold distance.
  func rssi(at other: AirPosition) -> Int {
    let metres = max(0.1, min(distance(to: other), 1e6))
    return Int((-59 - 20 * log10(metres)).rounded())
  }
}
