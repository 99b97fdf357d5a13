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
  func peer(called text: String) throws(Refusal) -> PeerID {
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
