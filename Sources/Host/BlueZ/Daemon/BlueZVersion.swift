/// A release of BlueZ. bluetoothd does not report its own release over D-Bus.
public struct BlueZVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
  public var major: Int
  public var minor: Int

  public init(_ major: Int, _ minor: Int) {
    self.major = major
    self.minor = minor
  }

  /// Parses `5.66`, also with a distribution's suffix (`5.66-1+deb12u2`); nil for anything else.
  public init?(_ text: String) {
    let parts = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }.split(
      separator: ".", omittingEmptySubsequences: false)
    guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
    self.init(major, minor)
  }

  public var description: String { "\(major).\(minor)" }

  public static func < (left: BlueZVersion, right: BlueZVersion) -> Bool {
    (left.major, left.minor) < (right.major, right.minor)
  }
}
