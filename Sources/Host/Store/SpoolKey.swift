import Crypto

/// The key under which records are kept at rest: from systemd's credentials where the unit has
/// `LoadCredentialEncrypted=earshot-spool:…`, otherwise made at random and kept in the state directory.
public struct SpoolKey: Sendable, CustomStringConvertible {
  public typealias Origin = StoreKey.Origin

  public static let size = StoreKey.size
  /// The name of systemd's credential in the unit.
  public static let credentialName = name.credential
  /// The name of the key's file in the state directory.
  public static let fileName = name.file
  /// Where an administrator puts a key.
  static let places = name.places
  static let idSize = StoreKey.idSize
  private static let name = StoreKey.Name("spool")

  private let key: StoreKey

  public var origin: Origin { key.origin }
  /// Whether systemd has credentials for this run, and the spool's key is not among them.
  public var isMissingFromCredentials: Bool { key.isMissingFromCredentials }
  /// A name for the key that tells nothing about its bytes.
  var id: [UInt8] { key.id }

  /// Finds the key, or makes one; throws as `StoreKey.load` does.
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
