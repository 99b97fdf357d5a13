import Bitchat
import Common
import Loop
import MeshNaming
import MeshStore

/// Names of peers: resolving texts, and renames.
extension MeshService {
  /// Maximum renames per peer and minute that are reported.
  static let renamesPerMinute = 6

  /// Names of all known peers, and of this node.
  var nameBook: MeshNameBook {
    var book = MeshNameBook()
    for peer in knownPeers {
      let marks = marks[peer]
      book.add(
        peer.description, nickname: name(of: peer), verifiedName: marks?.verifiedName ?? "",
        heldNames: marks?.heldNames ?? [])
    }
    if let own = engine?.identity.id { book.add(own: own.description, nickname: nickname) }
    return book
  }

  func name(of peer: PeerID) -> String { engine?.peer(peer)?.nickname ?? marks[peer]?.nickname ?? "" }

  /// Resolves a text to a peer: ``MeshNameBook/peer(_:)``.
  func peer(called text: String) throws(MeshRefusal) -> PeerID {
    // An ID is resolved without names.
    if let id = MeshNameBook.id(text), let peer = try? PeerID(text: id) { return peer }
    let id: String
    do throws(MeshNameRefusal) { id = try nameBook.peer(text) } catch { throw .name(error) }
    guard let peer = try? PeerID(text: id) else { throw .name(MeshNameRefusal(unknown: text)) }
    return peer
  }

  /// Reports a new nickname of a favourite or verified peer.
  func tellRename(_ before: PeerMarks, _ now: PeerMarks) {
    guard now.isTrusted, before.isTrusted, !before.nickname.isEmpty,
      !NicknameText.isSame(before.nickname, now.nickname), renamesTold.allow(now.peer, at: scheduler.now)
    else { return }
    renames.call((now.peer, before.nickname, now.nickname))
  }
}

extension PeerMarks {
  /// Stores the nickname of a trusted peer, and drops the names of one that is not trusted.
  mutating func holdName() {
    guard isTrusted else {
      (heldNames, verifiedName) = ([], "")
      return
    }
    guard !nickname.isEmpty, !heldNames.contains(where: { NicknameText.isSame($0, nickname) }) else { return }
    heldNames = Array((heldNames + [nickname]).suffix(Self.mostHeldNames))
  }
}

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
