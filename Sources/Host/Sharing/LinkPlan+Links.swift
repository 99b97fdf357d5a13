import Common
import Radio

/// Links that come up and end, and the services that use them.
extension LinkPlan {
  mutating func up(_ link: DriverLink, at now: Instant) -> [Action] {
    guard links[link.id] == nil else { return [] }
    var entry = Entry(address: link.address, since: link.since)
    if let current, connections[current]?.address == link.address {
      entry.users = [.connection(current)]
    } else {
      entry.condition = .unused(since: now)
    }
    links[link.id] = entry
    let unused = unusedLinks
    guard unused.count > limits.unusedLinks, let oldest = unused.first else { return [] }
    // A series of new peers must not displace one that is about to use an application.
    return [cutUnused(isArriving(oldest, at: now) ? link.id : oldest)]
  }

  mutating func change(_ link: LinkID, mtu: Int) -> [Action] {
    guard links[link]?.mtu != mtu else { return [] }
    links[link]?.mtu = mtu
    return applications(of: link).map { .change($0, link, mtu: mtu) }
  }

  /// Handles the end of a link. The driver reports the end of a connection separately, with the reason: `ended`.
  mutating func down(_ link: LinkID) -> [Action] {
    let users = links.removeValue(forKey: link)?.users ?? []
    return users.filter { if case .application = $0 { true } else { false } }.map { .close($0, link) }
  }

  mutating func use(_ link: LinkID, by application: ApplicationID) -> [Action] {
    guard let entry = links[link], !entry.isEnding, !entry.isUsed(by: application) else { return [] }
    links[link]?.users.append(.application(application))
    links[link]?.condition = .used
    return [.open(application, link, entry.address, since: entry.since, mtu: entry.mtu)]
  }

  /// Handles a service's release of a link. The last user ends the link, and is notified when it has ended.
  mutating func release(_ link: LinkID, by user: User) -> [Action] {
    guard let entry = links[link], !entry.isEnding, entry.users.contains(user) else { return [] }
    guard entry.users.count > 1 else { return end(link) }
    remove(user, from: link)
    return [.close(user, link)]
  }

  /// Removes an application from all links. A closed application is not notified.
  mutating func close(_ application: ApplicationID) -> [Action] {
    owners[application] = nil
    return sortedLinks.flatMap { link -> [Action] in
      guard let entry = links[link], entry.isUsed(by: application) else { return [] }
      links[link]?.users.removeAll { $0 == .application(application) }
      return entry.users.count == 1 && !entry.isEnding ? end(link) : []
    }
  }

  mutating func giveUp(_ link: LinkID, by tenant: TenantID) -> [Action] {
    asked[tenant] = asked[tenant].flatMap { $0 > 1 ? $0 - 1 : nil }
    guard let entry = links[link], entry.condition == .used else { return [] }
    let given = entry.users.filter { owner(of: $0) == tenant }
    guard !given.isEmpty else { return [] }
    counters.yieldedLinks += 1
    for user in given { remove(user, from: link) }
    let isLast = given.count == entry.users.count
    return given.map { .close($0, link) } + (isLast ? end(link) : [])
  }

  /// Ends links that were unused for too long, checks spared links again, and repeats unsuccessful ends.
  mutating func cutLate(at now: Instant) -> [Action] {
    let late = unusedLinks.filter { unusedSince($0).map { $0.advanced(by: limits.unusedTime) <= now } ?? false }
    let actions = late.map { cutUnused($0) }
    let spared = sortedLinks.filter { link in
      guard case .spared(let since)? = links[link]?.condition else { return false }
      return since.advanced(by: limits.sparedTime) <= now
    }
    for link in spared { links[link]?.condition = .spared(since: now) }
    return actions + spared.map { .cutUnused($0) } + cutAgain(at: now)
  }

  /// Repeats unsuccessful ends, because the driver may have refused them.
  private mutating func cutAgain(at now: Instant) -> [Action] {
    sortedLinks.compactMap { link in
      guard case .ending(let since, let asUnused)? = links[link]?.condition, since.advanced(by: limits.cutTime) <= now
      else { return nil }
      links[link]?.condition = .ending(since: now, asUnused: asUnused)
      return asUnused ? .cutUnused(link) : .cut(link)
    }
  }

  mutating func cutUnused(_ link: LinkID) -> Action {
    counters.unusedLinks += 1
    links[link]?.condition = .ending(since: latest, asUnused: true)
    return .cutUnused(link)
  }

  /// Removes a user from a link. A connection that has released its link is removed, although the link may continue for
  /// others.
  private mutating func remove(_ user: User, from link: LinkID) {
    links[link]?.users.removeAll { $0 == user }
    guard case .connection(let id) = user else { return }
    connections[id] = nil
    if current == id { current = nil }
  }

  private mutating func end(_ link: LinkID) -> [Action] {
    links[link]?.condition = .ending(since: latest, asUnused: false)
    return [.cut(link)]
  }

  // MARK: Queries

  /// Links without users that are not being ended, in descending order of unused time.
  var unusedLinks: [LinkID] {
    links.compactMap { link, _ in unusedSince(link).map { (link, $0) } }
      .sorted { ($0.1, $0.0.number) < ($1.1, $1.0.number) }.map(\.0)
  }

  func unusedSince(_ link: LinkID) -> Instant? {
    if case .unused(let since)? = links[link]?.condition { since } else { nil }
  }

  func isUsed(_ link: LinkID, by tenant: TenantID) -> Bool {
    links[link]?.users.contains { owner(of: $0) == tenant } ?? false
  }

  func owner(of user: User) -> TenantID? {
    switch user {
    case .application(let application): owners[application]
    case .connection(let connection): connections[connection]?.tenant
    }
  }

  private var sortedLinks: [LinkID] { links.keys.sorted { $0.number < $1.number } }

  private func applications(of link: LinkID) -> [ApplicationID] {
    (links[link]?.users ?? []).compactMap { if case .application(let id) = $0 { id } else { nil } }
  }
}
