import Common
import Crypto

/// Fast path for announces with the payload of the sender's latest one. They are most of the traffic in a crowd, and
/// only timestamp and signature are new: nothing is decoded, and no key is hashed.
extension MeshEngine {
  /// Time in which further announces of a peer are not relayed. Peers announce themselves over each new link, and the
  /// first of these is relayed.
  static let burst = Duration.seconds(3)

  /// Handles an announce whose payload equals that of its sender's latest one.
  ///
  /// - Returns: false if the announce needs complete handling.
  mutating func refresh(_ arrival: Arrival, _ key: WireKey, goesOn: Bool, _ turn: inout Turn) -> Bool {
    let view = arrival.view
    guard gossip.archive.isRepeated(by: view), let signingKey = table.signingKey(of: view.sender),
      let signature = view.signature
    else { return false }
    switch gate.checkRepeated(view, signature, by: signingKey, on: arrival.link, at: turn.now) {
    case .valid: break
    case .needsDecoding: return false
    case .dropped(let refusal):
      counters[keyPath: refusal] += 1
      return true
    }
    noteClock(of: arrival, turn)
    guard !isRefused(PacketGate.untimely(announce: view.timestamp, arrival, at: turn.time)) else {
      reportClock(of: arrival, table[view.sender]?.nickname ?? "", &turn)
      return true
    }
    let id = PacketID(plain: view)
    guard let isBurst = learn(again: arrival, id, &turn) else { return false }
    gate.remember(key, .announce, at: turn.now)
    if goesOn, !isBurst {
      relay(arrival, key, isOfKnown: true, &turn)
    } else {
      gate.end(key, .announce)
    }
    return true
  }

  /// - Returns: whether a similar announce was relayed shortly before; nil if the peer is no longer known.
  private mutating func learn(again arrival: Arrival, _ id: PacketID, _ turn: inout Turn) -> Bool? {
    let view = arrival.view
    let hops = arrival.isAnswer ? max(2, table[view.sender]?.hops ?? 2) : arrival.hops
    guard let again = table.refresh(view.sender, at: view.timestamp, hops: hops, burst: Self.burst, now: turn.now)
    else {
      return nil
    }
    if again.isChanged { turn.actions.append(.peer(view.sender)) }
    keepPin(of: view.sender, &turn)
    askForKeyOfVerified(view.sender, arrival, &turn)
    claim(arrival, of: view.sender, &turn)
    if !courier.isEmpty, let peer = table[view.sender] {
      perform(courier.handlePeer(peer, arrival, self.view(turn)), &turn)
    }
    let item = GossipArchive.Item(
      bytes: view.bytes, id: id, type: .announce, sender: view.sender, timestamp: view.timestamp)
    _ = gossip.store(item)
    return again.isBurst
  }
}
