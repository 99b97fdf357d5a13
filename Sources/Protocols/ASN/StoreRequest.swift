import Crypto

/// A connection, by a number that is never used twice.
public struct SessionID: Hashable, Sendable, Comparable {
  public let number: UInt64
  public init(_ number: UInt64) { self.number = number }
  public static func < (left: SessionID, right: SessionID) -> Bool { left.number < right.number }
}

/// What a session asks of the store.
public struct StoreRequest: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// Who is this user, and did it sign its key?
    case login(UserKey, signature: [UInt8])
    case exec(Command)
    /// A blob that was sent as an object; it gets no acknowledgement.
    case blob(Blob)
    /// Blobs of a stream that the session sends next: the first ones until `budget` octets are reached, but one at
    /// least.
    case load([Sum], budget: Int)
    /// The session pauses or ends: the marks that it set end.
    case endMarks
  }

  public var session: SessionID
  /// Who asks; nil before login.
  public var login: Login?
  /// The signature of a login that waits for the user's authentication key.
  public var unverified: [UInt8]?
  /// The client's ephemeral key, as which a session may set an anonymous mark.
  public var ephemeral: UserKey
  public var dialect: Dialect
  public var kind: Kind
  /// Whether a login of an unknown user may make the user.
  public var mayMakeUser = true

  /// Octets of memory while the request waits for the store, rounded up.
  var octets: Int {
    let fixed = 512
    return switch kind {
    case .exec(let command):
      fixed + command.arguments.reduce(command.input?.count ?? 0) { $0 + $1.utf8.count + 16 }
    case .blob(let blob): fixed + blob.bytes.count
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
    case .login, .blob, .endMarks: false
    }
  }

  public init(
    session: SessionID, login: Login?, unverified: [UInt8]? = nil, ephemeral: UserKey, dialect: Dialect, kind: Kind
  ) {
    (self.session, self.login, self.unverified) = (session, login, unverified)
    (self.ephemeral, self.dialect, self.kind) = (ephemeral, dialect, kind)
  }
}

/// The answer to a request of a session.
public struct StoreOutcome: Hashable, Sendable {
  /// What became of a login.
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
  /// Blobs to send before the acknowledgement.
  public var stream: [Sum] = []
  /// Blobs that a request `load` asked for; those that are gone are left out.
  public var loaded: [Blob] = []
  /// How many sums of the request `loaded` stands for.
  public var consumed = 0
  public var pushes: [Push] = []
  public var login: LoginState?
  /// The session is closed after the acknowledgement.
  public var closes = false
  /// What the store could not do: for the journal, not for the peer.
  public var trouble: StoreError?
  /// Whether the request changed the store, and the change is durable.
  public var isDurable = false

  public init() {}

  init(_ text: String) { data = Array(text.utf8) }

  /// Octets of memory while the answer waits to be sent.
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
