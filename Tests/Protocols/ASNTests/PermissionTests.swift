import ASN
import Bytes
import Testing

@Suite("Permissions of ASN by the lists of a user")
struct PermissionTests {
  static let login = key(1)
  static let other = key(2)

  static func key(_ number: UInt8) -> UserKey {
    guard let key = try? UserKey([UInt8](repeating: number, count: 32)) else { preconditionFailure("32 octets") }
    return key
  }

  /// One row of the table: what is true of the login, and what the blob is.
  struct Row: Sendable, CustomTestStringConvertible {
    let role: Login.Role
    let isOwner, isAuthor, isEditor, isModerator: Bool
    /// Nil: there is no list of subscribers.
    let isSubscriber: Bool?
    let name: String
    let publicity: Publicity

    var testDescription: String { "\(self)" }

    var login: Login { Login(PermissionTests.login, role) }
    var owner: UserKey { isOwner ? PermissionTests.login : PermissionTests.other }
    var lists: AccessLists {
      let stranger = PermissionTests.key(9)
      return AccessLists(
        author: isAuthor ? PermissionTests.login : stranger, editors: isEditor ? [PermissionTests.login] : [stranger],
        moderators: isModerator ? [PermissionTests.login] : [stranger],
        subscribers: isSubscriber.map { $0 ? [PermissionTests.login, stranger] : [stranger] })
    }
  }

  /// 3 roles, 4 relations, 3 states of the subscribers, 5 names, 3 stages: 2,160 rows.
  static let rows: [Row] = {
    var rows: [Row] = []
    for role in Login.Role.allCases {
      for bits in 0..<16 {
        for subscriber in [nil, false, true] {
          for name in ["", "asn/messages/", "asn/mark", "asn/bridge", "photos/x"] {
            for publicity in Publicity.allCases {
              rows.append(
                Row(
                  role: role, isOwner: bits & 1 != 0, isAuthor: bits & 2 != 0, isEditor: bits & 4 != 0,
                  isModerator: bits & 8 != 0, isSubscriber: subscriber, name: name, publicity: publicity))
            }
          }
        }
      }
    }
    return rows
  }()

  /// The document's list: LOGIN == ADMIN || LOGIN == SERVICE || OWNER == LOGIN || ASN_AUTHOR == LOGIN ||
  /// ASN_EDITORS{LOGIN}
  /// || NAME == "".
  private static func mayAdd(_ row: Row) -> Bool {
    switch (row.role, row.name) {
    case (.admin, _), (.service, _), (_, ""), (_, "asn/messages/"): true
    case (.user, _): row.isOwner || row.isAuthor || row.isEditor
    }
  }

  /// LOGIN == SERVICE || OWNER == LOGIN || (NAME == "" && (ASN_SUBSCRIBERS{LOGIN} || ASN_MODERATORS{LOGIN})) ||
  /// (NAME == "asn/mark" && (!ASN_SUBSCRIBERS || ASN_SUBSCRIBERS{LOGIN})). A bridge's blobs go to its subscribers. A
  /// message that awaits approval goes to moderators and mirrors only; when it is approved, to those that do not have
  /// it.
  private static func receives(_ row: Row) -> Bool {
    let subscribes = row.isSubscriber == true
    switch row.name {
    case "", "asn/messages/":
      switch row.publicity {
      case .published: return row.role == .service || row.isOwner || subscribes || row.isModerator
      case .awaitingApproval: return row.role == .service || row.isModerator
      case .approved: return !row.isModerator && (row.isOwner || subscribes)
      }
    case "asn/mark": return row.role == .service || row.isOwner || row.isSubscriber != false
    case "asn/bridge": return row.role == .service || row.isOwner || subscribes
    default: return row.role == .service || row.isOwner
    }
  }

  @Test("The right to add, receive, remove and approve a blob follows the table in 2,160 combinations")
  func everyCombination() throws {
    #expect(Self.rows.count == 2160)
    for row in Self.rows {
      let permission = Permission.of(
        row.login, owner: row.owner, name: try BlobName(row.name), lists: row.lists, publicity: row.publicity)
      let isMessage = row.name.isEmpty || row.name == "asn/messages/"
      let mayRemove = row.role != .user || row.isOwner || row.isAuthor || row.isEditor
      #expect(permission.contains(.add) == Self.mayAdd(row), "add: \(row)")
      #expect(permission.contains(.receive) == Self.receives(row), "receive: \(row)")
      #expect(permission.contains(.remove) == mayRemove, "remove: \(row)")
      #expect(permission.contains(.approve) == (isMessage && row.isModerator), "approve: \(row)")
    }
  }

  @Test("Messages are readable by owner and listed keys, marks by subscribers, and other blobs by everybody")
  func reading() {
    for row in Self.rows where row.name.isEmpty && row.publicity == .published {
      func mayRead(_ name: String) -> Bool {
        Permission.mayRead(row.login, directory: row.owner, link: name, lists: row.lists)
      }
      let isTrusted = row.role != .user || row.isOwner
      let isListed = row.isAuthor || row.isEditor || row.isModerator || row.isSubscriber == true
      #expect(mayRead("asn/messages/0123") == (isTrusted || isListed), "\(row)")
      #expect(mayRead("asn/mark") == (isTrusted || row.isSubscriber != false), "\(row)")
      for name in ["asn/auth", "asn/messages", "asn/removals/01", "photos/x"] { #expect(mayRead(name), "\(row)") }
    }
  }

  @Test("A list of editors, moderators or subscribers that does not exist contains nobody")
  func noLists() throws {
    let permission = Permission.of(Login(Self.login), owner: Self.other, name: try BlobName("x"), lists: AccessLists())
    #expect(permission == [])
    let message = Permission.of(Login(Self.login), owner: Self.other, name: .message, lists: AccessLists())
    #expect(message == .add)
  }

  @Test("A list of keys has 32 bytes for each key, and at most 16,384 keys")
  func lists() throws {
    #expect(try AccessLists.keys([]) == [])
    #expect(try AccessLists.keys((Self.login.bytes + Self.other.bytes)[...]) == [Self.login, Self.other])
    #expect(throws: WireError.badValue("list of keys")) { try AccessLists.keys(Self.login.bytes.dropLast()) }
    let moderators = (0..<65).flatMap { [UInt8](repeating: UInt8($0), count: 32) }
    try Permission.checkContent(.moderators, moderators.dropLast(32))
    #expect(throws: WireError.tooLong(field: "list of moderators", limit: 64)) {
      try Permission.checkContent(.moderators, moderators[...])
    }
    let many = [UInt8](repeating: 1, count: 32 * 16_385)
    #expect(throws: WireError.tooLong(field: "list of keys", limit: 16_384)) { try AccessLists.keys(many[...]) }
  }

  @Test(
    "A control blob whose content is malformed is refused",
    arguments: [
      ("asn/auth", 31), ("asn/auth", 33), ("asn/author", 0), ("asn/user", 4), ("asn/editors", 33),
      ("asn/moderators", 1),
      ("asn/subscribers", 63), ("asn/mark", 15), ("asn/mark", 17), ("asn/removals/", 0), ("asn/removals/", 65),
      ("asn/approvals/", 63), ("asn/vouchers/", 63),
    ])
  func content(name: String, count: Int) throws {
    let name = try BlobName(name)
    let content = [UInt8](repeating: 0, count: count)
    #expect(throws: WireError.self) { try Permission.checkContent(name, content[...]) }
  }
}

@Suite("ASN requests in each state of a session")
struct SessionStateTests {
  /// The rows of the table in the documentation of `SessionState`.
  static let accepted: [(ask: SessionState.Ask, states: Set<SessionState>)] = [
    (.command("echo"), [.opened, .provisional, .established]),
    (.command("auth"), [.provisional, .established]),
    (.login, [.opened]),
    (.blob, [.established]),
    (.pause, [.established]),
    (.resume, [.suspended]),
    (.quit, [.opened, .provisional, .established, .suspended]),
  ]
  static let others = [
    "approve", "blob", "cat", "clone", "fetch", "gc", "ls", "mark", "newuser", "objdump", "rm", "trace", "vouch",
    "users",
    "who", "iam", "filter", "nonsense", "",
  ]

  @Test("Each ASN request is accepted in the states that the table lists, and in no other state")
  func table() {
    for state in SessionState.allCases {
      for row in Self.accepted {
        #expect(state.accepts(row.ask) == row.states.contains(state), "\(row.ask) in \(state)")
      }
      for name in Self.others {
        #expect(state.accepts(.command(name)) == (state == .established), "\(name) in \(state)")
      }
    }
  }
}
