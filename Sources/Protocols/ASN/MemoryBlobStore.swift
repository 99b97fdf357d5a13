/// A store in memory: the reference for every other implementation, and the store of tests.
public struct MemoryBlobStore: BlobStore {
  fileprivate struct Contents {
    var blobs: [Sum: Blob] = [:]
    /// Links of each owner, with the octets of their names as keys.
    var links: [UserKey: [[UInt8]: Link]] = [:]
    var linksBySum: [Sum: Set<Link>] = [:]
    var hidden: [Sum: Set<Link>] = [:]
    var flags: [Sum: Set<Sum>] = [:]
    var log: [LoggedChange] = []
    var lastNumber: UInt64 = 0
    var usage = StoreUsage()
    var shares: [UserKey: AuthorShare] = [:]
  }

  private var contents = Contents()
  private var durable = Contents()
  /// The error that the next `apply` throws instead of writing; for tests of a full disk.
  public var failure: StoreError?
  /// The error that the next `commit` throws, after it has undone all changes since the last one.
  public var commitFailure: StoreError?

  public init() {}

  public func header(_ sum: Sum) -> BlobHeader? { contents.blobs[sum]?.header }
  public func blob(_ sum: Sum) -> Blob? { contents.blobs[sum] }

  public func sums(from first: Sum, through last: Sum, limit: Int) -> [Sum] {
    guard first <= last else { return [] }
    return Array(contents.blobs.keys.filter { (first...last).contains($0) }.sorted().prefix(limit))
  }

  public func link(_ owner: UserKey, _ name: String) -> Link? { contents.links[owner]?[Array(name.utf8)] }

  public func links(_ owner: UserKey, prefix: String, after: String?, limit: Int) -> [Link] {
    let names = (contents.links[owner] ?? [:]).keys.filter { name in
      name.starts(with: prefix.utf8) && (after.map { $0.utf8.lexicographicallyPrecedes(name) } ?? true)
    }
    return names.sorted { $0.lexicographicallyPrecedes($1) }.prefix(limit).compactMap { contents.links[owner]?[$0] }
  }

  public func links(to sum: Sum) -> [Link] {
    (contents.linksBySum[sum] ?? []).sorted { ($0.owner, $0.name) < ($1.owner, $1.name) }
  }

  public func hiddenLinks(removal: Sum, of sum: Sum?) -> [Link] {
    (contents.hidden[removal] ?? []).filter { sum == nil || $0.sum == sum }
      .sorted { ($0.owner, $0.name, $0.sum) < ($1.owner, $1.name, $1.sum) }
  }

  public func linkCount(_ owner: UserKey) -> Int { contents.links[owner]?.count ?? 0 }

  public func users(from first: UserKey, through last: UserKey, limit: Int) -> [UserKey] {
    guard first <= last else { return [] }
    let users = contents.links.filter { $0.value[Contents.user] != nil }.keys
    return Array(users.filter { (first...last).contains($0) }.sorted().prefix(limit))
  }

  public func removals(flagging sum: Sum) -> [Sum] { (contents.flags[sum] ?? []).sorted() }

  public func flags(after: Flag?, limit: Int) -> [Flag] {
    let all = contents.flags.flatMap { blob, removals in removals.map { Flag(blob, removal: $0) } }
    return Array(all.filter { flag in after.map { $0 < flag } ?? true }.sorted().prefix(limit))
  }

  public func changes(after number: UInt64, limit: Int) -> [LoggedChange] {
    Array(contents.log.lazy.filter { $0.number > number }.prefix(limit))
  }

  public func usage() -> StoreUsage { contents.usage }
  public func share(of author: UserKey) -> AuthorShare { contents.shares[author] ?? AuthorShare() }

  public mutating func apply(_ changes: [StoreChange]) throws(StoreError) {
    if let failure {
      self.failure = nil
      throw failure
    }
    for change in changes { contents.apply(change) }
  }

  public mutating func commit() throws(StoreError) {
    if let commitFailure {
      self.commitFailure = nil
      contents = durable
      throw commitFailure
    }
    durable = contents
  }
}

extension MemoryBlobStore.Contents {
  fileprivate static let user = Array(BlobName.user.text.utf8)

  fileprivate mutating func apply(_ change: StoreChange) {
    switch change {
    case .insert(let blob):
      guard blobs[blob.sum] == nil else { return }
      blobs[blob.sum] = blob
      usage.blobs += 1
      usage.bytes += UInt64(blob.bytes.count)
      shares[blob.header.author, default: AuthorShare()].bytes += UInt64(blob.bytes.count)
      if blob.header.name == .user { shares[blob.header.author]?.users += 1 }
      record(.inserted, blob.sum)
    case .link(let link):
      unlink(link.owner, link.name)
      links[link.owner, default: [:]][Array(link.name.utf8)] = link
      linksBySum[link.sum, default: []].insert(link)
      usage.links += 1
      if link.name == BlobName.user.text { usage.users += 1 }
    case .unlink(let owner, let name): unlink(owner, name)
    case .hide(let link, let removal):
      unlink(link.owner, link.name)
      hide(link, removal)
    case .rehide(let link, let old, let new):
      unhide(link, old)
      hide(link, new)
    case .unhide(let link, let removal): unhide(link, removal)
    case .flag(let sum, let removal): flags[sum, default: []].insert(removal)
    case .unflag(let sum, let removal):
      flags[sum]?.remove(removal)
      if flags[sum]?.isEmpty == true { flags[sum] = nil }
    case .purge(let sum): purge(sum)
    }
  }

  private mutating func hide(_ link: Link, _ removal: Sum) {
    if hidden[removal, default: []].insert(link).inserted { usage.links += 1 }
  }

  private mutating func unhide(_ link: Link, _ removal: Sum) {
    if hidden[removal]?.remove(link) != nil { usage.links -= 1 }
  }

  private mutating func unlink(_ owner: UserKey, _ name: String) {
    guard let old = links[owner]?.removeValue(forKey: Array(name.utf8)) else { return }
    usage.links -= 1
    if links[owner]?.isEmpty == true { links[owner] = nil }
    linksBySum[old.sum]?.remove(old)
    if linksBySum[old.sum]?.isEmpty == true { linksBySum[old.sum] = nil }
    if name == BlobName.user.text { usage.users -= 1 }
  }

  private mutating func purge(_ sum: Sum) {
    guard let blob = blobs.removeValue(forKey: sum) else { return }
    for link in linksBySum[sum] ?? [] { unlink(link.owner, link.name) }
    for (removal, links) in hidden {
      for link in links where link.sum == sum || removal == sum { unhide(link, removal) }
    }
    hidden[sum] = nil
    flags[sum] = nil
    usage.blobs -= 1
    usage.bytes -= UInt64(blob.bytes.count)
    shares[blob.header.author]?.bytes -= UInt64(blob.bytes.count)
    if blob.header.name == .user { shares[blob.header.author]?.users -= 1 }
    record(.purged, sum)
  }

  private mutating func record(_ kind: LoggedChange.Kind, _ sum: Sum) {
    lastNumber += 1
    log.append(LoggedChange(number: lastNumber, kind: kind, sum: sum))
  }
}
