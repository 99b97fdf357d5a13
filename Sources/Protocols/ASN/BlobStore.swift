/// A name in a user's directory that leads to a blob. A directory has each name once.
public struct Link: Hashable, Sendable {
  public let owner: UserKey
  public let name: String
  public let sum: Sum
  /// The epoch of the blob, in nanoseconds since 1970: the newer blob gets the name.
  public let epoch: UInt64

  public init(owner: UserKey, name: String, sum: Sum, epoch: UInt64) {
    (self.owner, self.name, self.sum, self.epoch) = (owner, name, sum, epoch)
  }

  /// Whether this link takes the name from `other`. Blobs of one epoch are ordered by their sums, so that every server
  /// decides alike.
  public func replaces(_ other: Link?) -> Bool {
    guard let other else { return true }
    return epoch == other.epoch ? sum > other.sum : epoch > other.epoch
  }
}

/// One thing to write. The changes of one request are written together or not at all.
public enum StoreChange: Hashable, Sendable {
  /// A blob, under its sum. A store that has it ignores the change.
  case insert(Blob)
  /// A link; it replaces the link of the same owner and name.
  case link(Link)
  /// The link exists no longer.
  case unlink(owner: UserKey, name: String)
  /// The link is taken out of its directory and kept with the removal, for its reversal.
  case hide(Link, removal: Sum)
  /// A hidden link is kept with another removal.
  case rehide(Link, from: Sum, to: Sum)
  /// A hidden link is forgotten. If it returns to its directory, a change `link` follows.
  case unhide(Link, removal: Sum)
  /// A blob is flagged for deletion by a removal.
  case flag(Sum, removal: Sum)
  case unflag(Sum, removal: Sum)
  /// A blob is gone, with its flags, its links and its hidden links.
  case purge(Sum)
}

/// A row of the change log: what became of a blob. Numbers grow by one and are never used again.
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

/// Why a store did not do what was asked.
public enum StoreError: Error, Hashable, Sendable {
  /// The disk is full, or a quota is reached.
  case full
  case readOnly
  /// The payload is for the journal.
  case failed(String)
}

/// What a store holds.
public struct StoreUsage: Hashable, Sendable {
  public var blobs = 0
  /// Octets of all blobs.
  public var bytes: UInt64 = 0
  public var users = 0

  public init() {}
}

/// A removal's mark on a blob.
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
/// Everything is a row: a blob by its sum; a link by owner and name; a hidden link by owner, name, sum and removal; a
/// flag by blob and removal; a change by its number. So a database implements it with five tables, and a mirror needs
/// no other.
///
/// A reader sees what `apply` wrote before, whether it is durable or not; `commit` makes it so. An implementation works
/// synchronously on a thread of its own.
public protocol BlobStore: Sendable {
  /// What is stored beside the octets of a blob; nil if there is no such blob.
  func header(_ sum: Sum) throws(StoreError) -> BlobHeader?
  /// The whole blob.
  func blob(_ sum: Sum) throws(StoreError) -> Blob?
  /// Sums within the bounds in ascending order, `limit` of them at most.
  func sums(from first: Sum, through last: Sum, limit: Int) throws(StoreError) -> [Sum]

  func link(_ owner: UserKey, _ name: String) throws(StoreError) -> Link?
  /// Links of an owner whose names begin with `prefix` and come after `after`, ordered by the octets of the name.
  func links(_ owner: UserKey, prefix: String, after: String?, limit: Int) throws(StoreError) -> [Link]
  /// Links to a blob, hidden ones excluded.
  func links(to sum: Sum) throws(StoreError) -> [Link]
  /// Links that a removal hid; of one blob only, unless `sum` is nil.
  func hiddenLinks(removal: Sum, of sum: Sum?) throws(StoreError) -> [Link]
  func linkCount(_ owner: UserKey) throws(StoreError) -> Int

  /// Users within the bounds in ascending order: the owners of a link `asn/user`.
  func users(from first: UserKey, through last: UserKey, limit: Int) throws(StoreError) -> [UserKey]

  /// The removals that flag a blob, in ascending order.
  func removals(flagging sum: Sum) throws(StoreError) -> [Sum]
  /// Flags after `after`, in ascending order.
  func flags(after: Flag?, limit: Int) throws(StoreError) -> [Flag]

  /// Changes after this number, the oldest first.
  func changes(after number: UInt64, limit: Int) throws(StoreError) -> [LoggedChange]
  func usage() throws(StoreError) -> StoreUsage

  /// Writes all of the changes or, if it throws, none.
  mutating func apply(_ changes: [StoreChange]) throws(StoreError)
  /// Makes everything that was applied durable. If it throws, everything since the last commit is undone.
  mutating func commit() throws(StoreError)
}

extension BlobStore {
  public func isFlagged(_ sum: Sum) throws(StoreError) -> Bool { try !removals(flagging: sum).isEmpty }
}
