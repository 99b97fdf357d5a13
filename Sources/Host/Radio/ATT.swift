/// Numbers of the attribute protocol over LE (Core 5.4 Vol 3 Part F and Part G). They stand here and nowhere else.
public enum ATT {
  /// Bytes before the value in a notification, an indication and a write: the opcode (1) and the attribute's handle (2).
  public static let overhead = 3
  /// Bytes of the longest value that an attribute has (Part F 3.2.9).
  public static let valueLimit = 512
  /// MTU of a link before its ends have exchanged theirs, in bytes (Part G 5.2.1).
  public static let firstMTU = 23
  /// L2CAP channel of the one bearer that every LE link has (Vol 3 Part A 2.1).
  public static let channel: UInt16 = 0x0004
  /// Opcode of a Handle Value Notification (Part F 3.4.7.1).
  public static let notification: UInt8 = 0x1B

  /// Bytes of the longest value that one notification or one write carries on a link with this `mtu`; 0 for an MTU
  /// that has no room for any.
  public static func valueLimit(mtu: Int) -> Int { max(0, min(valueLimit, mtu - overhead)) }
}
