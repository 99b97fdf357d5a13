/// The identity of one link with one peer. A number is never used again while the process lives. So a late message of a
/// link that has ended cannot be taken for one of the next link, even if both peers have the same address.
public struct LinkID: Hashable, Sendable, CustomStringConvertible {
  public let number: UInt64

  public init(_ number: UInt64) {
    self.number = number
  }

  public var description: String { "link \(number)" }
}
