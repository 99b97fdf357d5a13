/// For how long, and how many, received credentials are kept.
public struct VaultSettings: Hashable, Sendable {
  /// How long a credential is kept before it is erased.
  public var keepFor = Duration.seconds(86_400)
  /// What all kept credentials may take together, as files, in bytes.
  public var maximumBytes = 64 << 20

  public init(keepFor: Duration = .seconds(86_400), maximumBytes: Int = 64 << 20) {
    self.keepFor = keepFor
    self.maximumBytes = maximumBytes
  }
}
