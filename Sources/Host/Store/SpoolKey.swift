import Crypto

/// The key that encrypts stored records: from systemd's credentials if the unit has
/// `LoadCredentialEncrypted=earshot-spool:…`, otherwise drawn at random and stored in the state directory.
public struct SpoolKey: Sendable, CustomStringConvertible {
  public typealias Origin = StoreKey.Origin

  public static let size = StoreKey.size
  /// The name of the systemd credential in the unit.
  public static let credentialName = name.credential
  /// The name of the key's file in the state directory.
  public static let fileName = name.file
  /// The places in which an administrator can provide a key.
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
