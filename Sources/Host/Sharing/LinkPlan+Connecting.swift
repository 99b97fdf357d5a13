import Common
import Radio

/// Outgoing connections: one attempt at a time, with pauses, in the order of the services' priorities.
extension LinkPlan {
  struct Connection: Sendable {
    enum State: Hashable, Sendable {
      case waiting(since: Instant)
      case trying
      /// The attempt is cancelled for one of higher priority.
      case yielding
      case linked(LinkID)
    }

    let tenant: TenantID
    let address: BluetoothAddress
    var state: State
  }

  mutating func connect(
    _ id: ConnectionID, _ tenant: TenantID, _ address: BluetoothAddress, at now: Instant
  ) -> [Action] {
    let wanted = connections.values.count { connection in
      if case .waiting = connection.state { connection.tenant == tenant } else { false }
    }
    let isLinked = links.values.contains { $0.address == address && !$0.isEnding }
    if held(by: tenant) + wanted >= shares[tenant]?.may ?? 0, !isLinked {
      return [refuse(id, "This service has reached its limit of links.")]
    }
    connections[id] = Connection(tenant: tenant, address: address, state: .waiting(since: now))
    if isLinked {
      // The attempt uses an existing link.
      connections[id]?.state = .trying
      return [.attempt(id, address)]
    }
    let isNeeded = held(by: tenant) + wanted < needs(of: tenant)
    guard queue.count < limits.queueLength, isNeeded || hasRoom(for: tenant, at: now) else {
      connections[id] = nil
      return [refuse(id, "The radio has no free link.")]
    }
    queue.append(id)
    return []
  }

  /// Whether an attempt has succeeded and still holds its link.
  func isLinked(_ id: ConnectionID) -> Bool {
    if case .linked(let link)? = connections[id]?.state { links[link] != nil } else { false }
  }

  mutating func connected(_ id: ConnectionID, _ link: LinkID) {
    guard connections[id] != nil else { return }
    connections[id]?.state = .linked(link)
    if current == id { current = nil }
    guard let entry = links[link], !entry.isEnding else { return }
    if !entry.users.contains(.connection(id)) { links[link]?.users.append(.connection(id)) }
    links[link]?.condition = .used
  }

  mutating func ended(_ id: ConnectionID, at now: Instant) {
    queue.removeAll { $0 == id }
    if current == id { current = nil }
    connections[id] = nil
    for (link, entry) in links where entry.users.contains(.connection(id)) {
      links[link]?.users.removeAll { $0 == .connection(id) }
      if entry.users.count == 1, entry.condition == .used { links[link]?.condition = .unused(since: now) }
    }
  }

  /// Begins the next attempt, and refuses those that have waited too long.
  mutating func beginAttempts(at now: Instant) -> [Action] {
    let late = queue.filter { waitingSince($0).map { $0.advanced(by: limits.queueTime) <= now } ?? true }
    queue.removeAll { late.contains($0) }
    var actions = late.map { id in
      connections[id] = nil
      return refuse(id, "No link became free within \(limits.queueTime.components.seconds) s.")
    }
    guard let next = nextInQueue(at: now) else { return actions }
    if let current {
      if rank(of: next) > rank(of: current), connections[current]?.state == .trying {
        connections[current]?.state = .yielding
        actions.append(.giveUp(current, reason: "Another service preempted the connection attempt."))
      }
    } else if now >= nextAttempt, let address = connections[next]?.address {
      queue.removeAll { $0 == next }
      connections[next]?.state = .trying
      current = next
      nextAttempt = now.advanced(by: limits.attemptPause)
      actions.append(.attempt(next, address))
    }
    return actions
  }

  /// When an attempt may begin, or has waited too long; nil if none waits.
  var attemptDeadline: Instant? {
    let ends = queue.compactMap { waitingSince($0)?.advanced(by: limits.queueTime) }
    guard current == nil, nextAttempt > latest, nextInQueue(at: nextAttempt) != nil else { return ends.min() }
    return ends.min().map { min($0, nextAttempt) } ?? nextAttempt
  }

  /// The first attempt of the highest priority for which a link is free.
  private func nextInQueue(at now: Instant) -> ConnectionID? {
    queue.enumerated().filter { _, id in
      connections[id].map { hasPlace(for: $0.tenant, at: now) } ?? false
    }.min { (-rank(of: $0.element), $0.offset) < (-rank(of: $1.element), $1.offset) }?.element
  }

  /// Whether a link is free for an attempt. The link of the attempt under way counts as free, because the new attempt
  /// replaces it.
  private func hasPlace(for tenant: TenantID, at now: Instant) -> Bool {
    guard current == nil else {
      var plan = self
      plan.current = nil
      return plan.hasRoom(for: tenant, at: now)
    }
    return hasRoom(for: tenant, at: now)
  }

  private func rank(of id: ConnectionID) -> Int { connections[id].map { priority(of: $0.tenant) } ?? .min }

  private func waitingSince(_ id: ConnectionID) -> Instant? {
    if case .waiting(let since)? = connections[id]?.state { since } else { nil }
  }

  private mutating func refuse(_ id: ConnectionID, _ reason: String) -> Action {
    counters.refusedAttempts += 1
    return .refuse(id, reason: reason)
  }
}
