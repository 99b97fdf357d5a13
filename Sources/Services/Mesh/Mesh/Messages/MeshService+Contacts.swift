import Bitchat
import Common
import Loop
import MeshStore

/// Stores the names of peers that have sent or received messages or files, so that they stay known after they leave.
extension MeshService {
  /// Maximum peers per minute that are newly stored because of public messages: anybody can invent identities.
  static let writersPerMinute = 60

  /// Records a contact with a peer.
  ///
  /// - Parameter nickname: name received with the message, for a peer that has left since.
  func noteContact(_ peer: PeerID, _ contact: PeerMarks.Contacts, nickname: String = "") {
    guard peer != ownID, marks[peer]?.contacts.isSuperset(of: contact) != true else { return }
    if marks[peer] == nil, contact == .wrotePublicly, !writersNoted.allow(true, at: scheduler.now) { return }
    mark(peer) {
      $0.contacts.formUnion(contact)
      if $0.nickname.isEmpty { $0.nickname = nickname }
      if $0.seenAt == 0 { $0.seenAt = time }
    }
  }

  /// Makes room for one more peer. At the limit, the peer of the lowest rank is evicted that was not seen for the
  /// longest time, unless its rank is higher than the new one's.
  ///
  /// - Returns: whether there is room.
  func makePlace(for new: PeerMarks) -> Bool {
    guard marks.count >= Self.marksLimit else { return true }
    let others = marks.values.filter { $0.rank != .chosen && $0.rank <= new.rank }
    guard let last = others.min(by: { ($0.rank, $0.seenAt, $0.peer) < ($1.rank, $1.seenAt, $1.peer) })?.peer else {
      return false
    }
    marks[last] = nil
    keep([.peer(PeerMarks(peer: last))])
    peerChanges.call(last)
    return true
  }
}
