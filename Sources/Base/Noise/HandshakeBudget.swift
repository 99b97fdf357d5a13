import Common

/// The handshakes of the last minute, by which it is decided whether there may be another one.
///
/// Each account has bounds of its own, in all and with each peer, so that what is on one of them refuses nothing on another.
/// It holds the permitted ones only, so that its size is bounded, whoever asks.
struct HandshakeBudget<Peer: Hashable & Sendable>: Sendable {
  /// On whose account a handshake is.
  enum Account: Hashable, Sendable {
    /// This side wants it.
    case ours
    /// There is a session with the peer, and messages came under its name that no key opens.
    case recovery
    /// Somebody sent something.
    case others
    /// A peer sent something, over its own link.
    case near
  }

  /// With whom. What strangers send under a peer's name counts neither against what comes from the peer itself nor against what
  /// this side wants.
  private struct Partner: Hashable, Sendable {
    let peer: Peer
    let account: Account
  }

  private struct Start: Sendable {
    let partner: Partner
    let at: Instant
  }

  private var starts = Fifo<Start>()
  private var ofAccount: [Account: Int] = [:]
  private var ofPartner: [Partner: Int] = [:]

  /// Notes one more handshake; nil if that is fine, or what forbids it.
  mutating func take(_ peer: Peer, _ account: Account, _ limits: SessionLimits, at now: Instant) -> Drop? {
    while let first = starts.first, first.at.duration(to: now) >= limits.span { forget(first) }
    let partner = Partner(peer: peer, account: account)
    guard ofPartner[partner, default: 0] < limits.perPeer else { return .peerRate }
    guard ofAccount[account, default: 0] < bound(of: account, limits) else { return .rate }
    starts.append(Start(partner: partner, at: now))
    ofPartner[partner, default: 0] += 1
    ofAccount[account, default: 0] += 1
    return nil
  }

  private func bound(of account: Account, _ limits: SessionLimits) -> Int {
    switch account {
    case .ours, .others: limits.inAll
    case .recovery: limits.recoveries
    case .near: limits.near
    }
  }

  private mutating func forget(_ start: Start) {
    starts.popFirst()
    ofAccount[start.partner.account, default: 1] -= 1
    let count = ofPartner[start.partner, default: 1] - 1
    ofPartner[start.partner] = count > 0 ? count : nil
  }
}
