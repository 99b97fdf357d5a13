/// What is in the spool: the credentials that could be read, and the files that could not.
public struct SpoolContents: Sendable {
  public struct Restored: Sendable, Hashable {
    public let id: SpoolID
    public let entry: SpoolEntry
  }

  public struct Problem: Sendable, Hashable {
    /// The file's name; one that is `damaged` was given the ending `.damaged`, any other was left alone.
    public let name: String
    public let error: StoreError
  }

  /// The earliest first, by the time they say they were received.
  public internal(set) var credentials: [Restored] = []
  public internal(set) var problems: [Problem] = []
}
