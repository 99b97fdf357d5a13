import Common
import Radio

/// Room for those who need it: every service that is at work finds the links that it needs free, because services that have
/// more than they need give some up, and links that no service uses are cut.
extension LinkPlan {
  /// Makes room, if some is lacking.
  mutating func balance(at now: Instant) -> [Action] {
    var actions: [Action] = []
    while shortage(at: now) > 0 {
      if let link = unusedLinks.first, !isArriving(link, at: now) {
        actions.append(cutUnused(link))
      } else if let (tenant, links) = yielder {
        asked[tenant, default: 0] += 1
        actions.append(.ask(tenant, links))
      } else {
        break
      }
    }
    return actions
  }

  /// How many places lack for what the services need. A link that has just come up may be what a service waits for: it
  /// passes for that until `LinkLimits.arrivalTime` is over.
  func shortage(at now: Instant) -> Int {
    let reserve = reserve
    return reserve - free - min(arrivals(at: now), reserve)
  }

  /// Whether there will be a shortage when those who have just arrived turn out to be strangers.
  func dependsOnArrivals(at now: Instant) -> Bool { arrivals(at: now) > 0 && reserve - free > 0 }

  /// Whether a tenant may begin to connect now.
  func hasRoom(for tenant: TenantID, at now: Instant) -> Bool {
    guard free > 0 else { return false }
    let isNeeded = held(by: tenant) < needs(of: tenant)
    let reserve = reserve - (isNeeded ? 1 : 0)
    return free - 1 >= reserve - min(arrivals(at: now), reserve)
  }

  /// Places that are not taken, nor about to become free.
  var free: Int {
    let taken = links.values.count { !$0.isEnding }
    return limits.links - taken - (isTrying ? 1 : 0) + asked.values.reduce(0, +)
  }

  /// Places that services need and do not have, as many as have to be free now.
  var reserve: Int {
    shares.reduce(0) { $0 + min($1.value.spare, max(0, needs(of: $1.key) - held(by: $1.key))) }
  }

  /// What a service needs: nothing while it neither serves nor connects.
  func needs(of tenant: TenantID) -> Int {
    let isAtWork = owners.values.contains(tenant) || connections.values.contains { $0.tenant == tenant }
    return isAtWork ? shares[tenant]?.needs ?? 0 : 0
  }

  /// Links that a service uses, and the one that it is trying to make.
  func held(by tenant: TenantID) -> Int {
    let used = links.values.count { entry in
      entry.condition == .used && entry.users.contains { owner(of: $0) == tenant }
    }
    let isTrying = isTrying && current.flatMap { connections[$0]?.tenant } == tenant
    return used + (isTrying ? 1 : 0)
  }

  /// The service that gives a link up next, with those that it alone uses.
  private var yielder: (TenantID, [LinkID])? {
    let candidates = shares.compactMap { tenant, share -> (tenant: TenantID, surplus: Int, links: [LinkID])? in
      let surplus = held(by: tenant) - needs(of: tenant) - (asked[tenant] ?? 0)
      let own = links.filter { _, entry in
        entry.condition == .used && entry.users.allSatisfy { owner(of: $0) == tenant }
      }
      guard surplus > 0, own.count > asked[tenant] ?? 0 else { return nil }
      return (tenant, surplus, own.keys.sorted { $0.number < $1.number })
    }
    let first = candidates.min {
      (priority(of: $0.tenant), -$0.surplus, $0.tenant) < (priority(of: $1.tenant), -$1.surplus, $1.tenant)
    }
    return first.map { ($0.tenant, $0.links) }
  }

  func priority(of tenant: TenantID) -> Int { shares[tenant]?.priority ?? 0 }

  private func arrivals(at now: Instant) -> Int { links.keys.count { isArriving($0, at: now) } }

  func isArriving(_ link: LinkID, at now: Instant) -> Bool {
    unusedSince(link).map { now < $0.advanced(by: limits.arrivalTime) } ?? false
  }

  /// Whether an attempt is under way whose link is not up yet.
  private var isTrying: Bool {
    guard let current else { return false }
    return !links.values.contains { $0.users.contains(.connection(current)) }
  }
}
