/// A name in a user's directory that refers to a blob. A directory has each name once.
public struct Link: Hashable, Sendable {
  public let owner: UserKey
  public let name: String
  public let sum: Sum
  /// The epoch of the blob, in nanoseconds since 1970: the newer blob gets the name.
  public let epoch: UInt64

  public init(owner: UserKey, name: String, sum: Sum, epoch: UInt64) {
    (self.owner, self.name, self.sum, self.epoch) = (owner, name, sum, epoch)
  }

  /// Compares the names by their octets. Swift compares strings by characters, and some characters have several
  /// encodings.
  public static func == (left: Link, right: Link) -> Bool {
    left.sum == right.sum && left.owner == right.owner && left.epoch == right.epoch
      && left.name.utf8.elementsEqual(right.name.utf8)
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(owner)
    hasher.combine(sum)
  }

  /// Whether this link takes the name from `other`. Blobs of one epoch are ordered by their sums, so that all servers
  /// decide alike.
  public func replaces(_ other: Link?) -> Bool {
    guard let other else { return true }
    return epoch == other.epoch ? sum > other.sum : epoch > other.epoch
  }
}

/// One change of a store. The changes of one request are written together or not at all.
public enum StoreChange: Hashable, Sendable {
  /// Insert a blob under its sum. A store that has the blob ignores the change.
  case insert(Blob)
  /// Add a link, which replaces a link of equal owner and name.
  case link(Link)
  /// Remove a link from its directory for good.
  case unlink(owner: UserKey, name: String)
  /// Remove a link from its directory, and store it with the removal, for the case that the removal is reverted.
  case hide(Link, removal: Sum)
  /// Assign a hidden link to another removal.
  case rehide(Link, from: Sum, to: Sum)
  /// Remove a hidden link. If it returns to its directory, a change `link` follows.
  case unhide(Link, removal: Sum)
  /// Flag a blob for deletion because of a removal.
  case flag(Sum, removal: Sum)
  case unflag(Sum, removal: Sum)
  /// Remove a blob with its flags, its links and its hidden links.
  case purge(Sum)
}

/// A row of the change log: a change of a blob. Numbers grow by one and are never reused.
public struct LoggedChange: Hashable, Sendable {
  public enum Kind: UInt8, Sendable {
    case inserted = 1
    case purged = 2
  }

  public let number: UInt64
  public let kind: Kind
  public let sum: Sum

  public init(number: UInt64, kind: Kind, sum: Sum) {
    (self.number, self.kind, self.sum) = (number, kind, sum)
  }
}

/// Reason why a store refused a change or a query.
public enum StoreError: Error, Hashable, Sendable {
  /// The disk is full, or a quota is reached.
  case full
  case readOnly
  /// Any other failure. The text is for the journal only.
  case failed(String)
}

/// Number and size of everything in a store, for its limits.
public struct StoreUsage: Hashable, Sendable {
  public var blobs = 0
  /// Total size of all blobs, in octets.
  public var bytes: UInt64 = 0
  public var users = 0
  /// Number of links, including hidden ones.
  public var links = 0

  public init() {}

  /// Octets that count towards the limit of the store: the octets of the blobs, and a fixed number for each link.
  var octets: UInt64 { bytes + UInt64(max(0, links)) * Limits.linkOctets }
}

/// Blobs and users that count towards the limits of one author.
public struct AuthorShare: Hashable, Sendable {
  /// Size of all blobs by the author, in octets.
  public var bytes: UInt64 = 0
  /// Number of users that the author created, counted by its blobs `asn/user`.
  public var users = 0

  public init() {}
}

/// The flag that a removal sets on a blob.
public struct Flag: Hashable, Sendable, Comparable {
  public let blob: Sum
  public let removal: Sum

  public init(_ blob: Sum, removal: Sum) {
    (self.blob, self.removal) = (blob, removal)
  }

  public static func < (left: Flag, right: Flag) -> Bool {
    left.blob == right.blob ? left.removal < right.removal : left.blob < right.blob
  }
}

/// The blobs of a server with their links, flags and change log. Facts: asn.md sections 7 and 9
///
/// The data has five kinds of rows. The keys are: for a blob its sum; for a link owner and name; for a hidden link
/// owner, name, sum and removal; for a flag blob and removal; for a change its number. A database implements it with
/// five tables and counts of their rows, and a mirror needs no others.
///
/// A reader sees the changes of `apply` before they are durable; `commit` makes them durable. An implementation works
/// synchronously on a separate thread.
public protocol BlobStore: Sendable {
  /// The header of a blob; nil if there is no such blob.
  func header(_ sum: Sum) throws(StoreError) -> BlobHeader?
  /// Returns the blob with this sum; nil if the store does not have it.
  func blob(_ sum: Sum) throws(StoreError) -> Blob?
  /// Sums within the bounds in ascending order, at most `limit`.
  func sums(from first: Sum, through last: Sum, limit: Int) throws(StoreError) -> [Sum]

  func link(_ owner: UserKey, _ name: String) throws(StoreError) -> Link?
  /// Links of an owner whose names begin with `prefix` and are greater than `after`, ordered by the octets of the name.
  func links(_ owner: UserKey, prefix: String, after: String?, limit: Int) throws(StoreError) -> [Link]
  /// Links to a blob, without hidden ones.
  func links(to sum: Sum) throws(StoreError) -> [Link]
  /// Links that a removal hid: those to the blob `sum`, or to any blob if `sum` is nil.
  func hiddenLinks(removal: Sum, of sum: Sum?) throws(StoreError) -> [Link]
  func linkCount(_ owner: UserKey) throws(StoreError) -> Int

  /// Users within the bounds in ascending order. A user is the owner of a link `asn/user`.
  func users(from first: UserKey, through last: UserKey, limit: Int) throws(StoreError) -> [UserKey]

  /// The removals that flag a blob, in ascending order.
  func removals(flagging sum: Sum) throws(StoreError) -> [Sum]
  /// Flags after `after`, in ascending order.
  func flags(after: Flag?, limit: Int) throws(StoreError) -> [Flag]

  /// Changes with a number above `number`, the oldest first.
  func changes(after number: UInt64, limit: Int) throws(StoreError) -> [LoggedChange]
  func usage() throws(StoreError) -> StoreUsage
  func share(of author: UserKey) throws(StoreError) -> AuthorShare

  /// Writes all of the changes, or throws and writes none.
  mutating func apply(_ changes: [StoreChange]) throws(StoreError)
  /// Makes all applied changes durable. If it throws, all changes since the last commit are undone.
  mutating func commit() throws(StoreError)
}

extension BlobStore {
  public func isFlagged(_ sum: Sum) throws(StoreError) -> Bool { try !removals(flagging: sum).isEmpty }
}
