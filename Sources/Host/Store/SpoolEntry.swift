/// A credential that was received, with what has to be known of it after a restart. It is never printed.
public struct SpoolEntry: Hashable, Sendable {
  /// When it was received, in seconds since 1970 by the wall clock.
  public var received: Int64
  /// The dialect spoken, at most 255 bytes of UTF-8.
  public var dialect: String
  /// The wallet's address, at most 255 bytes of UTF-8; empty if it is unknown.
  public var peer: String
  public var credential: [UInt8]

  public init(received: Int64, dialect: String, peer: String, credential: [UInt8]) {
    self.received = received
    self.dialect = dialect
    self.peer = peer
    self.credential = credential
  }

  /// How long ago it was received. One from the future, as the clock tells it, is no age at all.
  ///
  /// - Parameter now: seconds since 1970 by the wall clock.
  public func age(at now: Int64) -> Duration { .seconds(Self.age(received, now)) }

  static func age(_ time: Int64, _ now: Int64) -> Int64 {
    let (age, overflow) = now.subtractingReportingOverflow(time)
    return overflow ? (now > time ? .max : 0) : Swift.max(0, age)
  }
}

extension SpoolEntry: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "<credential of \(credential.count) bytes>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
