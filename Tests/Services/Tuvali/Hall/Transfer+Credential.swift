import Transfers

extension Transfer {
  /// The bytes of the credential; nil where there is none.
  public var credential: [UInt8]? { text.flatMap { try? $0.bytes() } }
}
