/// What is in the spool: the credentials that could be read, and the files that could not.
public struct SpoolContents: Sendable {
  public struct Restored: Sendable, Hashable {
    public let id: SpoolID
    public let entry: SpoolEntry
    /// It was accepted, and nobody has taken it yet.
    public var isAccepted = false
  }

  public struct Problem: Sendable, Hashable {
    /// The file's name; one that is `damaged` was given the ending `.damaged`, any other was left alone.
    public let name: String
    public let error: StoreError
    /// Whether it may be read another time though nobody does anything about it.
    public let isPassing: Bool
  }

  /// The earliest first, by the time they say they were received.
  public internal(set) var credentials: [Restored] = []
  public internal(set) var problems: [Problem] = []
  /// Files that are whole as far as one knows, and were not read: there was no room.
  public internal(set) var left = 0
  /// Files that were found damaged, now or earlier, and are kept for whoever wants to look into them.
  public internal(set) var damaged = 0
}
