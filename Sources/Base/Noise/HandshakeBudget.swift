import Common

/// The handshakes of the last minute, which decide whether another one is permitted.
///
/// Each account has its own limits, so that handshakes on one account refuse none on another. Handshakes that others
/// cause are limited for each source and, within a source, for each name. A sender of first messages uses up only the
/// share of its own link. Each source also has a reserve in addition to the pool that all sources share. The budget
/// stores permitted handshakes only, which bounds its size.
struct HandshakeBudget<Peer: Hashable & Sendable>: Sendable {
  /// The cause of a handshake, which has limits of its own.
  enum Account: Hashable, Sendable {
    /// This side begins the handshake for a reason of its own.
    case ours
    /// Messages from this source could not be opened.
    case recovery(MessageSource)
    /// A first message from this source, or the third one without a session that could not be opened.
    case others(MessageSource)
  }

  /// A peer and the account that its handshake counts towards.
  private struct Partner: Hashable, Sendable {
    let peer: Peer
    let account: Account
  }

  /// A limit that several accounts share.
  private enum Pool: Hashable, Sendable {
    case others, recoveries
  }

  private struct Start: Sendable {
    let partner: Partner
    /// Shared limit that the handshake counts towards; nil for a handshake that uses the reserve of its source.
    let pool: Pool?
    let at: Instant
  }

  private var starts = Fifo<Start>()
  private var ofAccount: [Account: Int] = [:]
  private var ofPartner: [Partner: Int] = [:]
  private var ofPool: [Pool: Int] = [:]
  /// Number of handshakes in the span that used the reserve of their source, by source.
  private var ofReserve: [Account: Int] = [:]

  /// Counts one more handshake and returns nil; if a limit forbids it, returns the reason and counts nothing.
  mutating func take(_ peer: Peer, _ account: Account, _ limits: SessionLimits, at now: Instant) -> Drop? {
    while let first = starts.first, first.at.duration(to: now) >= limits.span { forget(first) }
    let partner = Partner(peer: peer, account: account)
    let pool: Pool?
    switch account {
    case .ours:
      guard ofPartner[partner, default: 0] < limits.perPeer else { return .peerRate }
      guard ofAccount[account, default: 0] < limits.inAll else { return .rate }
      return note(partner, nil, at: now)
    case .others:
      guard ofPartner[partner, default: 0] < limits.perPeerOfSource else { return .peerRate }
      guard ofAccount[account, default: 0] < limits.perSource else { return .rate }
      pool = ofPool[.others, default: 0] < limits.ofOthers ? .others : nil
      if pool == nil, !hasReserve(account, limits.reserve, limits.reserves) { return .rate }
    case .recovery:
      guard ofAccount[account, default: 0] < limits.recoveriesOfSource else { return .rate }
      pool = ofPool[.recoveries, default: 0] < limits.recoveries ? .recoveries : nil
      if pool == nil, !hasReserve(account, 1, limits.reserves) { return .rate }
    }
    if pool == nil { ofReserve[account, default: 0] += 1 }
    return note(partner, pool, at: now)
  }

  /// Whether a source has some of its reserve left. At most `reserves` sources have a reserve at one time, so that
  /// sources that disconnect and reconnect gain none.
  private func hasReserve(_ account: Account, _ reserve: Int, _ reserves: Int) -> Bool {
    guard let used = ofReserve[account] else { return reserve > 0 && ofReserve.count < reserves }
    return used < reserve
  }

  private mutating func note(_ partner: Partner, _ pool: Pool?, at now: Instant) -> Drop? {
    starts.append(Start(partner: partner, pool: pool, at: now))
    ofPartner[partner, default: 0] += 1
    ofAccount[partner.account, default: 0] += 1
    if let pool { ofPool[pool, default: 0] += 1 }
    return nil
  }

  private mutating func forget(_ start: Start) {
    starts.popFirst()
    let account = start.partner.account
    Self.takeAway(start.partner, from: &ofPartner)
    Self.takeAway(account, from: &ofAccount)
    if let pool = start.pool {
      Self.takeAway(pool, from: &ofPool)
    } else if account != .ours {
      Self.takeAway(account, from: &ofReserve)
    }
  }

  private static func takeAway<Key: Hashable>(_ key: Key, from counts: inout [Key: Int]) {
    let count = counts[key, default: 1] - 1
    counts[key] = count > 0 ? count : nil
  }
}
