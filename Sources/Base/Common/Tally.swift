/// How often something happened since the start, under the name that it has on D-Bus: `SilentLinks`.
public struct Tally: Hashable, Sendable {
  public let name: String
  public let count: UInt64

  public init(_ name: String, _ count: some BinaryInteger) {
    self.name = name
    self.count = UInt64(clamping: count)
  }
}
