import Bytes

/// A reference to blobs in a command: a sum, the names of a user, or one name. Facts: asn.md section 10
///
///     SUM | USER[@EPOCH] | [USER]@EPOCH | [USER/]NAME[@EPOCH]            dialect seed
///     $<*|SUM>[@EPOCH] | [~[*|.|USER]][NAME][@EPOCH]                     dialect of 2015
///
/// Keys and sums may be abbreviated. The last component of a name may be an abbreviated sum, or have the wildcards `*`
/// and `?`, which stand for any characters but a slash. The form FILE of the usage texts is not supported: no reference
/// names a file of the server.
public struct Reference: Hashable, Sendable {
  public enum Target: Hashable, Sendable {
    /// Names in the login's own directory; an empty string stands for all of them.
    case own(String)
    /// Names in the directories of all users.
    case everybody(String)
    /// A sum, written in a form that no other target has.
    case sum(HexPrefix)
    case allSums
    /// Names of a user, written in a form that no other target has.
    case user(HexPrefix, String)
    /// Digits without a slash: a user, a sum, or a name in the login's own directory.
    case digits(HexPrefix)
    /// Digits, a slash and a name: a name of a user, or a name in the login's own directory whose first component is
    /// these digits.
    case digitsAndName(HexPrefix, String)
  }

  public let target: Target
  /// The epoch, in nanoseconds since 1970, after which a blob must have been made; nil means any time.
  public let since: UInt64?
  /// The original text of the reference, for sentences.
  public let text: String

  /// Parses a reference. Throws `badValue` for a text without a valid form, and `tooLong`.
  public init(_ text: String, dialect: Dialect) throws(WireError) {
    guard text.utf8.count <= 2 * Sum.size + Limits.name + 32 else {
      throw .tooLong(field: "reference", limit: 2 * Sum.size + Limits.name + 32)
    }
    self.text = text
    var place = text[...]
    since = try Self.takeEpoch(&place)
    guard since != nil || !place.isEmpty else { throw .badValue("reference") }
    target = dialect == .year2015 ? try Self.target2015(place) : try Self.targetOfSeed(place)
  }

  /// The reference to all blobs of the login's own directory.
  public static let own = Reference(target: .own(""), text: "")

  private init(target: Target, text: String) { (self.target, since, self.text) = (target, nil, text) }

  /// Parses EPOCH, decimal nanoseconds since 1970; nil for any other text.
  public static func epoch(_ text: some StringProtocol) -> UInt64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return nil
    }
    return UInt64(text)
  }

  /// Removes `@EPOCH` from the end. An `@` without digits after it is part of a name.
  private static func takeEpoch(_ text: inout Substring) throws(WireError) -> UInt64? {
    guard let at = text.lastIndex(of: "@") else { return nil }
    let digits = text[text.index(after: at)...]
    if !digits.isEmpty, digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
      guard let epoch = UInt64(digits) else { throw .badValue("epoch") }
      text = text[..<at]
      return epoch
    }
    return nil
  }

  private static func targetOfSeed(_ text: Substring) throws(WireError) -> Target {
    if text.isEmpty { return .own("") }
    if let slash = text.firstIndex(of: "/") {
      let name = text[text.index(after: slash)...]
      if let prefix = HexPrefix(text[..<slash]), prefix.digits.utf8.count >= Limits.userDigits, prefix.isKey {
        return .digitsAndName(prefix, try checked(name))
      }
    } else if let prefix = HexPrefix(text), prefix.digits.utf8.count >= Limits.userDigits {
      guard prefix.digits.utf8.count <= 2 * Sum.size else { throw .badValue("reference") }
      return .digits(prefix)
    }
    return .own(try checked(text))
  }

  private static func target2015(_ text: Substring) throws(WireError) -> Target {
    if text.first == "$" {
      let sum = text.dropFirst()
      if sum == "*" { return .allSums }
      guard let prefix = HexPrefix(sum), (Limits.sumDigits...2 * Sum.size).contains(prefix.digits.utf8.count) else {
        throw .badValue("sum")
      }
      return .sum(prefix)
    }
    guard text.first == "~" else { return .own(try checked(text)) }
    let slash = text.firstIndex(of: "/") ?? text.endIndex
    let name = try checked(text[slash...].dropFirst())
    switch text[..<slash].dropFirst() {
    case "", ".": return .own(name)
    case "*": return .everybody(name)
    case let user:
      guard let prefix = HexPrefix(user), prefix.digits.utf8.count >= Limits.userDigits, prefix.isKey else {
        throw .badValue("user")
      }
      return .user(prefix, name)
    }
  }

  /// Checks a name with wildcards, and removes a slash at its end. A name that would leave its directory is refused, as
  /// for blobs.
  private static func checked(_ name: Substring) throws(WireError) -> String {
    let text = String(name.hasSuffix("/") ? name.dropLast() : name)
    _ = try BlobName(text)
    return text
  }
}

extension HexPrefix {
  /// Whether a user's key can begin with the digits.
  var isKey: Bool { digits.utf8.count <= 2 * UserKey.size }
}

/// A pattern for one component of a name: `*` matches any characters, `?` matches one.
public struct Wildcard: Hashable, Sendable {
  private let pattern: [Character]

  public init(_ pattern: some StringProtocol) { self.pattern = Array(pattern) }

  public static func isOne(_ text: some StringProtocol) -> Bool { text.contains { $0 == "*" || $0 == "?" } }

  /// Whether the pattern matches the text. The number of steps is at most the product of both lengths.
  public func matches(_ text: some StringProtocol) -> Bool {
    let text = Array(text)
    var (inPattern, inText) = (0, 0)
    var star: (pattern: Int, text: Int)?
    while inText < text.count {
      if inPattern < pattern.count, pattern[inPattern] == "*" {
        star = (inPattern, inText)
        inPattern += 1
      } else if inPattern < pattern.count, pattern[inPattern] == "?" || pattern[inPattern] == text[inText] {
        (inPattern, inText) = (inPattern + 1, inText + 1)
      } else if let last = star {
        star = (last.pattern, last.text + 1)
        (inPattern, inText) = (last.pattern + 1, last.text + 1)
      } else {
        return false
      }
    }
    return pattern[inPattern...].allSatisfy { $0 == "*" }
  }
}

/// A blob that matches a reference, with the link by which it was found, if there is one.
public struct Match: Hashable, Sendable {
  public let sum: Sum
  public let link: Link?
}

/// The current marks of users, which are not in the store.
public struct CurrentMarks: Sendable {
  private var marks: [UserKey: Blob] = [:]

  public init() {}

  public subscript(user: UserKey) -> Blob? {
    get { marks[user] }
    set { marks[user] = newValue }
  }

  public var count: Int { marks.count }
  func blob(_ sum: Sum) -> Blob? { marks.values.first { $0.sum == sum } }
  /// The users with a mark, in ascending order.
  var users: [UserKey] { marks.keys.sorted() }
}

/// Limits the number of names that the references of one request may be compared with. The administrator and mirrors
/// have no limit.
final class LookupBudget {
  /// Remaining number of names; nil means no limit.
  private let limit: Int?
  /// Number of names that were compared so far.
  private(set) var spent = 0

  /// - Parameters:
  ///   - login: nil before a login.
  ///   - names: the limit for a user, in names.
  init(_ login: Login?, names: Int = Limits.lookups * Limits.namesInLookup) {
    limit = login.map { $0.role == .user } ?? true ? names : nil
  }

  /// Counts users or blobs that the server compares with a reference.
  func spend(users count: Int) throws(Refusal) { try spend(names: count * Limits.namesInLookup) }

  /// Counts names in directories that the server compares with a reference.
  func spend(names count: Int) throws(Refusal) {
    spent += count
    if let limit, spent > limit {
      throw Refusal(.failure, "The request refers to more than \(Limits.lookups) users or blobs; name fewer")
    }
  }
}

/// Finds the blobs that match references, for one login.
struct Resolver<Store: BlobStore> {
  let view: StoreView<Store>
  let marks: CurrentMarks
  let login: Login
  let service: UserKey
  /// Maximum number of matches of a request.
  let limit: Int
  let budget: LookupBudget
  /// The portion of a list that the request asks for; nil to return all matches.
  var page: ListPage?

  private static var portion: Int { 256 }

  /// The blobs that match a reference, ordered by owner and name.
  ///
  /// Throws a refusal if there is no match, if an abbreviation is ambiguous, or if there are more than `limit` matches.
  func matches(_ reference: Reference, allowsNone: Bool = false) throws(Refusal) -> [Match] {
    var matches: [Match] = []
    switch reference.target {
    case .own(let name): try collect(login.key, name, reference, &matches)
    case .everybody(let name): try collectEverybody(name, reference, &matches)
    case .sum(let prefix): matches = try [sum(prefix)].compactMap { $0 }
    case .allSums: try collectAll(reference, &matches)
    case .user(let prefix, let name):
      guard let user = try user(prefix) else { throw StoreView<Store>.missing }
      try collect(user: user, name, reference, &matches)
    case .digits(let prefix): try collect(prefix, reference, &matches)
    case .digitsAndName(let prefix, let name):
      if let user = try user(prefix) {
        try collect(user: user, name, reference, &matches)
      } else {
        try collect(login.key, reference.name, reference, &matches)
      }
    }
    if case .sum = reference.target, let since = reference.since {
      matches = try filter(matches, since)
    }
    if let page {
      for match in matches { page.add(line(match)) }
      return []
    }
    guard allowsNone || reference.since != nil || !matches.isEmpty else { throw StoreView<Store>.missing }
    return matches
  }

  /// The line of `ls` for a match, in the dialect `seed`.
  func line(_ match: Match) -> String {
    guard let link = match.link else { return match.sum.hex }
    return prefix(of: link.owner) + link.name
  }

  /// The text before the names of a user in the output of `ls`.
  private func prefix(of owner: UserKey) -> String { owner == login.key ? "" : owner.hex.prefix(16) + "/" }

  /// The user with an abbreviated key; nil if there is none. The service key counts as a user here.
  func user(_ prefix: HexPrefix) throws(Refusal) -> UserKey? {
    var users = try view.users(prefix)
    for known in [service, login.key] where known.hex.hasPrefix(prefix.digits) && !users.contains(known) {
      users.append(known)
    }
    guard users.count < 2 else { throw Refusal(.failure, "Ambiguous USER \(prefix.digits)") }
    return users.first
  }

  /// The user that the argument USER of a command names.
  func user(named text: String, dialect: Dialect) throws(Refusal) -> UserKey {
    let digits = dialect == .year2015 && text.hasPrefix("~") ? text.dropFirst() : text[...]
    guard let prefix = HexPrefix(digits), prefix.digits.utf8.count >= Limits.userDigits, prefix.isKey else {
      throw Refusal(.illFormatted, "USER has \(Limits.userDigits) to \(2 * UserKey.size) hexadecimal digits")
    }
    guard let user = try user(prefix) else { throw Refusal(.failure, "No such USER") }
    return user
  }

  private func sum(_ prefix: HexPrefix) throws(Refusal) -> Match? {
    var sums = try view.sums(prefix, login)
    for user in marks.users {
      if let mark = marks[user], mark.sum.hex.hasPrefix(prefix.digits), try mayRead(mark) { sums.append(mark.sum) }
    }
    guard sums.count < 2 else { throw Refusal(.failure, "Ambiguous SUM \(prefix.digits)") }
    return sums.first.map { Match(sum: $0, link: nil) }
  }

  private func mayRead(_ mark: Blob) throws(Refusal) -> Bool {
    Permission.mayRead(
      login, directory: mark.header.owner, link: BlobName.mark.text, lists: try view.lists(of: mark.header.owner))
  }

  private func collect(_ prefix: HexPrefix, _ reference: Reference, _ matches: inout [Match]) throws(Refusal) {
    let user = prefix.isKey ? try user(prefix) : nil
    let sum = prefix.digits.utf8.count >= Limits.sumDigits ? try sum(prefix) : nil
    if user != nil, sum != nil { throw Refusal(.failure, "Ambiguous USER or SUM \(prefix.digits)") }
    if let user {
      try collect(user: user, "", reference, &matches)
    } else if let sum {
      matches = [sum]
      if let since = reference.since { matches = try filter(matches, since) }
    } else {
      try collect(login.key, reference.name, reference, &matches)
    }
  }

  private func collect(
    user: UserKey, _ name: String, _ reference: Reference, _ matches: inout [Match]
  ) throws(Refusal) {
    if user == service { return try collectEverybody(name, reference, &matches) }
    try collect(user, name, reference, &matches)
  }

  private func collectEverybody(_ name: String, _ reference: Reference, _ matches: inout [Match]) throws(Refusal) {
    var last: UserKey?
    var users: [UserKey] = []
    repeat {
      users = try view.users(after: last, limit: Self.portion)
      try budget.spend(users: users.count)
      for user in users { try collect(user, name, reference, &matches) }
      last = users.last
    } while users.count == Self.portion
    // Users that the store does not know have anonymous marks.
    for user in marks.users where try view.kind(of: user) == nil {
      try collectMark(of: user, name, reference, try view.lists(of: user), &matches)
    }
  }

  private func collectAll(_ reference: Reference, _ matches: inout [Match]) throws(Refusal) {
    var last: UInt64 = 0
    while true {
      let changes = try view.changes(after: last, limit: Self.portion)
      try budget.spend(users: changes.count)
      for change in changes where change.kind == .inserted {
        guard try view.mayRead(change.sum, login) else { continue }
        try add(Match(sum: change.sum, link: nil), reference, &matches)
      }
      guard let number = changes.last?.number else { return }
      last = number
    }
  }

  /// Collects the names of one user: an exact name, names that match wildcards, a directory, or names with an
  /// abbreviated last component.
  private func collect(
    _ owner: UserKey, _ name: String, _ reference: Reference, _ matches: inout [Match]
  ) throws(Refusal) {
    let lists = try view.lists(of: owner)
    try collectMark(of: owner, name, reference, lists, &matches)
    if !name.isEmpty, let link = try view.link(owner, name) {
      guard Permission.mayRead(login, directory: owner, link: name, lists: lists) else { return }
      return try add(Match(sum: link.sum, link: link), reference, &matches)
    }
    let slash = name.lastIndex(of: "/")
    let base = slash.map { name[name.index(after: $0)...] } ?? name[...]
    let directory = slash.map { String(name[...$0]) } ?? ""
    if Wildcard.isOne(base) {
      let wildcard = Wildcard(base)
      return try scan(owner, directory, lists, isListed: true) { (link) throws(Refusal) in
        let rest = link.name.dropFirst(directory.count)
        guard !rest.contains("/"), wildcard.matches(rest) else { return }
        try add(Match(sum: link.sum, link: link), reference, &matches)
      }
    }
    let before = (matches.count, page?.matches)
    try scan(owner, name.isEmpty ? "" : name + "/", lists, isListed: true) { (link) throws(Refusal) in
      try add(Match(sum: link.sum, link: link), reference, &matches)
    }
    // An abbreviation stands for one name, which is in the first portion of a list.
    guard before == (matches.count, page?.matches), page?.isFirst ?? true, let prefix = HexPrefix(base),
      prefix.digits.utf8.count >= Limits.userDigits
    else { return }
    var found: [Link] = []
    try scan(owner, directory + prefix.digits, lists) { (link) throws(Refusal) in
      if !link.name.dropFirst(directory.count).contains("/") { found.append(link) }
      guard found.count < 2 else { throw Refusal(.failure, "Ambiguous NAME \(name)") }
    }
    if let link = found.first { try add(Match(sum: link.sum, link: link), reference, &matches) }
  }

  private func collectMark(
    of owner: UserKey, _ name: String, _ reference: Reference, _ lists: AccessLists, _ matches: inout [Match]
  ) throws(Refusal) {
    guard let mark = marks[owner] else { return }
    let own = BlobName.mark.text
    let isMeant =
      name.isEmpty || name == own || own.hasPrefix(name + "/")
      || (name.hasPrefix("asn/") && Wildcard.isOne(name) && Wildcard(name).matches(own))
    guard isMeant, Permission.mayRead(login, directory: owner, link: own, lists: lists) else { return }
    if let since = reference.since, mark.header.epoch <= since { return }
    matches.append(
      Match(sum: mark.sum, link: Link(owner: owner, name: own, sum: mark.sum, epoch: mark.header.epoch)))
  }

  /// Calls `body` with every link of the directory that the login may read.
  ///
  /// - Parameter isListed: whether only links in the portion `page` of a list are wanted.
  private func scan(
    _ owner: UserKey, _ prefix: String, _ lists: AccessLists, isListed: Bool = false,
    _ body: (Link) throws(Refusal) -> Void
  ) throws(Refusal) {
    var after: String?
    let page = isListed ? page : nil
    switch page?.start(self.prefix(of: owner)) {
    case .behind(let name)?: after = name
    case .nowhere?: return
    case .first?, nil: break
    }
    repeat {
      let portion = try view.links(owner, prefix: prefix, after: after, limit: Self.portion, login, lists)
      try budget.spend(names: portion.count)
      for link in portion.links {
        if let page, page.isFull(before: self.prefix(of: owner) + link.name) { return page.noteMatch() }
        try body(link)
      }
      after = portion.last
    } while after != nil
  }

  private func add(_ match: Match, _ reference: Reference, _ matches: inout [Match]) throws(Refusal) {
    if let since = reference.since {
      let stored = match.link == nil ? try view.header(match.sum)?.epoch : nil
      guard (match.link?.epoch ?? stored ?? 0) > since else { return }
    }
    if let page { return page.add(line(match)) }
    guard matches.count < limit else {
      throw Refusal(.failure, "More than \(limit) blobs match; name a directory or add @EPOCH")
    }
    matches.append(match)
  }

  private func filter(_ matches: [Match], _ since: UInt64) throws(Refusal) -> [Match] {
    var newer: [Match] = []
    for match in matches {
      if let header = try view.header(match.sum), header.epoch > since { newer.append(match) }
    }
    return newer
  }
}

extension Reference {
  /// The original text of the reference, for use as a name in the login's own directory.
  fileprivate var name: String {
    var name = text[...]
    if since != nil, let at = text.lastIndex(of: "@") { name = text[..<at] }
    return String(name.hasSuffix("/") ? name.dropLast() : name)
  }
}
