/// What a look into the spool found: the records that could be read, as their owner decodes them, and the files that
/// could not.
public struct SpoolContents<Value: Sendable>: Sendable {
  public struct Entry: Sendable {
    public let id: SpoolID
    /// When the content was received, in seconds since 1970 by the wall clock of that time.
    public let received: Int64
    public let mark: UInt8
    public let value: Value
    /// What the file takes of `RecordSpool.Limits.maximumBytes`.
    public let size: Int

    public init(id: SpoolID, received: Int64, mark: UInt8, value: Value, size: Int) {
      self.id = id
      self.received = received
      self.mark = mark
      self.value = value
      self.size = size
    }
  }

  /// The earliest first, by the dates in their files.
  public var entries: [Entry] = []
  public var problems: [SpoolProblem] = []
  /// How many files were not read because there was no room for their records.
  public var withoutRoom = 0
  /// How many damaged files are kept, whether this look found them damaged or an earlier one.
  public var damaged = 0

  public init() {}
}

extension SpoolContents.Entry: Equatable where Value: Equatable {}
