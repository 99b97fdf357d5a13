import Bytes

/// Why a request failed: a result code, and a sentence for the peer.
public struct Refusal: Error, Hashable, Sendable {
  public let result: ResultCode
  public let sentence: String
  /// The store error that caused the refusal, if any. It is not sent to the peer.
  public let store: StoreError?

  public init(_ result: ResultCode, _ sentence: String? = nil) {
    (self.result, self.sentence, store) = (result, sentence ?? result.sentence, nil)
  }

  public init(_ store: StoreError) {
    (result, sentence, self.store) = (.failure, "The blob cannot be stored", store)
  }

  static let denied = Refusal(.denied)
}

/// A blob that goes to every session that may receive it, except the sender's. Each session gets one copy.
public struct Push: Hashable, Sendable {
  public let blob: Blob
  public let name: BlobName
  /// The lists of the blob's owner at the time when the blob was added.
  public let lists: AccessLists
  public let publicity: Publicity

  public func isFor(_ login: Login) -> Bool {
    Permission.of(login, owner: blob.header.owner, name: name, lists: lists, publicity: publicity).contains(.receive)
  }
}

/// The effects of a request: changes to write together, and blobs to push once the changes are durable.
public struct Publication: Hashable, Sendable {
  public var changes: [StoreChange] = []
  public var pushes: [Push] = []

  public init() {}

  mutating func add(_ other: Publication) {
    changes += other.changes
    pushes += other.pushes
  }
}

/// The rules for adding blobs to a store: they derive changes and pushes from the store's state and a request. Facts:
/// asn.md sections 7, 9 and 10
public struct Publisher: Sendable {
  /// Configured limits on the blobs, users, names and octets of a store.
  public struct Quota: Hashable, Sendable {
    /// Maximum size of a blob with its header, in octets.
    public var blob = 1024 * 1024
    public var users = 100_000
    public var namesPerUser = 100_000
    /// Maximum size of all blobs and links, in octets; each link counts as a fixed number.
    public var store: UInt64 = 10 * 1024 * 1024 * 1024
    /// Maximum octets of the blobs that one user wrote. The administrator and the service have no such limit.
    public var storePerUser: UInt64 = 1024 * 1024 * 1024
    /// Maximum number of users that one user created. The administrator and the service have no such limit.
    public var usersPerUser = 1000

    public init() {}
  }

  public var quota: Quota

  public init(quota: Quota = Quota()) { self.quota = quota }

  /// Whether a blob of this name is stored. The current mark of an actual user is not stored, and neither is a blob
  /// that a bridge forwards.
  public static func isStored(_ name: BlobName, ownerKind: UserKind?) -> Bool {
    if name == .bridge { return false }
    return name != .mark || (ownerKind != nil && ownerKind != .actual)
  }

  /// The effects of a blob that a login sent, or that the server makes for a login.
  ///
  /// - Parameters:
  ///   - subject: the user that a voucher is about, if the request names it.
  ///   - now: the server's time in nanoseconds since 1970.
  /// - Returns: nil if the store already has the blob.
  public func publish(
    _ blob: Blob, by login: Login, subject: UserKey? = nil, in store: some BlobStore, now: UInt64
  ) throws(Refusal) -> Publication? {
    let header = blob.header
    guard let name = header.name else { throw Refusal(.illFormatted, "The name of the blob is not allowed") }
    guard login.role != .user || header.author == login.key else {
      throw Refusal(.denied, "The author of the blob is not the user of the session")
    }
    let (latest, overflow) = now.addingReportingOverflow(Limits.epochAhead)
    guard overflow || header.epoch <= latest else {
      throw Refusal(.illFormatted, "The epoch of the blob is in the future")
    }
    guard header.size <= quota.blob else {
      throw Refusal(.failure, "The blob has \(header.size) octets; the limit is \(quota.blob)")
    }
    do throws(WireError) {
      try Permission.checkContent(name, blob.content)
    } catch {
      throw Refusal(.illFormatted, "The content of \(name.text) is malformed: \(error)")
    }
    guard login.role != .user || !name.isReserved else {
      throw Refusal(.denied, "\(name.text) is the server's to write")
    }
    if name == .mark, let mark = try? Mark(blob.content), mark.user != Array(header.owner.bytes.prefix(8)) {
      throw Refusal(.illFormatted, "The mark names another user")
    }
    // The signature of a user over its own key is that of its login, and everybody reads vouchers.
    guard name != .vouchers || login.role != .user || (subject ?? header.owner) != header.author else {
      throw Refusal(.illFormatted, "A user cannot vouch for itself")
    }
    let view = StoreView(store)
    let lists = try view.lists(of: header.owner)
    guard Permission.of(login, owner: header.owner, name: name, lists: lists).contains(.add) else { throw .denied }
    let kind = try view.kind(of: header.owner)
    guard kind != nil || login.role != .user || header.owner == login.key else {
      throw Refusal(.failure, "No such USER")
    }
    if name == .user, login.role == .user { try Self.checkKind(blob, of: kind) }
    return try place(blob, name: name, lists: lists, kind: kind, by: login, subject: subject, in: store)
  }

  /// The effects of a blob that the server itself makes, which needs no permission.
  func place(
    _ blob: Blob, name: BlobName, lists: AccessLists, kind: UserKind?, by login: Login, subject: UserKey? = nil,
    in store: some BlobStore
  ) throws(Refusal) -> Publication? {
    let view = StoreView(store)
    let isModerated = name.isMessage && lists.isModerated
    var publication = Publication()
    publication.pushes = [
      Push(blob: blob, name: name, lists: lists, publicity: isModerated ? .awaitingApproval : .published)
    ]
    guard Self.isStored(name, ownerKind: kind) else { return publication }
    guard try view.header(blob.sum) == nil else { return nil }
    let usage = try view.usage()
    // Blobs can be removed from a full store: by users, and after they used their reserve by the administrator.
    let reserve = name != .removals ? 0 : login.role == .user ? Limits.removalReserve : 2 * Limits.removalReserve
    let newLinks = try links(of: blob, name: name, lists: lists, subject: subject, view)
    let octets = UInt64(blob.bytes.count) + UInt64(newLinks.count) * Limits.linkOctets
    guard usage.octets + octets <= quota.store + UInt64(reserve) else { throw Refusal(StoreError.full) }
    if login.role == .user { try checkShare(blob, name, reserve: UInt64(reserve), by: login, view) }
    publication.changes = [.insert(blob)]
    for link in newLinks {
      let old = try view.link(link.owner, link.name)
      guard link.replaces(old) else { continue }
      if old == nil { try checkNames(link, view) }
      if link.name == BlobName.user.text, old == nil, usage.users >= quota.users {
        throw Refusal(.failure, "The server has reached its limit of \(quota.users) users")
      }
      publication.changes.append(.link(link))
    }
    if name == .approvals { publication.add(try approval(blob, by: login, view)) }
    if name == .removals { publication.changes += try removal(blob, by: login, view) }
    return publication
  }

  /// Refuses a blob if its author would exceed its share of the store, or its share of all users.
  private func checkShare(
    _ blob: Blob, _ name: BlobName, reserve: UInt64, by login: Login, _ view: StoreView<some BlobStore>
  ) throws(Refusal) {
    let share = try view.share(of: blob.header.author)
    guard share.bytes + UInt64(blob.bytes.count) <= quota.storePerUser + reserve else {
      throw Refusal(.failure, "The user has reached the limit of \(quota.storePerUser) octets; remove blobs")
    }
    guard name != .user || share.users < quota.usersPerUser else {
      throw Refusal(.failure, "The user has created its limit of \(quota.usersPerUser) users")
    }
  }

  /// Refuses a blob `asn/user` that would allow logins with a key that may not log in at present, such as the key of a
  /// forum or of a removed user.
  private static func checkKind(_ blob: Blob, of kind: UserKind?) throws(Refusal) {
    let wanted = UserKind(rawValue: String(decoding: blob.content, as: UTF8.self))
    guard wanted?.mayLogIn != true || kind?.mayLogIn == true else {
      throw Refusal(.denied, "Only the administrator can create a user that may log in")
    }
  }

  /// Checks the number of names in a directory. Messages may fill nine tenths of it, so that its owner can still write.
  /// Removals may exceed the limit by a tenth, so that the owner of a full directory can remove blobs.
  private func checkNames(_ link: Link, _ view: StoreView<some BlobStore>) throws(Refusal) {
    let tenth = quota.namesPerUser / 10
    let limit =
      link.name.hasPrefix(BlobName.messages)
      ? 9 * tenth : link.name.hasPrefix(BlobName.removals.text) ? quota.namesPerUser + tenth : quota.namesPerUser
    guard try view.linkCount(link.owner) < limit else {
      throw Refusal(.failure, "USER \(link.owner) has reached the limit of \(quota.namesPerUser) names")
    }
  }

  private func links(
    of blob: Blob, name: BlobName, lists: AccessLists, subject: UserKey?, _ view: StoreView<some BlobStore>
  ) throws(Refusal) -> [Link] {
    let header = blob.header
    func link(_ owner: UserKey, _ name: String) -> Link {
      Link(owner: owner, name: name, sum: blob.sum, epoch: header.epoch)
    }
    let own = name.link(blob.sum)
    if name.isMessage {
      // The author has its message; the owner has it at once or after approval, and until then the moderators have it.
      var readers: Set<UserKey> = [header.author]
      if lists.isModerated {
        // The list of an older store or of another server may be longer, and name keys that nobody has.
        for moderator in lists.moderators.sorted().prefix(Limits.moderators) where try view.kind(of: moderator) != nil {
          readers.insert(moderator)
        }
      } else {
        readers.insert(header.owner)
      }
      return readers.sorted().map { link($0, own) }
    }
    if name == .vouchers {
      // The originals name the subject as the owner; a blob by which somebody vouches for itself names nobody else.
      guard let subject = subject ?? (header.owner == header.author ? nil : header.owner) else {
        return [link(header.owner, own)]
      }
      return [
        link(header.author, BlobName.vouchers.text + subject.hex),
        link(subject, BlobName.references + header.author.hex),
      ]
    }
    return [link(header.owner, own)]
  }

  /// The effects of an approval: the approved messages are linked for their owners and pushed. Messages that are
  /// already linked are skipped.
  private func approval(
    _ approval: Blob, by login: Login, _ view: StoreView<some BlobStore>
  ) throws(Refusal) -> Publication {
    var publication = Publication()
    for sum in Set((try? Sum.list(approval.content)) ?? []).sorted() {
      guard try view.mayRead(sum, login), let message = try view.blob(sum), let name = message.header.name else {
        throw StoreView<MemoryBlobStore>.missing
      }
      let lists = try view.lists(of: message.header.owner)
      guard
        login.role != .user
          || Permission.of(login, owner: message.header.owner, name: name, lists: lists).contains(.approve)
      else { throw .denied }
      guard name.isMessage else { throw Refusal(.illFormatted, "\(sum) is not a message") }
      let link = Link(owner: message.header.owner, name: name.link(sum), sum: sum, epoch: message.header.epoch)
      guard try view.link(link.owner, link.name) == nil else { continue }
      publication.changes.append(.link(link))
      publication.pushes.append(Push(blob: message, name: name, lists: lists, publicity: .approved))
    }
    return publication
  }

  /// The effects of a removal: the blobs that it lists are flagged, and their links are hidden.
  ///
  /// The removal of a removal restores the blobs of the earlier one, unless `gc` has purged them.
  private func removal(
    _ removal: Blob, by login: Login, _ view: StoreView<some BlobStore>
  ) throws(Refusal) -> [StoreChange] {
    for sum in (try? Sum.list(removal.content)) ?? [] {
      guard let header = try view.header(sum), let name = header.name else { continue }
      let lists = try view.lists(of: header.owner)
      guard Permission.of(login, owner: header.owner, name: name, lists: lists).contains(.remove) else { throw .denied }
    }
    var plan = RemovalPlan(view)
    try plan.activate(removal)
    return plan.changes
  }
}

/// The effects of one removal, computed before any change is written. Each lookup takes the planned changes into
/// account.
struct RemovalPlan<Store: BlobStore> {
  private struct Name: Hashable {
    let owner: UserKey
    /// The name as octets, because two names with equal characters can be different names.
    let octets: [UInt8]

    init(_ link: Link) { (owner, octets) = (link.owner, Array(link.name.utf8)) }
  }
  private struct Hidden: Hashable {
    let link: Link
    let removal: Sum
  }

  private(set) var changes: [StoreChange] = []
  private let view: StoreView<Store>
  private var flags: [Sum: Set<Sum>] = [:]
  private var live: [Sum: [Link]] = [:]
  private var hidden: [Sum: [Hidden]] = [:]
  private var names: [Name: Link?] = [:]

  init(_ view: StoreView<Store>) { self.view = view }

  /// Flags the blobs in the list of the removal.
  mutating func activate(_ removal: Blob) throws(Refusal) { try activate(removal, depth: 0) }

  private mutating func activate(_ removal: Blob, depth: Int) throws(Refusal) {
    guard depth < Limits.reversals else { throw Refusal(.failure, "Too many removals remove one another") }
    for target in (try? Sum.list(removal.content)) ?? [] {
      guard let header = try view.header(target) else { continue }
      var flags = try flags(of: target)
      let wasFlagged = !flags.isEmpty
      guard flags.insert(removal.sum).inserted else { continue }
      self.flags[target] = flags
      changes.append(.flag(target, removal: removal.sum))
      guard !wasFlagged else { continue }
      for link in try links(to: target) {
        changes.append(.hide(link, removal: removal.sum))
        hidden[target, default: []].append(Hidden(link: link, removal: removal.sum))
        names[Name(link)] = .some(nil)
      }
      live[target] = []
      if header.name == .removals, let inner = try view.blob(target) { try deactivate(inner, depth: depth + 1) }
    }
  }

  private mutating func deactivate(_ removal: Blob, depth: Int) throws(Refusal) {
    guard depth < Limits.reversals else { throw Refusal(.failure, "Too many removals remove one another") }
    for target in (try? Sum.list(removal.content)) ?? [] {
      guard let header = try view.header(target) else { continue }
      // The hidden links are read before the flag is removed.
      let hiding = try hidden(of: target)
      var flags = try flags(of: target)
      guard flags.remove(removal.sum) != nil else { continue }
      self.flags[target] = flags
      changes.append(.unflag(target, removal: removal.sum))
      hidden[target] = try hiding.compactMapTyped { (entry) throws(Refusal) -> Hidden? in
        guard entry.removal == removal.sum else { return entry }
        if let next = flags.min() {
          changes.append(.rehide(entry.link, from: removal.sum, to: next))
          return Hidden(link: entry.link, removal: next)
        }
        changes.append(.unhide(entry.link, removal: removal.sum))
        try restore(entry.link)
        return nil
      }
      if flags.isEmpty, header.name == .removals, let inner = try view.blob(target) {
        try activate(inner, depth: depth + 1)
      }
    }
  }

  /// Restores a hidden link, unless a newer blob has its name.
  private mutating func restore(_ link: Link) throws(Refusal) {
    let name = Name(link)
    let current: Link?
    if let planned = names[name] { current = planned } else { current = try view.link(link.owner, link.name) }
    guard link.replaces(current) else { return }
    if let current { live[current.sum] = try links(to: current.sum).filter { $0 != current } }
    live[link.sum] = try links(to: link.sum) + [link]
    names[name] = .some(link)
    changes.append(.link(link))
  }

  private mutating func flags(of sum: Sum) throws(Refusal) -> Set<Sum> {
    if let known = flags[sum] { return known }
    let stored = Set(try view.removals(flagging: sum))
    flags[sum] = stored
    return stored
  }

  private mutating func links(to sum: Sum) throws(Refusal) -> [Link] {
    if let known = live[sum] { return known }
    let stored = try view.links(to: sum)
    live[sum] = stored
    return stored
  }

  private mutating func hidden(of sum: Sum) throws(Refusal) -> [Hidden] {
    if let known = hidden[sum] { return known }
    var stored: [Hidden] = []
    for removal in try flags(of: sum).sorted() {
      stored += try view.hiddenLinks(removal: removal, of: sum).map { Hidden(link: $0, removal: removal) }
    }
    hidden[sum] = stored
    return stored
  }
}

extension Array {
  /// `compactMap` for a body with typed errors.
  fileprivate func compactMapTyped<Result, Failure: Error>(
    _ body: (Element) throws(Failure) -> Result?
  ) throws(Failure) -> [Result] {
    var results: [Result] = []
    for element in self {
      if let result = try body(element) { results.append(result) }
    }
    return results
  }
}
