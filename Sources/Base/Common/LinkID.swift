/// The identity of one link with one peer. A number is never reused while the process runs. A late message of a link
/// that has ended cannot be attributed to the next link, even if both peers have the same address.
public struct LinkID: Hashable, Sendable, CustomStringConvertible {
  public let number: UInt64

  public init(_ number: UInt64) {
    self.number = number
  }

  public var description: String { "link \(number)" }
}
