/// Limits on stored credentials.
public struct VaultSettings: Hashable, Sendable {
  /// Time after which a stored credential is erased.
  public var keepFor = Duration.seconds(86_400)
  /// Maximum space of all stored credentials, as files, in bytes.
  public var maximumBytes = 64 << 20

  public init(keepFor: Duration = .seconds(86_400), maximumBytes: Int = 64 << 20) {
    self.keepFor = keepFor
    self.maximumBytes = maximumBytes
  }
}
