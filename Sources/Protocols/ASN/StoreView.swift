import Bytes

/// Read access to a store for the rules: lists, kinds of users, and the blobs that a login may read.
struct StoreView<Store: BlobStore> {
  private let store: Store

  init(_ store: Store) { self.store = store }

  /// The refusal for a blob that does not exist, and for one that the login may not read.
  static var missing: Refusal { Refusal(.failure, "No such USER, SUM or NAME") }

  // MARK: The store, with its errors as refusals

  func header(_ sum: Sum) throws(Refusal) -> BlobHeader? {
    try read { (store) throws(StoreError) in try store.header(sum) }
  }
  func blob(_ sum: Sum) throws(Refusal) -> Blob? { try read { (store) throws(StoreError) in try store.blob(sum) } }
  func link(_ owner: UserKey, _ name: String) throws(Refusal) -> Link? {
    try read { (store) throws(StoreError) in try store.link(owner, name) }
  }
  func links(to sum: Sum) throws(Refusal) -> [Link] {
    try read { (store) throws(StoreError) in try store.links(to: sum) }
  }
  func hiddenLinks(removal: Sum, of sum: Sum) throws(Refusal) -> [Link] {
    try read { (store) throws(StoreError) in try store.hiddenLinks(removal: removal, of: sum) }
  }
  func linkCount(_ owner: UserKey) throws(Refusal) -> Int {
    try read { (store) throws(StoreError) in try store.linkCount(owner) }
  }
  func removals(flagging sum: Sum) throws(Refusal) -> [Sum] {
    try read { (store) throws(StoreError) in try store.removals(flagging: sum) }
  }
  func usage() throws(Refusal) -> StoreUsage { try read { (store) throws(StoreError) in try store.usage() } }
  func share(of author: UserKey) throws(Refusal) -> AuthorShare {
    try read { (store) throws(StoreError) in try store.share(of: author) }
  }

  private func read<Value>(_ body: (Store) throws(StoreError) -> Value) throws(Refusal) -> Value {
    do throws(StoreError) {
      return try body(store)
    } catch {
      throw Refusal(error)
    }
  }

  // MARK: Users

  /// The content of a control blob; nil if the user has none.
  func content(_ owner: UserKey, _ name: BlobName) throws(Refusal) -> ArraySlice<UInt8>? {
    guard let link = try link(owner, name.text) else { return nil }
    return try blob(link.sum)?.content
  }

  func kind(of user: UserKey) throws(Refusal) -> UserKind? {
    guard let content = try content(user, .user) else { return nil }
    return UserKind(rawValue: String(decoding: content, as: UTF8.self))
  }

  /// The lists of a user. A list that cannot be decoded is empty, and gives no rights.
  func lists(of owner: UserKey) throws(Refusal) -> AccessLists {
    func keys(_ name: BlobName) throws(Refusal) -> Set<UserKey>? {
      guard let content = try content(owner, name) else { return nil }
      return (try? AccessLists.keys(content)) ?? []
    }
    return AccessLists(
      author: try content(owner, .author).flatMap { try? UserKey($0) }, editors: try keys(.editors) ?? [],
      moderators: try keys(.moderators) ?? [], subscribers: try keys(.subscribers))
  }

  /// The users whose keys begin with the digits, at most two, because two are already ambiguous.
  func users(_ prefix: HexPrefix) throws(Refusal) -> [UserKey] {
    guard prefix.digits.utf8.count <= 2 * UserKey.size,
      let first = try? UserKey(prefix.lowerBound(count: UserKey.size)),
      let last = try? UserKey(prefix.upperBound(count: UserKey.size))
    else { return [] }
    return try read { (store) throws(StoreError) in try store.users(from: first, through: last, limit: 2) }
  }

  /// Returns up to `limit` users whose keys are greater than `after`, in ascending order.
  func users(after: UserKey?, limit: Int) throws(Refusal) -> [UserKey] {
    guard let first = try? UserKey([UInt8](repeating: 0, count: UserKey.size)),
      let last = try? UserKey([UInt8](repeating: 0xFF, count: UserKey.size))
    else { return [] }
    let users = try read { (store) throws(StoreError) in
      try store.users(from: after ?? first, through: last, limit: limit + 1)
    }
    return Array(users.filter { $0 != after }.prefix(limit))
  }

  // MARK: What a login may know

  /// Whether the login may read the blob: one of its links is readable, or it is an older blob with a readable name.
  /// Nobody may read a flagged blob.
  func mayRead(_ sum: Sum, _ login: Login) throws(Refusal) -> Bool {
    guard let header = try header(sum), let name = header.name, try removals(flagging: sum).isEmpty else {
      return false
    }
    if login.role != .user { return true }
    if !name.isMessage {
      return Permission.mayRead(
        login, directory: header.owner, link: name.link(sum), lists: try lists(of: header.owner))
    }
    // Whoever may remove a message may read it, also while it waits for approval.
    let lists = try lists(of: header.owner)
    if Permission.of(login, owner: header.owner, name: name, lists: lists).contains(.remove) { return true }
    for link in try links(to: sum)
    where Permission.mayRead(login, directory: link.owner, link: link.name, lists: try self.lists(of: link.owner)) {
      return true
    }
    return false
  }

  /// The blobs whose sums begin with the digits and that the login may read, at most two.
  func sums(_ prefix: HexPrefix, _ login: Login) throws(Refusal) -> [Sum] {
    guard prefix.digits.utf8.count <= 2 * Sum.size, let first = try? Sum(prefix.lowerBound(count: Sum.size)),
      let last = try? Sum(prefix.upperBound(count: Sum.size))
    else { return [] }
    let all = try read { (store) throws(StoreError) in try store.sums(from: first, through: last, limit: 64) }
    var readable: [Sum] = []
    for sum in all where try mayRead(sum, login) {
      readable.append(sum)
      if readable.count == 2 { break }
    }
    return readable
  }

  /// The links of a directory that the login may read, in portions. Also returns the number of links that were
  /// examined, and the last name of the portion if others follow.
  func links(
    _ owner: UserKey, prefix: String, after: String?, limit: Int, _ login: Login, _ lists: AccessLists
  ) throws(Refusal) -> (links: [Link], count: Int, last: String?) {
    let all = try read { (store) throws(StoreError) in
      try store.links(owner, prefix: prefix, after: after, limit: limit)
    }
    let readable = all.filter { Permission.mayRead(login, directory: owner, link: $0.name, lists: lists) }
    return (readable, all.count, all.count < limit ? nil : all.last?.name)
  }

  /// Changes of the log, in portions.
  func changes(after number: UInt64, limit: Int) throws(Refusal) -> [LoggedChange] {
    try read { (store) throws(StoreError) in try store.changes(after: number, limit: limit) }
  }

  func flags(after: Flag?, limit: Int) throws(Refusal) -> [Flag] {
    try read { (store) throws(StoreError) in try store.flags(after: after, limit: limit) }
  }
}
