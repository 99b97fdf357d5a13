import Common
import Crypto

/// A key that encrypts stored data: from systemd's credentials if the unit has
/// `LoadCredentialEncrypted=earshot-NAME:…`, otherwise drawn at random and stored in the state directory as `NAME.key`.
public struct StoreKey: Sendable, CustomStringConvertible {
  public enum Origin: Sendable {
    /// The key is a systemd credential, which systemd decrypted for this run.
    case systemCredential
    /// The key is in the state directory: a reader of the sealed data can read it as well.
    case stateDirectory
    /// The key is in the state directory and was created in this run.
    case made
  }

  /// Identifies a stored key. It determines the location of the key, and not its bytes.
  public struct Name: Sendable {
    /// The name of the systemd credential in the unit.
    public let credential: String
    /// The name of the key's file in the state directory.
    public let file: String

    public init(_ name: String) {
      credential = "earshot-\(name)"
      file = "\(name).key"
    }

    /// The locations at which an administrator can provide a key.
    public var places: String { "\(file) in the state directory, or the unit's credential \(credential)" }

    /// The files that may contain the key, the present one first.
    public var files: [String] { [file, "\(file).previous", "\(file).new"] }
  }

  public static let size = 32

  public let origin: Origin
  /// Whether systemd provides credentials for this run, but not this key.
  public let isMissingFromCredentials: Bool
  /// An identifier of the key, 8 bytes, that reveals nothing about its bytes.
  public let id: [UInt8]
  private let secret: SecretBytes
  private let salt: [UInt8]

  static let idSize = 8
  private static let version: UInt16 = 1
  /// Maximum bytes of a credential that are read to report its length.
  private static let credentialLimit = 4096

  /// Loads the key, or creates one.
  ///
  /// - Throws: `wrongMode` or `wrongOwner` for a key file that others can access. Throws `damaged` for an invalid key
  ///   file or a credential that is not 32 bytes long, or an error of the disk.
  public static func load(
    _ name: Name, from state: StateDirectory, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) -> StoreKey {
    if let found = try find(name, from: state, on: fileSystem, environment: environment) { return found }
    let secret = SecretBytes(random: size)
    let file = AtomicFile(name.file, in: state.directory, version: version, limit: size)
    try secret.withUnsafeBytes { (bytes) throws(StoreError) in try file.write(bytes) }
    return try StoreKey(name, secret, .made, isMissing: environment("CREDENTIALS_DIRECTORY") != nil)
  }

  /// Loads the key; nil if neither systemd's credentials nor the state directory contain it. Throws like `load`.
  public static func find(
    _ name: Name, from state: StateDirectory, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) -> StoreKey? {
    let credentials = environment("CREDENTIALS_DIRECTORY")
    if let credentials, let key = try systemCredential(name, in: try fileSystem.openDirectory(credentials)) {
      return key
    }
    let directory = state.directory
    let file = AtomicFile(name.file, in: directory, version: version, limit: size)
    for file in name.files.prefix(2) { try state.requirePrivate(file) }
    guard let secret = try stored(in: file, called: name.file) else { return nil }
    return try StoreKey(name, secret, .stateDirectory, isMissing: credentials != nil)
  }

  /// Destroys the key's files: each is overwritten and removed. When this returns, they remain removed after a loss of
  /// power. Data that is sealed with the key is then unreadable, except with a copy of the key. systemd's credentials
  /// are not changed.
  ///
  /// A file that cannot be overwritten is removed, and the other files are still destroyed; the first error is thrown
  /// at the end.
  public static func destroy(_ name: Name, in state: StateDirectory) throws(StoreError) {
    try state.erase(name.files)
  }

  private static func stored(in file: AtomicFile, called name: String) throws(StoreError) -> SecretBytes? {
    do throws(StoreError) {
      let found = try file.read { (_, content) throws(StoreError) in
        guard content.count == size else { throw .damaged(name, "it has \(content.count) bytes") }
        return SecretBytes(copying: content)
      }
      return found?.value
    } catch {
      guard error.reason == .damaged else { throw error }
      throw StoreError(
        .damaged,
        error.sentence
          + " Restore it from a backup. Or remove it: the service then makes a new key, and data encrypted with the "
          + "old one is lost.")
    }
  }

  /// The key that systemd decrypted; nil if the unit requests none. systemd sets its file mode, which is not checked.
  private static func systemCredential(
    _ name: Name, in directory: any Directory
  ) throws(StoreError) -> StoreKey? {
    guard var bytes = try directory.contents(of: name.credential, limit: credentialLimit) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == size else {
      throw StoreError(
        .damaged,
        "The credential \(name.credential) has \(bytes.count) bytes and must have \(size). Create it with head -c "
          + "\(size) /dev/urandom | systemd-creds encrypt --name=\(name.credential) - FILE.")
    }
    return try StoreKey(name, SecretBytes(copying: bytes), .systemCredential)
  }

  public init(_ name: Name, _ secret: SecretBytes, _ origin: Origin, isMissing: Bool = false) throws(StoreError) {
    self.secret = secret
    self.origin = origin
    isMissingFromCredentials = isMissing
    salt = Array(name.credential.utf8)
    id = try Self.derive(secret, salt, "key id", Self.idSize).withUnsafeBytes { Array($0) }
  }

  /// Derives a key for one purpose.
  public func key(for purpose: String, count: Int) throws(StoreError) -> SecretBytes {
    try Self.derive(secret, salt, purpose, count)
  }

  private static func derive(
    _ secret: SecretBytes, _ salt: [UInt8], _ purpose: String, _ count: Int
  ) throws(StoreError) -> SecretBytes {
    do throws(CryptoError) {
      return try HKDF.sha256(secret: secret, salt: salt, info: Array(purpose.utf8), count: count)
    } catch {
      throw StoreError(.failed, "Key derivation failed: \(error).")
    }
  }

  public var description: String { "<secret>" }
}

/// The key that encrypts stored records: from systemd's credentials if the unit has
/// `LoadCredentialEncrypted=earshot-spool:…`, otherwise drawn at random and stored in the state directory.
public struct SpoolKey: Sendable, CustomStringConvertible {
  public typealias Origin = StoreKey.Origin

  public static let size = StoreKey.size
  /// The name of the systemd credential in the unit.
  public static let credentialName = name.credential
  /// The name of the key's file in the state directory.
  public static let fileName = name.file
  /// The locations at which an administrator can provide a key.
  static let places = name.places
  static let idSize = StoreKey.idSize
  private static let name = StoreKey.Name("spool")

  private let key: StoreKey

  public var origin: Origin { key.origin }
  /// Whether systemd provides credentials for this run, but not the spool's key.
  public var isMissingFromCredentials: Bool { key.isMissingFromCredentials }
  /// An identifier of the key that reveals nothing about its bytes.
  var id: [UInt8] { key.id }

  /// Loads the key, or creates one; throws like `StoreKey.load`.
  public static func load(
    from state: StateDirectory, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) -> SpoolKey {
    SpoolKey(key: try StoreKey.load(name, from: state, on: fileSystem, environment: environment))
  }

  init(_ secret: SecretBytes, _ origin: Origin, isMissing: Bool = false) throws(StoreError) {
    key = try StoreKey(Self.name, secret, origin, isMissing: isMissing)
  }

  private init(key: StoreKey) {
    self.key = key
  }

  /// Derives the key for one record's file.
  func key(for id: SpoolID) throws(StoreError) -> SecretBytes {
    try key.key(for: "record \(id)", count: ChaChaPoly.keySize)
  }

  public var description: String { "<secret>" }
}
