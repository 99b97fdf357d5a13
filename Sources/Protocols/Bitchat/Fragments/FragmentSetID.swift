/// Identifies the fragments of one packet. Fragments with a different total belong to a different packet.
public struct FragmentSetID: Hashable, Sendable {
  let sender: PeerID
  let id: FragmentID
  let type: MessageType
  let total: UInt16
}

extension FragmentSetID: Comparable {
  public static func < (left: Self, right: Self) -> Bool {
    (left.sender, left.id.rawValue, left.type.rawValue, left.total)
      < (right.sender, right.id.rawValue, right.type.rawValue, right.total)
  }
}
