/// What is known of a file or a directory without reading it.
public struct FileStatus: Hashable, Sendable {
  public enum Kind: Sendable { case file, directory, other }

  public var kind: Kind
  /// The twelve bits that `chmod` sets.
  public var mode: UInt32
  public var owner: UInt32
  /// In bytes.
  public var size: Int
  /// When the content was changed last, in seconds since 1970 by the wall clock.
  public var modified: Int64

  public init(kind: Kind, mode: UInt32, owner: UInt32, size: Int, modified: Int64) {
    self.kind = kind
    self.mode = mode
    self.owner = owner
    self.size = size
    self.modified = modified
  }

  /// Throws `wrongOwner` or `wrongMode` unless it is the user's, and the user's alone.
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
        "\(path) has mode \(octal), which lets other users at what is kept there: run chmod \(right) \(path), and think about "
          + "who may have read it.")
    }
  }
}
