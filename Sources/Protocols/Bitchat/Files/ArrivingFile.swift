/// A file of which some fragments have arrived. Its name and its size are known when all have.
///
/// Nobody signs fragments. So whether the file is what it seems, and of whom, is known when it is complete as well.
public struct ArrivingFile: Hashable, Sendable {
  /// The fragments that it arrives in.
  public let id: FragmentSetID
  /// The sender that the fragments name, a peer that is known.
  public let sender: PeerID
  public let nickname: String
  /// Whether it is for this node alone, inside a session.
  public let isPrivate: Bool
  /// Hundredths of its fragments that have arrived, below 100.
  public let percent: Int
}

extension ArrivingFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "\(percent) % of a file" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
