import Common
import Crypto

/// Announces that say what the peer's last one said. Of what comes in a crowd they are the most by far, and all that is new in
/// them is the time and the signature: nothing is decoded, and no key is hashed.
extension MeshEngine {
  /// Peers announce themselves over each new link. So long such announces go no further: the first one of them has gone on.
  static let burst = Duration.seconds(3)

  /// Takes in an announce, if its payload is that of the last one of its sender.
  ///
  /// - Returns: false if it has to be looked at as a whole.
  mutating func refresh(_ arrival: Arrival, _ key: WireKey, goesOn: Bool, _ turn: inout Turn) -> Bool {
    let view = arrival.view
    guard archive.isRepeated(by: view), let signingKey = table.signingKey(of: view.sender),
      let signature = view.signature
    else { return false }
    guard budget.takeSignature(on: arrival.link, isKnownAnnounce: true, at: turn.now) else {
      counters.tooManySignatures += 1
      return true
    }
    guard signatures.holds(signature, of: view.signingPreimage, by: signingKey) else {
      // It may have been signed in another form than it came in, if it has another one.
      guard PayloadSection(deflating: Array(view.section), version: view.version, level: 6) == nil else { return false }
      counters.badSignatures += 1
      return true
    }
    noteClock(of: arrival, turn)
    guard isTimely(view.timestamp, arrival, turn) else {
      reportClock(of: arrival, table[view.sender]?.nickname ?? "", &turn)
      return true
    }
    let id = PacketID(plain: view)
    guard let isBurst = learn(again: arrival, id, &turn) else { return false }
    seen.insert(key, .announce, at: turn.now)
    if goesOn, !isBurst {
      relay(arrival, key, isOfKnown: true, &turn)
    } else {
      seen.note(reach: SeenPackets.ended, of: key, .announce)
    }
    return true
  }

  /// - Returns: whether another such announce has just gone on; nil if the peer is not known any more.
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
    if !courier.bag.isEmpty, let peer = table[view.sender] { deliverMail(to: peer, arrival, &turn) }
    let item = GossipArchive.Item(
      bytes: view.bytes, id: id, type: .announce, sender: view.sender, timestamp: view.timestamp)
    _ = archive.keep(item)
    return again.isBurst
  }
}

extension PacketView {
  /// Whether it is of the same type and sender as another packet, has the same payload, not compressed, and is for everybody as well.
  func hasPayload(of other: [UInt8]) -> Bool {
    guard let other = try? PacketView(other), other.type == type, other.sender == sender, other.version == version
    else {
      return false
    }
    let plain = PacketFlags.signature
    guard flags.subtracting(.syncAnswer) == plain, other.flags.subtracting(.syncAnswer) == plain else { return false }
    return section == other.section
  }
}
