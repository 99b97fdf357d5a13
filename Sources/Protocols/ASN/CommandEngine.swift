import Bytes
import Crypto

/// Executes the requests of sessions to the store: logins, commands and blobs. It works synchronously, on the thread of
/// the store.
/// Facts: asn.md sections 5 to 10
public struct CommandEngine<Store: BlobStore>: Sendable {
  public struct Configuration: Sendable {
    public enum NewUsers: String, Sendable, CaseIterable { case admin, anyone }

    /// The service's encryption and authentication keys.
    public var service: UserKey
    public var serviceAuthentication: Ed25519.PublicKey
    /// Encryption key by which the server recognises the administrator; nil without an administrator.
    public var admin: UserKey?
    /// Key that verifies the administrator's signature at login; nil without an administrator.
    public var adminAuthentication: Ed25519.PublicKey?
    /// Who may create users of the kind `actual`: only the administrator with `newuser`, or every user, also by a first
    /// login.
    public var newUsers = NewUsers.admin
    public var quota = Publisher.Quota()
    /// Maximum size of an answer, in octets.
    public var answer = 1024 * 1024

    public init(service: UserKey, serviceAuthentication: Ed25519.PublicKey) {
      (self.service, self.serviceAuthentication) = (service, serviceAuthentication)
    }
  }

  public var configuration: Configuration
  public internal(set) var store: Store
  public private(set) var marks = CurrentMarks()
  /// The session that set the current mark of each user.
  private var markers: [UserKey: SessionID] = [:]
  /// Whether the request in progress has changed the store.
  private var hasWritten = false
  private var random: any RandomSource & Sendable

  public init(configuration: Configuration, store: Store, random: any RandomSource & Sendable) {
    (self.configuration, self.store, self.random) = (configuration, store, random)
  }

  var publisher: Publisher { Publisher(quota: configuration.quota) }
  var view: StoreView<Store> { StoreView(store) }

  /// Executes the requests in order, and makes their changes durable with one commit.
  ///
  /// If the commit fails, the requests with changes are refused. The others are executed again, each with a commit of
  /// its own, because they may have read changes that were undone.
  ///
  /// - Parameter epoch: the time in nanoseconds since 1970.
  public mutating func perform(_ requests: [StoreRequest], epoch: UInt64) -> [StoreOutcome] {
    let before = (marks, markers)
    var wrote: [Bool] = []
    let outcomes = requests.map { request in
      hasWritten = false
      defer { wrote.append(hasWritten) }
      return handle(request, epoch: epoch)
    }
    guard let error = commit(if: wrote.contains(true)) else {
      return zip(outcomes, wrote).map { outcome, wrote in outcome.noting(isDurable: wrote) }
    }
    (marks, markers) = before
    return zip(requests, wrote).map { request, wrote in
      if wrote { return refused(request, error) }
      let before = (marks, markers)
      hasWritten = false
      let outcome = handle(request, epoch: epoch)
      guard let error = commit(if: hasWritten) else { return outcome.noting(isDurable: hasWritten) }
      (marks, markers) = before
      return refused(request, error)
    }
  }

  private mutating func commit(if isNeeded: Bool) -> StoreError? {
    guard isNeeded else { return nil }
    do throws(StoreError) {
      try store.commit()
      return nil
    } catch {
      return error
    }
  }

  private func refused(_ request: StoreRequest, _ error: StoreError) -> StoreOutcome {
    let outcome = StoreOutcome(Refusal(error))
    if case .login = request.kind { return outcome.closing() }
    return outcome
  }

  /// Executes one request. Its changes are not durable before the store commits.
  public mutating func handle(_ request: StoreRequest, epoch: UInt64) -> StoreOutcome {
    let budget = LookupBudget(request.login)
    var outcome = carryOut(request, budget, epoch: epoch)
    outcome.lookups = budget.spent
    return outcome
  }

  private mutating func carryOut(_ request: StoreRequest, _ budget: LookupBudget, epoch: UInt64) -> StoreOutcome {
    do throws(Refusal) {
      switch request.kind {
      case .login(let user, let signature): return try logIn(user, signature, request, epoch)
      case .exec(let command):
        guard let login = request.login else { return try echoOnly(command) }
        return try execute(command, login, request, budget, epoch)
      case .blob(let blob):
        guard let login = request.login else { throw Refusal(.unexpected) }
        return try add(blob, login, request, epoch)
      case .make(let owner, let name, let content):
        guard let login = request.login else { throw Refusal(.unexpected) }
        return try publish(name, owner: owner, content, login, request, epoch)
      case .load(let sums, let budget): return try load(sums, budget: budget)
      case .endMarks: return try endMarks(request, epoch)
      }
    } catch {
      if case .login = request.kind { return StoreOutcome(error).closing() }
      return StoreOutcome(error)
    }
  }

  private func echoOnly(_ command: Command) throws(Refusal) -> StoreOutcome {
    guard command.arguments.first == "echo" else { throw Refusal(.unexpected) }
    return StoreOutcome(Query<Store>.echo(command))
  }

  private func found(_ sum: Sum) throws(Refusal) -> Blob? {
    if let mark = marks.blob(sum) { return mark }
    return try view.blob(sum)
  }

  private func load(_ sums: [Sum], budget: Int) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    var octets = 0
    for sum in sums where octets < budget {
      outcome.consumed += 1
      guard let blob = try found(sum) else { continue }
      octets += blob.bytes.count
      outcome.loaded.append(blob)
    }
    return outcome
  }

  private mutating func execute(
    _ command: Command, _ login: Login, _ request: StoreRequest, _ budget: LookupBudget, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let query = self.query(login, request.dialect, budget)
    let name = command.arguments.first ?? ""
    let arguments = Array(command.arguments.dropFirst())
    switch name {
    case "approve": return try approve(arguments, query, request, epoch)
    case "auth": return try auth(arguments, login, request, epoch)
    case "blob": return try blob(arguments, command.input, login, request, epoch)
    case "cat": return try query.cat(arguments)
    case "clone": return try query.clone(arguments)
    case "echo": return StoreOutcome(Query<Store>.echo(command))
    case "fetch": return try query.fetch(arguments)
    case "gc": return try collect(arguments, login, request)
    case "ls": return try query.list(arguments)
    case "mark": return try mark(arguments, login, request, epoch)
    case "newuser": return try newUser(arguments, login, request, epoch)
    case "objdump": return try query.dump(arguments)
    case "rm": return try remove(arguments, query, request, epoch)
    case "users" where request.dialect == .year2015:
      guard arguments.isEmpty else { throw Query<Store>.usage("users") }
      return try query.users()
    case "vouch": return try vouch(arguments, login, request, epoch)
    case "filter": throw Refusal(.unsupported, "filter runs a program and is not supported")
    default: throw Refusal(.failure, "unknown command \(Query<Store>.printable(name))")
    }
  }

  private func query(_ login: Login, _ request: StoreRequest) -> Query<Store> { query(login, request.dialect) }

  /// - Parameter budget: limit of lookups; nil for the budget of a new request.
  func query(_ login: Login, _ dialect: Dialect, _ budget: LookupBudget? = nil) -> Query<Store> {
    Query(
      view: view, marks: marks, login: login, dialect: dialect, service: configuration.service,
      answer: configuration.answer, budget: budget ?? LookupBudget(login))
  }

  // MARK: Login

  /// Whether the owner of the authentication key signed the user's key.
  static func isSigned(_ user: UserKey, _ signature: [UInt8], by key: Ed25519.PublicKey) -> Bool {
    key.verify(signature, of: user.bytes)
  }

  private mutating func logIn(
    _ user: UserKey, _ signature: [UInt8], _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    if let role = role(of: user) {
      let key = role == .service ? configuration.serviceAuthentication : configuration.adminAuthentication
      guard let key, Self.isSigned(user, signature, by: key) else { throw .denied }
      outcome.login = .established(Login(user, role))
      return outcome
    }
    let kind = try view.kind(of: user)
    guard kind?.mayLogIn ?? true else { throw .denied }
    if let content = try view.content(user, .auth) {
      guard kind != nil, let key = try? Ed25519.PublicKey(content), Self.isSigned(user, signature, by: key) else {
        throw .denied
      }
      outcome.login = .established(Login(user))
      return outcome
    }
    guard configuration.newUsers == .anyone else { throw .denied }
    if kind == nil {
      guard request.mayMakeUser else { throw .denied }
      let login = Login(user)
      var publication = Publication()
      for (name, content) in [(BlobName.author, user.bytes), (.user, Array(UserKind.actual.rawValue.utf8))] {
        publication.add(try make(name, owner: user, content, login, epoch).publication)
      }
      try write(publication.changes)
      outcome.pushes = publication.pushes
    }
    outcome.login = .provisional(Login(user))
    return outcome
  }

  func role(of user: UserKey) -> Login.Role? {
    if user == configuration.service { return .service }
    return user == configuration.admin ? .admin : nil
  }

  // MARK: Blobs

  /// Publishes a blob that the server makes by itself, which needs no permission.
  mutating func make(
    _ name: BlobName, owner: UserKey, _ content: [UInt8], _ login: Login, _ epoch: UInt64
  ) throws(Refusal) -> (sum: Sum, publication: Publication) {
    let blob = Blob(
      owner: owner, author: login.key, epoch: epoch, name: name, content: content, random: random.bytes(32))
    let publication = try publisher.place(
      blob, name: name, lists: try view.lists(of: owner), kind: try view.kind(of: owner), by: login, in: store)
    return (blob.sum, publication ?? Publication())
  }

  /// Publishes a blob that the server makes for a login, with all its consequences.
  mutating func publish(
    _ name: BlobName, owner: UserKey, _ content: [UInt8], _ login: Login, subject: UserKey? = nil,
    _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let epoch = try self.epoch(of: name, owner: owner, atLeast: epoch)
    let blob = Blob(
      owner: owner, author: login.key, epoch: epoch, name: name, content: content, random: random.bytes(32))
    var outcome = try add(blob, login, subject: subject, request, epoch)
    outcome.data = Query<Store>.answer(blob.sum, request.dialect)
    return outcome
  }

  /// Epoch of a blob that the server makes: the present time, or one later than the epoch of the blob that has the
  /// name. The latter applies if the clock was set back, because only a newer blob gets the name.
  private func epoch(of name: BlobName, owner: UserKey, atLeast epoch: UInt64) throws(Refusal) -> UInt64 {
    guard !name.isDerived else { return epoch }
    let mark = name == .mark ? marks[owner]?.header.epoch : nil
    let stored = try view.link(owner, name.text)?.epoch
    let (next, isTooLarge) = max(mark ?? 0, stored ?? 0).addingReportingOverflow(1)
    return isTooLarge ? epoch : max(epoch, next)
  }

  private mutating func add(
    _ blob: Blob, _ login: Login, subject: UserKey? = nil, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    guard let publication = try publisher.publish(blob, by: login, subject: subject, in: store, now: epoch) else {
      return outcome
    }
    if blob.header.name == .mark, publication.changes.isEmpty {
      guard request.session != .operator else {
        throw Refusal(.unsupported, "A mark lasts as long as the session that sets it, and the operator has no session")
      }
      setMark(blob, request.session)
    }
    try write(publication.changes)
    outcome.pushes = publication.pushes
    return outcome
  }

  mutating func write(_ changes: [StoreChange]) throws(Refusal) {
    guard !changes.isEmpty else { return }
    hasWritten = true
    do throws(StoreError) {
      try store.apply(changes)
    } catch {
      throw Refusal(error)
    }
  }

  // MARK: Marks

  mutating func setMark(_ blob: Blob, _ session: SessionID) {
    let user = blob.header.owner
    if let current = marks[user], current.header.epoch > blob.header.epoch { return }
    marks[user] = blob
    markers[user] = session
  }

  /// Ends the marks of a session that ends: their receivers get a mark that reports the end.
  private mutating func endMarks(_ request: StoreRequest, _ epoch: UInt64) throws(Refusal) -> StoreOutcome {
    var outcome = StoreOutcome()
    for user in markers.filter({ $0.value == request.session }).keys.sorted() {
      (marks[user], markers[user]) = (nil, nil)
      let blob = Blob(
        owner: user, author: user, epoch: epoch, name: .mark, content: Mark(ending: user).bytes,
        random: random.bytes(32))
      outcome.pushes.append(
        Push(blob: blob, name: .mark, lists: try view.lists(of: user), publicity: .published))
    }
    return outcome
  }

  // MARK: Commands that write

  private mutating func approve(
    _ arguments: [String], _ query: Query<Store>, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let sums = try query.matches(arguments, of: "approve").map(\.sum)
    return try publish(.approvals, owner: query.login.key, sums.flatMap(\.bytes), query.login, request, epoch)
  }

  private mutating func remove(
    _ arguments: [String], _ query: Query<Store>, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let sums = try query.matches(arguments, of: "rm").map(\.sum)
    guard !sums.isEmpty else { throw StoreView<Store>.missing }
    return try publish(.removals, owner: query.login.key, sums.flatMap(\.bytes), query.login, request, epoch)
  }

  private mutating func auth(
    _ arguments: [String], _ login: Login, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let isForOther = arguments.count == 3 && arguments[0] == "-u"
    guard isForOther || arguments.count == 1, let text = arguments.last, let content = try? Hex.decode(text),
      let key = try? Ed25519.PublicKey(content)
    else { throw Query<Store>.usage("auth") }
    let owner =
      isForOther ? try query(login, request).resolver.user(named: arguments[1], dialect: request.dialect) : login.key
    guard let signature = request.unverified else {
      guard isForOther else { throw Refusal(.unexpected) }
      return try publish(.auth, owner: owner, content, login, request, epoch)
    }
    // The key is not stored unless it verifies the login that waits for it.
    guard owner == login.key else { throw Refusal(.unexpected) }
    guard try view.content(owner, .auth) == nil, Self.isSigned(login.key, signature, by: key) else {
      return StoreOutcome(.denied).closing()
    }
    var outcome = try publish(.auth, owner: owner, content, login, request, epoch)
    outcome.login = .established(login)
    return outcome
  }

  /// Executes `blob USER - CONTENT`, which makes a message to the user, and `blob [USER/]NAME - CONTENT`, which makes a
  /// named blob.
  private mutating func blob(
    _ arguments: [String], _ input: [UInt8]?, _ login: Login, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    guard let text = arguments.first else { throw Query<Store>.usage("blob") }
    let content: [UInt8]
    if let input {
      guard arguments.count == 1 else { throw Query<Store>.usage("blob") }
      content = input
    } else {
      // The server of 2015 takes further arguments for the content.
      guard request.dialect == .year2015, arguments.count > 1 else { throw Query<Store>.usage("blob") }
      content = Array(arguments.dropFirst().joined(separator: " ").utf8)
    }
    let (owner, name) = try place(text, login, request)
    return try publish(name, owner: owner, content, login, request, epoch)
  }

  private func place(
    _ text: String, _ login: Login, _ request: StoreRequest
  ) throws(Refusal) -> (owner: UserKey, name: BlobName) {
    func name(_ text: some StringProtocol) throws(Refusal) -> BlobName {
      guard let name = try? BlobName(String(text)) else {
        throw Refusal(.illFormatted, "\(Query<Store>.printable(String(text))) is not a valid name of a blob")
      }
      return name
    }
    let slash = text.firstIndex(of: "/") ?? text.endIndex
    let rest = text[slash...].dropFirst()
    if request.dialect == .year2015 {
      guard text.hasPrefix("~") else { return (login.key, try name(text)) }
      let user = text[..<slash].dropFirst()
      if user.isEmpty || user == "." { return (login.key, try name(rest)) }
      return (try query(login, request).resolver.user(named: String(user), dialect: request.dialect), try name(rest))
    }
    guard let prefix = HexPrefix(text[..<slash]), prefix.digits.utf8.count >= Limits.userDigits, prefix.isKey,
      let user = try query(login, request).resolver.user(prefix)
    else { return (login.key, try name(text)) }
    return (user, try name(rest))
  }

  private mutating func vouch(
    _ arguments: [String], _ login: Login, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    guard arguments.count == 2, let signature = try? Hex.decode(arguments[1]), signature.count == PDU.signature else {
      throw Query<Store>.usage("vouch")
    }
    let subject = try query(login, request).resolver.user(named: arguments[0], dialect: request.dialect)
    return try publish(.vouchers, owner: login.key, signature, login, subject: subject, request, epoch)
  }

  private mutating func mark(
    _ arguments: [String], _ login: Login, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    var rest = arguments[...]
    var user = login.key
    var isAnonymous = false
    if rest.first == "-u" {
      guard rest.count > 2 else { throw Query<Store>.usage("mark") }
      let text = rest[rest.startIndex + 1].lowercased()
      isAnonymous = text.utf8.count >= Limits.userDigits && request.ephemeral.hex.hasPrefix(text)
      user =
        isAnonymous ? request.ephemeral : try query(login, request).resolver.user(named: text, dialect: request.dialect)
      rest = rest.dropFirst(2)
    }
    let position = try position(Array(rest), login, request, ephemeral: isAnonymous ? request.ephemeral : nil)
    let content = Mark(user: user, position: position).bytes
    // An anonymous mark names the ephemeral key alone, as its author too.
    let author = isAnonymous ? Login(request.ephemeral) : login
    return try publish(.mark, owner: user, content, author, request, epoch)
  }

  private func position(
    _ arguments: [String], _ login: Login, _ request: StoreRequest, ephemeral: UserKey?
  ) throws(Refusal) -> Mark.Position {
    if arguments.count == 2 {
      guard let latitude = Mark.millionths(arguments[0], limit: 90),
        let longitude = Mark.millionths(arguments[1], limit: 180)
      else { throw Refusal(.illFormatted, "LATITUDE must be -90 to 90 degrees, and LONGITUDE -180 to 180") }
      return .coordinates(latitude: latitude, longitude: longitude)
    }
    guard arguments.count == 1, let text = arguments.first, text.utf8.first == UInt8(ascii: "7"),
      let eta = text.dropFirst().first.flatMap({ UInt8(String($0), radix: 16) })
    else { throw Query<Store>.usage("mark") }
    let digits = String(text.dropFirst(2)).lowercased()
    if let ephemeral, digits.utf8.count >= Limits.userDigits, ephemeral.hex.hasPrefix(digits) {
      return .place(Array(ephemeral.bytes.prefix(7)), eta: eta)
    }
    let place = try query(login, request).resolver.user(named: digits, dialect: request.dialect)
    return .place(Array(place.bytes.prefix(7)), eta: eta)
  }

  private mutating func newUser(
    _ arguments: [String], _ login: Login, _ request: StoreRequest, _ epoch: UInt64
  ) throws(Refusal) -> StoreOutcome {
    let isBinary = request.dialect == .year2015 && arguments.first == "-b"
    let words = isBinary ? Array(arguments.dropFirst()) : arguments
    guard words.count == 1 || (isBinary && words.isEmpty), let kind = UserKind(rawValue: words.first ?? "actual") else {
      throw Query<Store>.usage("newuser")
    }
    guard kind != .actual || login.role != .user || configuration.newUsers == .anyone else { throw .denied }
    var source = AnyRandom(random)
    let encryption = X25519.PrivateKey(randomFrom: &source)
    let authentication = Ed25519.PrivateKey(randomFrom: &source)
    random = source.random
    let user = UserKey(encryption.publicKey)
    let contents: [(BlobName, [UInt8])] = [
      (.author, login.key.bytes), (.auth, authentication.publicKey.bytes), (.user, Array(kind.rawValue.utf8)),
    ]
    var publication = Publication()
    for (name, content) in contents {
      publication.add(try make(name, owner: user, content, login, epoch).publication)
    }
    try write(publication.changes)
    var outcome = StoreOutcome()
    outcome.pushes = publication.pushes
    outcome.data =
      isBinary
      ? UserKeyText.binary(encryption, authentication) : UserKeyText.text(encryption, authentication)
    return outcome
  }

  // MARK: Collecting

  private mutating func collect(
    _ arguments: [String], _ login: Login, _ request: StoreRequest
  ) throws(Refusal) -> StoreOutcome {
    guard login.role == .admin else { throw .denied }
    var (before, isVerbose, isDry): (UInt64?, Bool, Bool) = (nil, false, false)
    for argument in arguments {
      switch argument {
      case "-v", "--verbose": isVerbose = true
      case "-n", "--dry-run": (isVerbose, isDry) = (true, true)
      default:
        guard argument.hasPrefix("@"), let epoch = Reference.epoch(argument.dropFirst()) else {
          throw Query<Store>.usage("gc")
        }
        before = epoch
      }
    }
    let portion = try collect(before: before, isDry: isDry, after: request.continuation)
    let lines = isVerbose ? portion.sums.map { "\($0.hex.prefix(2))/\($0.hex.dropFirst(2))\n" }.joined() : ""
    var outcome = StoreOutcome(lines)
    outcome.continuation = portion.last
    return outcome
  }

  /// A portion of what `gc` purges.
  public struct CollectedPortion: Sendable {
    /// The sums of the purged blobs, in ascending order.
    public var sums: [Sum] = []
    /// The last flag of this portion, after which the next portion begins; nil if this is the last portion.
    public var last: Flag?
  }

  /// Purges one portion of the blobs that removals flagged, so that other requests can run between the portions.
  ///
  /// - Parameters:
  ///   - before: only blobs of an earlier epoch are purged.
  ///   - isDry: whether to return the sums without purging.
  ///   - last: the last flag of the previous portion; nil for the first portion.
  public mutating func collect(before: UInt64?, isDry: Bool, after last: Flag?) throws(Refusal) -> CollectedPortion {
    var portion = CollectedPortion()
    let flags = try view.flags(after: last, limit: Limits.flagsInPortion)
    for flag in flags where flag.blob != portion.sums.last && flag.blob != last?.blob {
      guard let header = try view.header(flag.blob), before.map({ header.epoch < $0 }) ?? true else { continue }
      portion.sums.append(flag.blob)
    }
    if !isDry { try write(portion.sums.map { .purge($0) }) }
    if flags.count == Limits.flagsInPortion { portion.last = flags.last }
    return portion
  }
}
