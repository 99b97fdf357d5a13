/// A count since the start, with its name on D-Bus, for example `RefusedCalls`.
public struct Tally: Hashable, Sendable {
  public let name: String
  public let count: UInt64

  public init(_ name: String, _ count: some BinaryInteger) {
    self.name = name
    self.count = UInt64(clamping: count)
  }
}
