/// Constants of the Attribute Protocol over LE (Core 5.4 Vol 3 Part F and Part G). They are defined only here.
public enum ATT {
  /// Bytes before the value in a notification, an indication and a write: the opcode (1) and the attribute's handle
  /// (2).
  public static let overhead = 3
  /// Maximum bytes of an attribute's value (Part F 3.2.9).
  public static let valueLimit = 512
  /// MTU of a link before the exchange of MTUs, in bytes (Part G 5.2.1).
  public static let firstMTU = 23
  /// L2CAP channel of the ATT bearer that every LE link has (Vol 3 Part A 2.1).
  public static let channel: UInt16 = 0x0004
  /// Opcode of a Handle Value Notification (Part F 3.4.7.1).
  public static let notification: UInt8 = 0x1B

  /// Maximum bytes of a value in one notification or one write on a link with this `mtu`; 0 if the MTU leaves no space.
  public static func valueLimit(mtu: Int) -> Int { max(0, min(valueLimit, mtu - overhead)) }
}
