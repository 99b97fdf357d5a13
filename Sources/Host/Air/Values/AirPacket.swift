import Common
import Radio

/// A value in transit over a link.
public struct AirPacket: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// A write request, which the peer answers.
    case request
    /// A write command, which has no answer.
    case command
    case notification
    /// A notification that the receiver confirms; it is never lost randomly.
    case indication
  }

  public var kind: Kind
  public var from: BluetoothAddress
  public var to: BluetoothAddress
  /// The number by which the node that made the link knows it.
  public var link: LinkID
  public var characteristic: CharacteristicID
  public var value: [UInt8]
  /// The packet's index in this direction of the link, from 0.
  public var number: Int
}

/// A filter's decision on a packet.
public enum AirVerdict: Hashable, Sendable {
  case deliver
  /// The packet never arrives. A dropped request or indication is never answered, and the link ends, as on a real
  /// radio.
  case drop
  case duplicate
  /// The packet arrives after an additional delay, so that packets after it overtake it.
  case delay(Duration)
  /// The packet arrives with this value instead of its own.
  case corrupt([UInt8])
}

/// The effects of the filter and of random loss on a packet.
struct AirFate: Sendable {
  private(set) var copies = 1
  private(set) var delay = Duration.zero
  private(set) var isOvertaken = false

  init(
    of packet: inout AirPacket, _ verdict: AirVerdict, _ conditions: AirConditions, _ generator: inout SplitMix64
  ) {
    switch verdict {
    case .deliver: break
    case .drop: copies = 0
    case .duplicate: copies = 2
    case .delay(let time): delay = max(.zero, time)
    case .corrupt(let value): packet.value = value
    }
    let loss: Double
    switch packet.kind {
    case .request, .indication: return
    case .command: loss = conditions.commandLoss
    case .notification: loss = conditions.notificationLoss
    }
    if generator.chance(loss) {
      copies = 0
    } else {
      if generator.chance(conditions.duplicate) { copies *= 2 }
      isOvertaken = copies > 0 && generator.chance(conditions.reorder)
    }
  }
}
