import ASN
import Bytes
import Config
import Crypto
import Social

/// Settings of section `[Social]`: the addresses, the users and the limits of the social server.
public struct SocialSettings: SettingsSection {
  public var listen: [ListenAddress] = []
  /// The state directory; nil means `$STATE_DIRECTORY`.
  public var directory: String?
  public var adminKey: String?
  public var adminAuthentication: String?
  public var newUsers = NewUsers.admin
  /// Paths of the PEM files for `wss:`.
  public var certificate: String?
  public var certificateKey: String?
  public var trustedCertificates: String?
  public var blob = 1 << 20
  public var answer = 1 << 20
  public var store = 10 << 30
  public var users = 100_000
  public var names = 100_000
  public var storePerUser = 1 << 30
  public var usersPerUser = 1000
  public var sessions = 1000
  public var sessionsPerUser = 8
  public var sessionsPerAddress = 16
  public var strangers = 256
  public var failedLogins = 5
  public var inFlight = 64
  public var commands = 50
  public var burst = 200
  public var blobs = 20
  public var waiting = 4 << 20
  public var loginTime = Duration.seconds(10)
  public var idleTime = Duration.seconds(600)
  public var suspendedTime = Duration.seconds(24 * 3600)

  public enum NewUsers: String, CaseIterable, Sendable { case admin, anyone }

  public init() {}

  public static let section = "Social"
  public static let keys: [Setting<SocialSettings>] = addresses + people + sizes + rates

  private static let addresses: [Setting<SocialSettings>] = [
    Setting(
      "Listen", \.listen,
      .words(
        "addresses as unix:/PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH and wss://HOST:PORT/PATH, each with ?dialect=2015 or without",
        upTo: 16, key: { $0 }, show: { $0.text }, parse: { ListenAddress($0) }),
      .onRestart,
      "The addresses at which the server listens, with spaces between them. HOST is a name, a numeric address, with IPv6 in "
        + "brackets, or nothing for all addresses. Empty: only the sockets that systemd passes (earshot-sociald.socket)."
    ),
    Setting(
      "Certificate", \.certificate, .optional(.path()), .onReload,
      "The certificate for wss: as a PEM file, with its chain behind it. Each reload reads it again, and sessions "
        + "continue."
    ),
    Setting(
      "CertificateKey", \.certificateKey, .optional(.path()), .onReload,
      "The private key of Certificate= as a PEM file, which the user earshot-social can read."),
    Setting(
      "TrustedCertificates", \.trustedCertificates, .optional(.path()), .onReload,
      "The certificates by which this machine, as a client, trusts servers at wss:, as a PEM file. Empty: those that the "
        + "system trusts."),
    Setting(
      "Directory", \.directory, .optional(.path()), .onRestart,
      "The directory of the blobs and of the service's key. Empty: the directory that systemd creates for the service."),
  ]

  private static let people: [Setting<SocialSettings>] = [
    Setting(
      "AdminKey", \.adminKey, .optional(key), .onRestart,
      "The public encryption key of the administrator, 64 hexadecimal digits. Empty: nobody is the administrator."),
    Setting(
      "AdminAuthentication", \.adminAuthentication, .optional(key), .onRestart,
      "The public authentication key of the administrator, 64 hexadecimal digits. It is needed with AdminKey."),
    Setting(
      "NewUsers", \.newUsers, .choice, .onRestart,
      "Who adds users: admin, with newuser; or anyone, also by a first login."),
  ]

  private static let sizes: [Setting<SocialSettings>] = [
    Setting(
      "BlobSize", \.blob, .size(1024...Limits.largestBlob), .onRestart,
      "The maximum size of a blob with its header."),
    Setting(
      "AnswerSize", \.answer, .size((64 << 10)...(16 << 20)), .onRestart,
      "The maximum size of the answer to cat, ls and objdump. A longer answer is refused, with a hint what to ask instead."
    ),
    Setting(
      "StoreSize", \.store, .size((1 << 20)...(1 << 50)), .onRestart,
      "The maximum size of all blobs together, with 512 bytes for each name. Further blobs are refused."),
    Setting(
      "StorePerUser", \.storePerUser, .size((64 << 10)...(1 << 50)), .onRestart,
      "The maximum size of the blobs that one user wrote. The administrator has no limit."),
    Setting("Users", \.users, .number(1...10_000_000), .onRestart, "The maximum number of users."),
    Setting(
      "UsersPerUser", \.usersPerUser, .number(1...10_000_000), .onRestart,
      "The maximum number of users, forums, bridges and places that one user makes. The administrator has no limit."),
    Setting(
      "NamesPerUser", \.names, .number(16...10_000_000), .onRestart,
      "The maximum number of names in one user's directory; messages use at most nine tenths of them."),
  ]

  private static let rates: [Setting<SocialSettings>] = [
    Setting("Sessions", \.sessions, .number(1...10_000), .onRestart, "The maximum number of sessions."),
    Setting(
      "SessionsPerUser", \.sessionsPerUser, .number(1...10_000), .onRestart,
      "The maximum number of sessions of one user."),
    Setting(
      "SessionsPerAddress", \.sessionsPerAddress, .number(1...10_000), .onRestart,
      "The maximum number of sessions from one address: an IPv4 address, the first 64 bits of an IPv6 address, or a local "
        + "user."),
    Setting(
      "NotLoggedIn", \.strangers, .number(1...10_000), .onRestart,
      "The maximum number of connections that are not logged in. At the maximum, the address with the most of them loses "
        + "one to an address that has fewer."),
    Setting(
      "FailedLogins", \.failedLogins, .number(1...1000), .onRestart,
      "The number of failed logins in a minute after which connections from one address are refused for 10 minutes."),
    Setting(
      "InFlight", \.inFlight, .number(1...1024), .onRestart,
      "The maximum number of requests of one session without an answer. The server reads no more until it has answered."
    ),
    Setting(
      "Commands", \.commands, .number(1...10_000), .onRestart,
      "The number of requests of one session that are carried out in a second. Further requests wait."),
    Setting(
      "Burst", \.burst, .number(1...100_000), .onRestart,
      "The number of requests that a session may make at once after it was idle."),
    Setting(
      "BlobsPerSecond", \.blobs, .number(1...10_000), .onRestart,
      "The number of new blobs of one user in a second. Further ones wait."),
    Setting(
      "WaitingOutput", \.waiting, .size((256 << 10)...(64 << 20)), .onRestart,
      "The maximum size of the output that waits for one client. A session with more is closed."),
    Setting(
      "LoginTime", \.loginTime, .duration(.seconds(1) ... .seconds(600)), .onRestart,
      "The time for the key, and again for the login, after which a connection is closed."),
    Setting(
      "IdleTime", \.idleTime, .duration(.seconds(60) ... .seconds(86_400)), .onRestart,
      "The time after which a session of WebSocket is closed whose client sends nothing and answers no ping. It is pinged each "
        + "minute. Other sessions end with their connection."),
    Setting(
      "SuspendedTime", \.suspendedTime, .duration(.seconds(60) ... .seconds(604_800)), .onRestart,
      "The time after which a paused session is closed."),
  ]

  /// The syntax of a key: 32 octets in hexadecimal digits.
  private static let key = ValueKind<String>.text(upTo: 64).refusing { text in
    text.utf8.count == 64 && HexPrefix(text) != nil ? nil : "a key has 64 hexadecimal digits"
  }

  /// A sentence about contradictory settings; nil if there are none.
  public var problem: String? {
    if (adminKey == nil) != (adminAuthentication == nil) {
      return "[Social] has only one of AdminKey= and AdminAuthentication=, which are needed together."
    }
    if (certificate == nil) != (certificateKey == nil) {
      return "[Social] has only one of Certificate= and CertificateKey=, which are needed together."
    }
    if certificate == nil, let address = listen.first(where: \.isSecure) {
      return "[Social] has no Certificate=, which \(address.text) in Listen= needs."
    }
    return nil
  }
}

extension SocialServer.Configuration {
  init(_ settings: SocialSettings, keys: ServiceKeys) {
    var session = ServerSession.Configuration(encryption: keys.encryption, nonce: keys.nonce)
    (session.blob, session.inFlight, session.waiting) = (settings.blob, settings.inFlight, settings.waiting)
    (session.commands, session.burst) = (settings.commands, settings.burst)
    (session.keyTime, session.loginTime) = (settings.loginTime, settings.loginTime)
    (session.idleTime, session.suspendedTime) = (settings.idleTime, settings.suspendedTime)
    self.init(session: session)
    (sessions, sessionsPerUser) = (settings.sessions, settings.sessionsPerUser)
    (sessionsPerAddress, strangers) = (settings.sessionsPerAddress, settings.strangers)
    (failedLogins, blobs) = (settings.failedLogins, settings.blobs)
    answer = settings.answer
    heldPerUser = max(heldPerUser, 2 * settings.waiting)
  }
}

extension CommandEngine.Configuration {
  init(_ settings: SocialSettings, keys: ServiceKeys) {
    self.init(service: keys.user, serviceAuthentication: keys.authentication.publicKey)
    if let admin = settings.admin { (self.admin, adminAuthentication) = (admin.key, admin.authentication) }
    newUsers = settings.newUsers == .anyone ? .anyone : .admin
    (quota.blob, quota.users, quota.namesPerUser) = (settings.blob, settings.users, settings.names)
    quota.store = UInt64(settings.store)
    (quota.storePerUser, quota.usersPerUser) = (UInt64(settings.storePerUser), settings.usersPerUser)
    answer = settings.answer
  }
}

extension SocialSettings {
  /// The certificate for `wss:`; nil if there is none.
  var certificateFiles: CertificateFiles? { CertificateFiles(chain: certificate, key: certificateKey) }

  /// The administrator's public keys; nil if there is no administrator.
  var admin: (key: UserKey, authentication: Ed25519.PublicKey)? {
    guard let encryption = adminKey.flatMap({ try? Hex.decode($0) }), let key = try? UserKey(encryption),
      let bytes = adminAuthentication.flatMap({ try? Hex.decode($0) }),
      let authentication = try? Ed25519.PublicKey(bytes)
    else { return nil }
    return (key, authentication)
  }
}
