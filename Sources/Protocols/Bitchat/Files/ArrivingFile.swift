/// An incoming file of which some fragments have arrived. Its name and size are known when all have arrived.
///
/// Fragments are not signed. Whether the packet is a file, and who sent it, is confirmed only when the file is
/// complete.
public struct ArrivingFile: Hashable, Sendable {
  /// Identifies the fragments of the file.
  public let id: FragmentSetID
  /// The sender that the fragments name; a known peer.
  public let sender: PeerID
  public let nickname: String
  /// Whether the file is for this node alone, inside a session.
  public let isPrivate: Bool
  /// Percentage of its fragments that have arrived, below 100.
  public let percent: Int
}

extension ArrivingFile: CustomStringConvertible, CustomReflectable {
  public var description: String { "\(percent) % of a file" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
