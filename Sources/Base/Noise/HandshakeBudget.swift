import Common

/// The handshakes of the last minute, by which it is decided whether there may be another one.
///
/// Those that others cause, those that this side wants, and those that come straight from their peers have an account each.
/// It holds the permitted ones only, so that its size is bounded, whoever asks.
struct HandshakeBudget<Peer: Hashable & Sendable>: Sendable {
  /// On whose account a handshake is.
  enum Account: Hashable, Sendable {
    /// This side wants it.
    case ours
    /// Somebody sent something.
    case others
    /// A peer sent something, over its own link.
    case near
  }

  /// With whom. What strangers send under a peer's name does not count against what comes from the peer itself.
  private struct Partner: Hashable, Sendable {
    let peer: Peer
    let isNear: Bool
  }

  private struct Start: Sendable {
    let partner: Partner
    let account: Account
    let at: Instant
  }

  private var starts = Fifo<Start>()
  private var ofAccount: [Account: Int] = [:]
  private var ofPartner: [Partner: Int] = [:]

  /// Notes one more handshake; nil if that is fine, or what forbids it.
  mutating func take(_ peer: Peer, _ account: Account, _ limits: SessionLimits, at now: Instant) -> Drop? {
    while let first = starts.first, first.at.duration(to: now) >= limits.span { forget(first) }
    let partner = Partner(peer: peer, isNear: account == .near)
    guard ofPartner[partner, default: 0] < limits.perPeer else { return .peerRate }
    guard ofAccount[account, default: 0] < (account == .near ? limits.near : limits.inAll) else { return .rate }
    starts.append(Start(partner: partner, account: account, at: now))
    ofPartner[partner, default: 0] += 1
    ofAccount[account, default: 0] += 1
    return nil
  }

  private mutating func forget(_ start: Start) {
    starts.popFirst()
    ofAccount[start.account, default: 1] -= 1
    let count = ofPartner[start.partner, default: 1] - 1
    ofPartner[start.partner] = count > 0 ? count : nil
  }
}
