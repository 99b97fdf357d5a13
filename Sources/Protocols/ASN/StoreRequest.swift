import Crypto

/// The number of a connection, which is never reused.
public struct SessionID: Hashable, Sendable, Comparable {
  public let number: UInt64
  public init(_ number: UInt64) { self.number = number }
  public static func < (left: SessionID, right: SessionID) -> Bool { left.number < right.number }

  /// The requests of this machine's operator, who has no session.
  public static let `operator` = SessionID(0)
}

/// A request of a session to the store.
public struct StoreRequest: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// Look up the user, and check the signature with which it signed its own key.
    case login(UserKey, signature: [UInt8])
    case exec(Command)
    /// Publish a blob that was sent as an object; it gets no acknowledgement.
    case blob(Blob)
    /// The server makes a blob; the answer is its sum in digits.
    case make(owner: UserKey, name: BlobName, content: [UInt8])
    /// Read the next blobs of a stream that the session sends: the first ones up to `budget` octets, but at least one.
    case load([Sum], budget: Int)
    /// End the marks that the session has set, because the session pauses or ends.
    case endMarks
  }

  public var session: SessionID
  /// The login of the session; nil before login.
  public var login: Login?
  /// The signature of a login that cannot be checked before the user's authentication key is stored.
  public var unverified: [UInt8]?
  /// The client's ephemeral key, under which a session may set an anonymous mark.
  public var ephemeral: UserKey
  public var dialect: Dialect
  public var kind: Kind
  /// Whether a login of an unknown user may create the user.
  public var mayMakeUser = true
  /// Flag after which the next portion of the request begins; nil for the first portion.
  public var continuation: Flag?

  /// Memory of the request while it waits for the store, in octets, rounded up.
  var octets: Int {
    let fixed = 512
    return switch kind {
    case .exec(let command):
      fixed + command.arguments.reduce(command.input?.count ?? 0) { $0 + $1.utf8.count + 16 }
    case .blob(let blob): fixed + blob.bytes.count
    case .make(_, _, let content): fixed + content.count
    case .load(let sums, _): fixed + Sum.size * sums.count
    case .login, .endMarks: fixed
    }
  }

  /// Whether the answer may be much longer than the request.
  var hasLongAnswer: Bool {
    switch kind {
    case .exec(let command):
      ["cat", "clone", "fetch", "gc", "ls", "objdump", "users"].contains(command.arguments.first ?? "")
    case .load: true
    case .login, .blob, .make, .endMarks: false
    }
  }

  public init(
    session: SessionID, login: Login?, unverified: [UInt8]? = nil, ephemeral: UserKey, dialect: Dialect, kind: Kind
  ) {
    (self.session, self.login, self.unverified) = (session, login, unverified)
    (self.ephemeral, self.dialect, self.kind) = (ephemeral, dialect, kind)
  }
}

/// The outcome of a session's request to the store.
public struct StoreOutcome: Hashable, Sendable {
  /// Whether a user that logs in has stored its authentication key before.
  public enum LoginState: Hashable, Sendable {
    case established(Login)
    /// The user has no authentication key yet.
    case provisional(Login)

    var user: UserKey {
      switch self {
      case .established(let login), .provisional(let login): login.key
      }
    }
  }

  public var result: ResultCode = .success
  public var data: [UInt8] = []
  /// The sums of blobs to send before the acknowledgement.
  public var stream: [Sum] = []
  /// The blobs of a request `load`; those that no longer exist are omitted.
  public var loaded: [Blob] = []
  /// Number of sums of the request that `loaded` covers.
  public var consumed = 0
  public var pushes: [Push] = []
  public var login: LoginState?
  /// Whether the session is closed after the acknowledgement.
  public var closes = false
  /// The error of the store, for the journal and not for the peer.
  public var trouble: StoreError?
  /// Whether the request changed the store, and the change is durable.
  public var isDurable = false
  /// Flag after which the next portion of the request begins; nil if the request is complete.
  public var continuation: Flag?
  /// Number of names that the store compared with the references of the request.
  public var lookups = 0

  public init() {}

  init(_ text: String) { data = Array(text.utf8) }

  /// Memory of the answer while it waits to be sent, in octets.
  var octets: Int { data.count + Sum.size * stream.count }

  init(_ refusal: Refusal) {
    (result, data, trouble) = (refusal.result, Array(refusal.sentence.utf8), refusal.store)
  }

  func noting(isDurable: Bool) -> StoreOutcome {
    var outcome = self
    outcome.isDurable = isDurable && trouble == nil
    return outcome
  }

  func closing() -> StoreOutcome {
    var outcome = self
    outcome.closes = true
    return outcome
  }
}

/// A random source behind an existential, for functions that are generic over sources.
struct AnyRandom: RandomSource {
  var random: any RandomSource & Sendable

  init(_ random: any RandomSource & Sendable) { self.random = random }

  mutating func fill(_ bytes: inout [UInt8]) { random.fill(&bytes) }
}
