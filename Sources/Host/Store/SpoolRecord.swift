/// A record as the spool keeps it: bytes that only their owner understands, a date and a mark. It is never printed.
public struct SpoolRecord: Hashable, Sendable {
  /// When the content was received, in seconds since 1970 by the wall clock. It stands in the file in the clear.
  public var received: Int64
  /// What the owner notes about the record without writing it anew: 0...255. It stands in the file's name in the clear.
  public var mark: UInt8
  /// What is sealed, coded by the owner.
  public var content: [UInt8]

  public init(received: Int64, mark: UInt8 = 0, content: [UInt8]) {
    self.received = received
    self.mark = mark
    self.content = content
  }

  /// Seconds from `time` to `now`, both in seconds since 1970. A time in the future has no age: 0.
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
