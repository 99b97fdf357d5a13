import Bitchat
import Common
import Journal
import Loop
import MeshStore

/// Slots for incoming links.
extension MeshService {
  /// Finds a slot for a link whose peer uses this node's application, and evicts another link if necessary.
  ///
  /// - Returns: whether the link has a slot.
  func makePlace(for link: LinkID) -> Bool {
    guard !isOurs(link) else { return true }
    // A link that is being cut counts as closed.
    let holders = ports.values.filter { $0.id != link && !$0.isCut }.map { holder(of: $0) }
    switch LinkPlaces(settings.links, holders).outcome(at: scheduler.now) {
    case .free: return true
    case .full: return false
    case .insteadOf(let other):
      if let port = ports[other] { giveWay(port) }
      return true
    }
  }

  /// Whether a new outgoing link has a slot; a peer may have taken the last one meanwhile.
  func hasPlace(forAttempt link: LinkID) -> Bool {
    ports.values.count { $0.id != link && !$0.isCut } < settings.links
  }

  /// Whether this node initiated a link, or is about to.
  private func isOurs(_ link: LinkID) -> Bool { ports[link]?.isOurs == true || attempt?.link.id == link }

  private func holder(of port: MeshPort) -> LinkPlaces.Holder {
    LinkPlaces.Holder(
      link: port.id, isOurs: isOurs(port.id), isAttempt: attempt?.link.id == port.id, since: port.since,
      peer: standing(of: port))
  }

  private func standing(of port: MeshPort) -> LinkPlaces.Holder.Peer {
    guard let peer = port.peer else { return .unknown }
    // A favourite's announce can be replayed by anybody.
    guard let marks = marks[peer], engine?.hasBroughtItsPeer(port.id) == true else { return .known }
    return marks.isFavourite || isVerified(peer) ? .chosen : .known
  }

  /// Evicts a link. Its peer may connect again.
  private func giveWay(_ port: MeshPort) {
    if told.allow(.link, at: scheduler.now) {
      Log.shared.debug(
        "The mesh closes a link because another one needs its slot", .link(port.id), .protocolName("bitchat"))
    }
    let wasOpen = port.isOpen
    release(port)
    if wasOpen { handle(.linkClosed(port.id)) }
  }
}
