import Common

/// The handshakes of the last minute, by which it is decided whether there may be another one.
///
/// Those that others cause and those that this side wants have an account each. It holds the permitted ones only, so that
/// its size is bounded, whoever asks.
struct HandshakeBudget<Peer: Hashable & Sendable>: Sendable {
  /// On whose account a handshake is.
  enum Account: Hashable, Sendable {
    /// This side wants it.
    case ours
    /// Somebody sent something.
    case others
  }

  private struct Start: Sendable {
    let peer: Peer
    let account: Account
    let at: Instant
  }

  private var starts = Fifo<Start>()
  private var ofAccount: [Account: Int] = [:]
  private var ofPeer: [Peer: Int] = [:]

  /// Notes one more handshake; nil if that is fine, or what forbids it.
  mutating func take(_ peer: Peer, _ account: Account, _ limits: SessionLimits, at now: Instant) -> Drop? {
    while let first = starts.first, first.at.duration(to: now) >= limits.span { forget(first) }
    guard ofPeer[peer, default: 0] < limits.perPeer else { return .peerRate }
    guard ofAccount[account, default: 0] < limits.inAll else { return .rate }
    starts.append(Start(peer: peer, account: account, at: now))
    ofPeer[peer, default: 0] += 1
    ofAccount[account, default: 0] += 1
    return nil
  }

  private mutating func forget(_ start: Start) {
    starts.popFirst()
    ofAccount[start.account, default: 1] -= 1
    let count = ofPeer[start.peer, default: 1] - 1
    ofPeer[start.peer] = count > 0 ? count : nil
  }
}
