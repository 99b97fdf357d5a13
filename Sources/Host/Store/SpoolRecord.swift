import Bytes
import Crypto

/// A record of the spool: content in its owner's format, a date and a mark. It is never printed.
public struct SpoolRecord: Hashable, Sendable {
  /// The date of receipt, in seconds since 1970-01-01 UTC, by the wall clock. It is stored in clear text in the file.
  public var received: Int64
  /// The owner's mark, 0...255, which can be changed without rewriting the record. It is stored in clear text in the
  /// file's name.
  public var mark: UInt8
  /// The content to seal, encoded by the owner.
  public var content: [UInt8]

  public init(received: Int64, mark: UInt8 = 0, content: [UInt8]) {
    self.received = received
    self.mark = mark
    self.content = content
  }

  /// Seconds from `time` to `now`, both since 1970-01-01 UTC. The age of a future time is 0.
  static func age(_ time: Int64, _ now: Int64) -> Int64 {
    let (age, overflow) = now.subtractingReportingOverflow(time)
    return overflow ? (now > time ? .max : 0) : Swift.max(0, age)
  }
}

extension SpoolRecord: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "<record of \(content.count) bytes>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The ID of a record in the spool: 16 random bytes, never reused.
public struct SpoolID: Hashable, Sendable, Comparable, CustomStringConvertible {
  static let size = 16

  let bytes: [UInt8]

  /// Creates an ID from 16 random bytes.
  public init(randomFrom random: inout some RandomSource) {
    bytes = random.bytes(Self.size)
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    bytes = Array(try reader.bytes(Self.size))
  }

  /// Parses a `description`; nil for any other text.
  public init?(_ text: some StringProtocol) {
    guard let bytes = try? Hex.decode(text), bytes.count == Self.size, Hex.encode(bytes) == text else { return nil }
    self.bytes = bytes
  }

  /// The ID as 32 lower-case hex digits.
  public var description: String { Hex.encode(bytes) }

  public static func < (left: SpoolID, right: SpoolID) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

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
  /// Number of valid files that were not read because a limit of the listing was reached.
  public var withoutRoom = 0
  /// Number of stored damaged files, found by this or an earlier listing.
  public var damaged = 0

  public init() {}
}

extension SpoolContents.Entry: Equatable where Value: Equatable {}

/// A file of the spool that could not be read or erased, and the reason.
public struct SpoolProblem: Sendable, Hashable {
  /// The file's name. A file with the error `damaged` was renamed to end in `.damaged`; other files were not changed.
  public let name: String
  public let error: StoreError
  /// Whether another attempt may succeed without an administrator's help.
  public let isPassing: Bool

  public init(name: String, error: StoreError) {
    self.name = name
    self.error = error
    isPassing =
      switch error.reason {
      case .damaged, .keyMissing, .tooNew, .otherRelease, .tooLarge, .wrongKind: false
      default: true
      }
  }
}
