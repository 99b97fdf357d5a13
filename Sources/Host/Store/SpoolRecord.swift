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
