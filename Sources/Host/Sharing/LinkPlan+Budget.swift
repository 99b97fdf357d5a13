import Common
import Radio

/// The budget of links. The minimum links of every active service are kept free: services above their minimum release links, and links
/// without users are ended.
extension LinkPlan {
  /// Releases links until there is no shortage.
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

  /// Number of missing free links for the services' minimums. A new link may be one that a service expects, and counts
  /// as such for `LinkLimits.arrivalTime`.
  func shortage(at now: Instant) -> Int {
    let reserve = reserve
    return reserve - free - min(arrivals(at: now), reserve)
  }

  /// Whether there will be a shortage if the new links turn out not to be expected.
  func dependsOnArrivals(at now: Instant) -> Bool { arrivals(at: now) > 0 && reserve - free > 0 }

  /// Whether a tenant may begin to connect now.
  func hasRoom(for tenant: TenantID, at now: Instant) -> Bool {
    guard free > 0 else { return false }
    let isNeeded = held(by: tenant) < needs(of: tenant)
    let reserve = reserve - (isNeeded ? 1 : 0)
    return free - 1 >= reserve - min(arrivals(at: now), reserve)
  }

  /// Number of links that are free, or about to become free.
  var free: Int {
    let taken = links.values.count { !$0.isEnding }
    return limits.links - taken - (isTrying ? 1 : 0) + asked.values.reduce(0, +)
  }

  /// Number of missing minimum links that must be free now.
  var reserve: Int {
    shares.reduce(0) { $0 + min($1.value.spare, max(0, needs(of: $1.key) - held(by: $1.key))) }
  }

  /// The minimum links of a service: 0 while it neither serves nor connects.
  func needs(of tenant: TenantID) -> Int {
    let isAtWork = owners.values.contains(tenant) || connections.values.contains { $0.tenant == tenant }
    return isAtWork ? shares[tenant]?.needs ?? 0 : 0
  }

  /// Number of links that a service uses, including its attempt under way.
  func held(by tenant: TenantID) -> Int {
    let used = links.values.count { entry in
      entry.condition == .used && entry.users.contains { owner(of: $0) == tenant }
    }
    let isTrying = isTrying && current.flatMap { connections[$0]?.tenant } == tenant
    return used + (isTrying ? 1 : 0)
  }

  /// The service that releases the next link, with the links that it alone uses.
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
