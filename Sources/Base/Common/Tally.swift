/// A count of something that happened since the start, with the name that it has on D-Bus: `RefusedCalls`.
public struct Tally: Hashable, Sendable {
  public let name: String
  public let count: UInt64

  public init(_ name: String, _ count: some BinaryInteger) {
    self.name = name
    self.count = UInt64(clamping: count)
  }
}
