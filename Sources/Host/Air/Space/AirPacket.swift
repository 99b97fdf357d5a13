import Common
import Radio

/// A value in transit over a link.
public struct AirPacket: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// A write with response.
    case request
    /// A write without response.
    case command
    case notification
    /// A notification that the receiver confirms; it is never lost randomly.
    case indication
  }

  public var kind: Kind
  public var from: BluetoothAddress
  public var to: BluetoothAddress
  /// The central's number of the link.
  public var link: LinkID
  public var characteristic: CharacteristicID
  public var value: [UInt8]
  /// The packet's index in this direction of the link, from 0.
  public var number: Int
}

/// A decision on a packet.
public enum AirVerdict: Hashable, Sendable {
  case deliver
  /// The packet never arrives. A dropped request or indication is never answered, and the link ends, as on a real
  /// radio.
  case drop
  case duplicate
  /// The packet arrives later by this duration; packets after it overtake it.
  case delay(Duration)
  /// The packet arrives with this value instead of its own.
  case corrupt([UInt8])
}
