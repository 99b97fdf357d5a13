/// One connection with one peer. A number is never used again while the process lives, so what is left over from a
/// link that ended cannot be taken for the next one, though it came from the same address.
public struct LinkID: Hashable, Sendable, CustomStringConvertible {
  public let number: UInt64

  public init(_ number: UInt64) {
    self.number = number
  }

  public var description: String { "link \(number)" }
}
