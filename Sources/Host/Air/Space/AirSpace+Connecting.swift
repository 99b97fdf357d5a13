import Common
import Loop
import Radio

extension AirSpace {
  /// Schedules the link for the peer's next advertising event, or the end of the attempt if no such event occurs before
  /// the timeout.
  func start(_ attempt: AirAttempt) {
    attempts.append(attempt)
    let timeout = conditions(between: attempt.node.address, and: attempt.target).connectTimeout
    attempt.timeout = agenda.at(agenda.now.advanced(by: timeout)) {
      attempt.end("\(attempt.target) did not answer within \(timeout).")
    }
    tryConnecting(attempt)
  }

  func stop(_ attempt: AirAttempt) {
    attempts.removeAll { $0 === attempt }
    attempt.node.attempts.removeAll { $0 === attempt }
    attempt.timeout.map(agenda.cancel)
    attempt.moment.map(agenda.cancel)
  }

  /// Retries attempts, because another node may have become connectable.
  func retryConnecting() {
    for attempt in attempts { tryConnecting(attempt) }
  }

  private func tryConnecting(_ attempt: AirAttempt) {
    guard attempt.moment == nil, let peer = peer(of: attempt),
      let (event, id) = peer.nextConnectableEvent(from: agenda.now)
    else { return }
    let latency = conditions(between: attempt.node.address, and: attempt.target).latency
    attempt.moment = agenda.at(event.advanced(by: latency)) { [weak self] in
      guard let self else { return }
      attempt.moment = nil
      if let peer = self.peer(of: attempt), onAir[id]?.node === peer {
        succeed(attempt, peer, by: id)
      } else {
        tryConnecting(attempt)
      }
    }
  }

  /// The node that an attempt can reach now.
  private func peer(of attempt: AirAttempt) -> AirRadio? {
    guard let peer = node(attempt.target), peer !== attempt.node, hears(attempt.node, peer), peer.hasRoomForLink
    else { return nil }
    return peer
  }

  private func succeed(_ attempt: AirAttempt, _ peer: AirRadio, by advertisement: UInt64) {
    let node = attempt.node
    guard node.hasRoomForLink else { return attempt.end(AirRadio.noRoom) }
    stop(attempt)
    // If the peer is connecting to this node, its attempt has succeeded, too.
    let reverse = peer.attempts.first { $0.target == node.address }
    if let reverse { stop(reverse) }
    let (number, now) = (attempt.id, agenda.now)
    let here = AirEnd(
      node, number, .here, central: number, since: now, address: node.address, peer: attempt.target)
    let there = AirEnd(
      peer, reverse?.id ?? newLinkID(), .peer, central: number, since: now, address: attempt.target,
      peer: node.address)
    here.join(there)
    keep(here)
    keep(there)
    peer.connected(by: advertisement, on: there.id)
    attempt.client.attach(to: here)
    reverse?.client.attach(to: there)
    // A delegate may end the link: `linkDown` follows in a later event, so each delegate receives `linkUp` first.
    for end in [there, here] { end.node.delegate?.linkUp(end.description) }
    if here.isOpen { attempt.client.begin() }
    if there.isOpen { reverse?.client.begin() }
  }
}
