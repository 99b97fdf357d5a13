import BitchatWire
import Common
import Crypto

/// Reason why a ping is rejected.
public enum PingError: Error, Hashable, Sendable {
  /// Sending is not allowed yet, or there is no neighbour.
  case notReady
  case ourselves
  case tooMany
}

/// Measures hops and round-trip time to peers, and answers the pings of others. Confirms the fragments of neighbours'
/// files at the interval that a ping requests. Facts: bitchat.md section 3.
struct Pings: Sendable {
  /// Time after which a ping without an answer counts as lost.
  static let time = Duration.seconds(10)
  /// Maximum pings that wait at a time.
  static let limit = Limits.waitingPings
  /// Maximum answers to pings per link within any `answerPeriod`.
  static let answers = 5
  static let answerPeriod = Duration.seconds(10)
  /// Maximum pongs and fragment confirmations per second on a link to an Earshot peer.
  static let fastAnswers = 250

  private struct Waiting: Sendable {
    let number: UInt32
    let peer: PeerID
    let sentAt: Instant
  }

  private var waiting: [UInt64: Waiting] = [:]
  /// Times at which the latest pings of each link were answered, for the rate limit.
  private var answeredAt: [LinkID: [Instant]] = [:]
  private var answeredFast: [LinkID: TokenBucket] = [:]
  /// Confirmations that neighbours want for the fragments of their files.
  private var confirmations: [LinkID: Confirmation] = [:]

  private struct Confirmation: Sendable {
    /// Number of fragments after which the neighbour wants a confirmation.
    let interval: Int
    /// Fragments received since the last confirmation.
    var received = 0
  }

  var deadline: Instant? { waiting.isEmpty ? nil : waiting.values.map(\.sentAt).min()?.advanced(by: Self.time) }

  // MARK: Pings of this node

  /// Sends a ping to a peer. `MeshAction.pong` or `MeshAction.pingLost` follows within 10 s.
  mutating func begin(
    _ number: UInt32, to peer: PeerID, _ view: NodeView, randomFrom random: inout some RandomSource
  ) throws(PingError) -> [Intent] {
    guard view.canSend, !view.links.isEmpty else { throw .notReady }
    guard peer != view.own else { throw .ourselves }
    guard waiting.count < Self.limit else { throw .tooMany }
    let nonce = PingPayload.nonce(randomFrom: &random)
    waiting[nonce] = Waiting(number: number, peer: peer, sentAt: view.now)
    return [.sendPing(PingPayload(nonce: nonce), as: .ping, in: .own, to: peer, over: nil)]
  }

  /// Handles an answer to a ping.
  ///
  /// - Parameter hops: number of hops that the answer took.
  mutating func handlePong(
    _ payload: PingPayload, from peer: PeerID, hops: Int, at now: Instant
  ) -> [Intent] {
    guard let (number, time) = take(payload.nonce, from: peer, at: now) else { return [.count(\.unaskedPongs)] }
    return [.report(.pong(number, milliseconds: UInt32(max(0, time / .milliseconds(1))), hops: hops))]
  }

  /// Removes the ping that a pong answers.
  ///
  /// - Returns: the ping's number and round-trip time; nil if there was no such ping.
  private mutating func take(_ nonce: UInt64, from peer: PeerID, at now: Instant) -> (number: UInt32, time: Duration)? {
    guard let ping = waiting[nonce], ping.peer == peer else { return nil }
    waiting[nonce] = nil
    return (ping.number, ping.sentAt.duration(to: now))
  }

  /// Ends the pings that have timed out.
  mutating func endLost(at now: Instant) -> [Intent] {
    guard !waiting.isEmpty else { return [] }
    let lost = waiting.filter { $0.value.sentAt.advanced(by: Self.time) <= now }
    for nonce in lost.keys { waiting[nonce] = nil }
    return lost.values.map(\.number).sorted().map { .report(.pingLost($0)) }
  }

  /// Ends all pings and confirmations when this node leaves.
  mutating func endAll() -> [Intent] {
    defer { (waiting, confirmations) = ([:], [:]) }
    return waiting.values.map(\.number).sorted().map { .report(.pingLost($0)) }
  }

  // MARK: Pings of other nodes

  /// Handles a ping of a peer that is not blocked.
  mutating func handlePing(
    _ payload: PingPayload, from peer: PeerID, on link: LinkID, _ view: NodeView
  ) -> [Intent] {
    // An Earshot neighbour has its file packets confirmed. Pings that it relays are limited as for any peer, because
    // their answers would go over all links.
    let isNeighbours = view.peer(of: link) == peer
    let isOften = isNeighbours && view.isFast(link)
    guard view.canSend, takeAnswer(on: link, isFast: isOften, at: view.now) else { return [.count(\.refusedPings)] }
    if isOften, let interval = payload.interval {
      confirmations[link] = interval > 0 ? Confirmation(interval: Int(interval)) : nil
    }
    let answer = PingPayload(nonce: payload.nonce)
    return [.sendPing(answer, as: .pong, in: .own, to: peer, over: isNeighbours ? link : nil)]
  }

  /// Whether the neighbour of a link wants confirmations.
  func isConfirming(on link: LinkID) -> Bool { !confirmations.isEmpty && confirmations[link] != nil }

  /// Confirms received fragments of a neighbour's files, copies included, at the interval that it asked for.
  mutating func confirm(_ packet: PacketView, on link: LinkID, _ view: NodeView) -> [Intent] {
    guard var confirmation = confirmations[link], view.peer(of: link) == packet.sender,
      packet.recipient.map({ $0 == view.own }) ?? true, let mark = FragmentMark(packet)
    else { return [] }
    confirmation.received += 1
    defer { confirmations[link] = confirmation }
    guard confirmation.received >= confirmation.interval, view.canSend,
      takeAnswer(on: link, isFast: true, at: view.now)
    else { return [] }
    confirmation.received = 0
    // Interval 0 distinguishes the confirmation from an answer to a ping.
    let answer = PingPayload(nonce: mark.rawValue, interval: 0)
    return [.sendPing(answer, as: .pong, in: .file, to: packet.sender, over: link)]
  }

  /// Ends the confirmations on a link that now belongs to another peer.
  mutating func endConfirmations(on link: LinkID) {
    if !confirmations.isEmpty { confirmations[link] = nil }
  }

  /// Whether a ping or fragment of a link may be answered; counts it if so.
  ///
  /// - Parameter isFast: whether the limit for Earshot peers applies.
  private mutating func takeAnswer(on link: LinkID, isFast: Bool, at now: Instant) -> Bool {
    guard !isFast else { return answeredFast[link, default: TokenBucket(Self.fastAnswers)].take(at: now) }
    // A sliding window, as in the apps. A token bucket would allow ten answers within one period.
    var lately = answeredAt[link, default: []]
    lately.removeAll { $0.advanced(by: Self.answerPeriod) <= now }
    defer { answeredAt[link] = lately }
    guard lately.count < Self.answers else { return false }
    lately.append(now)
    return true
  }

  mutating func forget(_ link: LinkID) {
    (answeredAt[link], answeredFast[link], confirmations[link]) = (nil, nil, nil)
  }
}
