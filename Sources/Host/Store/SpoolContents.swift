/// The result of listing the spool: the readable records, decoded by their owner, and the problems with other files.
public struct SpoolContents<Value: Sendable>: Sendable {
  public struct Entry: Sendable {
    public let id: SpoolID
    /// The date of receipt, in seconds since 1970-01-01 UTC, by the wall clock of that time.
    public let received: Int64
    public let mark: UInt8
    public let value: Value
    /// The size of the file, for `RecordSpool.Limits.maximumBytes`.
    public let size: Int

    public init(id: SpoolID, received: Int64, mark: UInt8, value: Value, size: Int) {
      self.id = id
      self.received = received
      self.mark = mark
      self.value = value
      self.size = size
    }
  }

  /// The records in ascending order of the dates in their files.
  public var entries: [Entry] = []
  public var problems: [SpoolProblem] = []
  /// Number of files that were not read because a limit was reached.
  public var withoutRoom = 0
  /// Number of stored damaged files, found by this or an earlier listing.
  public var damaged = 0

  public init() {}
}

extension SpoolContents.Entry: Equatable where Value: Equatable {}
