import Bytes

/// The identity and the rights of a session.
public struct Login: Hashable, Sendable {
  public enum Role: Sendable, CaseIterable {
    case user
    /// The key of the administrator in the configuration.
    case admin
    /// The service key: another server of the same service (a mirror).
    case service
  }

  public let key: UserKey
  public let role: Role

  public init(_ key: UserKey, _ role: Role = .user) {
    (self.key, self.role) = (key, role)
  }
}

/// The lists in a user's control blobs, as the server uses them.
public struct AccessLists: Hashable, Sendable {
  /// The author of the directory, from the control blob `asn/author`; nil without one.
  public var author: UserKey?
  public var editors: Set<UserKey>
  /// The moderators of the user's messages; empty if messages need no approval.
  public var moderators: Set<UserKey>
  /// The subscribers; nil if the user has no such list, so that its marks are pushed to everybody.
  public var subscribers: Set<UserKey>?

  public init(
    author: UserKey? = nil, editors: Set<UserKey> = [], moderators: Set<UserKey> = [], subscribers: Set<UserKey>? = nil
  ) {
    (self.author, self.editors, self.moderators, self.subscribers) = (author, editors, moderators, subscribers)
  }

  public var isModerated: Bool { !moderators.isEmpty }

  /// Decodes a list of keys of 32 octets each. Throws `badValue` if the content ends within a key, `tooLong` for more
  /// than 16,384 keys.
  public static func keys(_ content: ArraySlice<UInt8>) throws(WireError) -> Set<UserKey> {
    guard content.count.isMultiple(of: UserKey.size) else { throw .badValue("list of keys") }
    guard content.count <= Limits.keysInList * UserKey.size else {
      throw .tooLong(field: "list of keys", limit: Limits.keysInList)
    }
    var keys: Set<UserKey> = []
    var reader = ByteReader(content)
    while !reader.isAtEnd { keys.insert(try UserKey(reading: &reader)) }
    return keys
  }
}

/// The state of a message to a moderated forum or bridge. Any other blob is published at once.
public enum Publicity: Sendable, CaseIterable {
  case published
  /// A message to a moderated user that no moderator has approved yet.
  case awaitingApproval
  /// A moderator has just approved the message. The moderators already have it.
  case approved
}

/// The rights of a login on a blob. They implement both lists of rights in the document. Facts: asn.md section 10
public struct Permission: OptionSet, Hashable, Sendable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Permission to add the blob to the store.
  public static let add = Permission(rawValue: 1)
  /// Permission to get the blob as a push when it is added or approved.
  public static let receive = Permission(rawValue: 2)
  /// Permission to remove the blob by a removal.
  public static let remove = Permission(rawValue: 4)
  /// Permission to approve the blob, which is a message.
  public static let approve = Permission(rawValue: 8)

  /// The permissions of a login on a blob.
  ///
  /// - Parameters:
  ///   - lists: the lists of the blob's owner.
  ///   - publicity: the state that the push reports; it has an effect for messages only.
  public static func of(
    _ login: Login, owner: UserKey, name: BlobName, lists: AccessLists, publicity: Publicity = .published
  ) -> Permission {
    var permission: Permission = []
    let isOwner = owner == login.key
    let isEditor = lists.author == login.key || lists.editors.contains(login.key)
    if login.role != .user || isOwner || isEditor {
      permission.formUnion([.add, .remove])
    }
    if name.isMessage {
      permission.insert(.add)
      if lists.moderators.contains(login.key) { permission.insert(.approve) }
    }
    if receives(login, isOwner: isOwner, name: name, lists: lists, publicity) { permission.insert(.receive) }
    return permission
  }

  private static func receives(
    _ login: Login, isOwner: Bool, name: BlobName, lists: AccessLists, _ publicity: Publicity
  ) -> Bool {
    let isSubscriber = lists.subscribers?.contains(login.key) ?? false
    let isModerator = lists.moderators.contains(login.key)
    if name.isMessage {
      switch publicity {
      case .published: return login.role == .service || isOwner || isSubscriber || isModerator
      case .awaitingApproval: return login.role == .service || isModerator
      case .approved: return (isOwner || isSubscriber) && !isModerator
      }
    }
    if login.role == .service || isOwner { return true }
    if name == .mark { return lists.subscribers == nil || isSubscriber }
    return name == .bridge && isSubscriber
  }

  /// Whether a login may read a blob that a directory links under this name.
  ///
  /// Messages are readable for the owner of the directory and for the keys in its lists. Marks are readable for the
  /// owner and, if there is a list of subscribers, for these only. Everybody may read all other blobs.
  ///
  /// - Parameter lists: the lists of the directory's owner.
  public static func mayRead(_ login: Login, directory owner: UserKey, link name: String, lists: AccessLists) -> Bool {
    if login.role != .user || owner == login.key { return true }
    let isSubscriber = lists.subscribers?.contains(login.key) ?? false
    if name.hasPrefix(BlobName.messages) {
      return lists.author == login.key || lists.editors.contains(login.key) || lists.moderators.contains(login.key)
        || isSubscriber
    }
    return name != BlobName.mark.text || lists.subscribers == nil || isSubscriber
  }

  /// Checks that the content of a control blob has its required form. The content of other blobs is opaque.
  ///
  /// Throws `badValue` or `tooLong`.
  public static func checkContent(_ name: BlobName, _ content: ArraySlice<UInt8>) throws(WireError) {
    switch name {
    case .auth, .author: _ = try UserKey(content)
    case .user:
      guard UserKind(rawValue: String(decoding: content, as: UTF8.self)) != nil else { throw .badValue("kind of user") }
    case .moderators:
      guard try AccessLists.keys(content).count <= Limits.moderators else {
        throw .tooLong(field: "list of moderators", limit: Limits.moderators)
      }
    case .editors, .subscribers: _ = try AccessLists.keys(content)
    case .mark: _ = try Mark(content)
    case .removals, .approvals:
      guard try Sum.list(content).count <= Limits.sumsInOneRequest else {
        throw .tooLong(field: "list of sums", limit: Limits.sumsInOneRequest)
      }
    case .vouchers: guard content.count == PDU.signature else { throw .badValue("signature") }
    default: break
    }
  }
}
