/// The metadata of a file or a directory.
public struct FileStatus: Hashable, Sendable {
  public enum Kind: Sendable { case file, directory, other }

  public var kind: Kind
  /// The twelve permission bits of `chmod`.
  public var mode: UInt32
  public var owner: UInt32
  /// The size in bytes.
  public var size: Int
  /// The time of the last change of the content, in seconds since 1970-01-01 UTC, by the wall clock.
  public var modified: Int64

  public init(kind: Kind, mode: UInt32, owner: UInt32, size: Int, modified: Int64) {
    self.kind = kind
    self.mode = mode
    self.owner = owner
    self.size = size
    self.modified = modified
  }

  /// Throws `wrongOwner` or `wrongMode` unless the entry belongs to `user` and no other user has access.
  func requirePrivate(to user: UInt32, _ path: String) throws(StoreError) {
    guard owner == user else {
      throw StoreError(
        .wrongOwner,
        "\(path) belongs to user \(owner), and this service runs as user \(user): run chown -R \(user) \(path).")
    }
    guard mode & 0o077 == 0 else {
      let octal = String(mode, radix: 8)
      let right = kind == .directory ? "700" : "600"
      throw StoreError(
        .wrongMode,
        "\(path) has mode \(octal), which gives other users access: run chmod \(right) \(path), and consider who may "
          + "have read it.")
    }
  }
}
