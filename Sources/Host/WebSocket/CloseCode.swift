/// The reason why a WebSocket connection ends (RFC 6455 section 7.4).
public struct CloseCode: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16

  public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let normal = CloseCode(rawValue: 1000)
  public static let goingAway = CloseCode(rawValue: 1001)
  public static let protocolError = CloseCode(rawValue: 1002)
  /// The close frame has no code. It is never sent.
  public static let absent = CloseCode(rawValue: 1005)
  public static let badText = CloseCode(rawValue: 1007)
  public static let policy = CloseCode(rawValue: 1008)
  public static let tooLarge = CloseCode(rawValue: 1009)

  /// Whether a close frame may have this code.
  public var isAllowed: Bool {
    switch rawValue {
    case 1000...1003, 1007...1014, 3000...4999: true
    default: false
    }
  }
}
