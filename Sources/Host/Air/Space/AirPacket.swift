import Common
import Radio

/// A value on its way over a link.
public struct AirPacket: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// A write with response.
    case request
    /// A write without response.
    case command
    case notification
    /// A notification that the receiver confirms; it is never lost at random.
    case indication
  }

  public var kind: Kind
  public var from: BluetoothAddress
  public var to: BluetoothAddress
  /// The link, as the central numbers it.
  public var link: LinkID
  public var characteristic: CharacteristicID
  public var value: [UInt8]
  /// Counts the packets of this direction of the link, from 0.
  public var number: Int
}

/// What becomes of a packet.
public enum AirVerdict: Hashable, Sendable {
  case deliver
  /// It never arrives. A request or an indication is then never answered, and the link ends as it does on the real thing.
  case drop
  case duplicate
  /// It arrives so much later; those behind it overtake it.
  case delay(Duration)
  /// It arrives with this value in place of its own.
  case corrupt([UInt8])
}
