import Bitchat
import Common
import Loop
import MeshStore

/// Peers that have sent or received messages or files: their names are stored, so that they are known when they have left.
extension MeshService {
  /// How many peers that sent something to everybody are newly stored in a minute: anybody can make up identities.
  static let writersPerMinute = 60

  /// A peer has sent something, or something was sent to it.
  ///
  /// - Parameter nickname: the name that came with the message, for a peer that has left since.
  func noteContact(_ peer: PeerID, _ contact: PeerMarks.Contacts, nickname: String = "") {
    guard peer != ownID, marks[peer]?.contacts.isSuperset(of: contact) != true else { return }
    if marks[peer] == nil, contact == .wrotePublicly, !writersNoted.allow(true, at: scheduler.now) { return }
    mark(peer) {
      $0.contacts.formUnion(contact)
      if $0.nickname.isEmpty { $0.nickname = nickname }
      if $0.seenAt == 0 { $0.seenAt = time }
    }
  }

  /// Whether one more peer can be remembered. Where there are too many, the peer of the lowest rank goes that was not seen for the
  /// longest time, unless its rank is higher than that of the new one.
  func hasPlace(for new: PeerMarks) -> Bool {
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
