import Common
import Crypto

/// The key under which records are kept at rest: from systemd's credentials where the unit has
/// `LoadCredentialEncrypted=earshot-spool:…`, otherwise made at random and kept in the state directory.
public struct SpoolKey: Sendable, CustomStringConvertible {
  public enum Origin: Sendable {
    /// systemd decrypted it for this run.
    case systemCredential
    /// It is in the state directory: who can read the records' files can read it.
    case stateDirectory
    /// It is in the state directory and was made just now.
    case made
  }

  public static let size = 32
  /// The name of systemd's credential in the unit.
  public static let credentialName = "earshot-spool"
  /// The name of the key's file in the state directory.
  public static let fileName = "spool.key"
  /// Where an administrator puts a key.
  static let places = "\(fileName) in the state directory, or the unit's credential \(credentialName)"

  public let origin: Origin
  /// Whether systemd has credentials for this run, and the spool's key is not among them.
  public let isMissingFromCredentials: Bool
  /// A name for the key that tells nothing about its bytes.
  let id: [UInt8]
  private let secret: SecretBytes

  static let idSize = 8
  private static let salt = Array("earshot-spool".utf8)
  private static let version: UInt16 = 1
  /// No more of a credential is read, to say how long it is.
  private static let credentialLimit = 4096

  /// Finds the key, or makes one.
  ///
  /// - Throws: `wrongMode` or `wrongOwner` for a key file that others could read, `damaged` for one that is not as it
  ///   was written or a credential that has not 32 bytes, or what the disk says.
  public static func load(
    from state: StateDirectory, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: (String) -> String? = StateDirectory.environment
  ) throws(StoreError) -> SpoolKey {
    let credentials = environment("CREDENTIALS_DIRECTORY")
    if let credentials, let key = try systemCredential(in: try fileSystem.openDirectory(credentials)) { return key }
    let directory = state.directory
    let file = AtomicFile(fileName, in: directory, version: version, limit: size)
    for name in [fileName, "\(fileName).previous"] {
      try directory.status(of: name)?.requirePrivate(to: state.user, directory.path(of: name))
    }
    if let secret = try stored(in: file) {
      return try SpoolKey(secret, .stateDirectory, isMissing: credentials != nil)
    }
    let secret = SecretBytes(random: size)
    try secret.withUnsafeBytes { (bytes) throws(StoreError) in try file.write(bytes) }
    return try SpoolKey(secret, .made, isMissing: credentials != nil)
  }

  private static func stored(in file: AtomicFile) throws(StoreError) -> SecretBytes? {
    do throws(StoreError) {
      let found = try file.read { (_, content) throws(StoreError) in
        guard content.count == size else { throw .damaged(fileName, "it has \(content.count) bytes") }
        return SecretBytes(copying: content)
      }
      return found?.value
    } catch {
      guard error.reason == .damaged else { throw error }
      throw StoreError(
        .damaged,
        error.sentence
          + " Bring it back from a backup; or remove it, and lose what was kept under it: a new one is made.")
    }
  }

  /// The key that systemd decrypted; nil if the unit asks for none. systemd decides on its mode.
  private static func systemCredential(in directory: any Directory) throws(StoreError) -> SpoolKey? {
    guard var bytes = try directory.contents(of: credentialName, limit: credentialLimit) else { return nil }
    defer { bytes.wipe() }
    guard bytes.count == size else {
      throw StoreError(
        .damaged,
        "The credential \(credentialName) has \(bytes.count) bytes and must have \(size): make it with "
          + "head -c \(size) /dev/urandom | systemd-creds encrypt --name=\(credentialName) - FILE.")
    }
    return try SpoolKey(SecretBytes(copying: bytes), .systemCredential)
  }

  init(_ secret: SecretBytes, _ origin: Origin, isMissing: Bool = false) throws(StoreError) {
    self.secret = secret
    self.origin = origin
    isMissingFromCredentials = isMissing
    id = try Self.derive(secret, "key id", Self.idSize).withUnsafeBytes { Array($0) }
  }

  /// Derives the key for one record's file.
  func key(for id: SpoolID) throws(StoreError) -> SecretBytes {
    try Self.derive(secret, "record \(id)", ChaChaPoly.keySize)
  }

  private static func derive(_ secret: SecretBytes, _ purpose: String, _ count: Int) throws(StoreError) -> SecretBytes {
    do throws(CryptoError) {
      return try HKDF.sha256(secret: secret, salt: salt, info: Array(purpose.utf8), count: count)
    } catch {
      throw StoreError(.failed, "No key can be derived: \(error).")
    }
  }

  public var description: String { "<secret>" }
}
