import Common

extension BroadcastEngine {
  /// Inputs of the engine. Reports and requests have their own methods.
  public enum Event: Hashable, Sendable {
    /// The message of `Action.transmit` is being broadcast.
    case began(UInt64)
    /// The broadcast of a message is over, or was cut short.
    case ended(UInt64, wasCutShort: Bool)
    /// A message was not broadcast, for the given reason.
    case refused(UInt64, BroadcastError)
    /// The beacon of `Action.transmitBeacon` is being broadcast.
    case beaconBegan
    /// The broadcast of the beacon is over.
    case beaconEnded
    /// The beacon was not broadcast.
    case beaconRefused
    /// `deadline` was reached.
    case timer
    /// The service stops. Waiting messages are dropped.
    case stop
  }

  /// Outputs of the engine, which the owner performs in order.
  public enum Action: Hashable, Sendable {
    /// Broadcast a message for `Limits.airTime`, starting within `Limits.longestWait`, under the address of the
    /// previous message. `Event.began` and `ended`, or `refused`, report the outcome.
    case transmit(UInt64, MessagePacket)
    /// Stop the current broadcast, or withdraw its request for an advertising slot. The advertising set and its address
    /// stay for the next message.
    case silence
    /// No message was sent for `Limits.conversation` (60 s), or the engine stops: release the advertising set and its
    /// address.
    case leaveAir
    /// Broadcast a beacon for `Limits.beaconTime`, starting within `Limits.longestWait`. `Event.beaconBegan` and
    /// `beaconEnded`, or `beaconRefused`, report the outcome.
    case transmitBeacon(NotifyBeacon)
    /// Stop the beacon for the given reason, or withdraw its request for an advertising slot.
    case stopBeacon(BroadcastError)
    /// A message was broadcast for its whole time.
    case sent(UInt64)
    /// A message was not broadcast, or not for its whole time.
    case dropped(UInt64, BroadcastError)
    /// A new message of a peer was received.
    case heard(ReceivedBroadcast)
    /// A beacon was received and is reported to local programs.
    case notified
    /// The record of notifications has changed and must be persisted.
    case keep(NotificationRecord)
  }

  /// Number of events of each kind since the engine was created.
  public struct Counters: Hashable, Sendable {
    /// Number of new messages of peers.
    public var heard: UInt64 = 0
    /// Number of this machine's messages that were broadcast for their whole time.
    public var sent: UInt64 = 0
    /// Number of this machine's messages that were not broadcast for their whole time.
    public var notSent: UInt64 = 0
    /// Reports with a digit and no text, which mark the end of a message.
    public var stops: UInt64 = 0
    /// Number of received beacons that were reported to local programs.
    public var notifications: UInt64 = 0
    /// Number of received messages that were dropped because of a limit on peers or on their rate (`Drop.noRoom`,
    /// `tooManyNew`, `tooFast`).
    public var refusedByCaps: UInt64 { self[.noRoom] + self[.tooManyNew] + self[.tooFast] }
    private var drops = [UInt64](repeating: 0, count: Drop.allCases.count)

    public init() {}

    /// Number of reports dropped for one reason.
    public subscript(_ drop: Drop) -> UInt64 { drops[drop.rawValue] }

    mutating func count(_ drop: Drop) { drops[drop.rawValue] += 1 }

    /// All counters with their names.
    public var tallies: [Tally] {
      [
        Tally("ReceivedMessages", heard), Tally("SentMessages", sent), Tally("UnsentMessages", notSent),
        Tally("Stops", stops), Tally("Notifications", notifications),
      ] + Drop.allCases.map { Tally($0.name, self[$0]) }
    }
  }

  public struct Configuration: Hashable, Sendable {
    /// Whether a message from a new address counts as a copy of an equal one of the last 4 s with a similar signal
    /// strength.
    public var followsAddresses = false

    public init() {}
  }
}

/// A received message of a peer, as local programs see it.
public struct ReceivedBroadcast: Hashable, Sendable {
  /// Number of the message: one more than that of the previous message since the start of the engine.
  public let number: UInt64
  /// Time of first receipt, in milliseconds since 1970 by this machine's clock.
  public let time: Int64
  /// Number below `Limits.aliases` that identifies the peer for people. It is unique among the stored peers and does
  /// not reveal the address. An address has the same alias during a run, unless another peer uses it.
  public let alias: Int
  public let text: MessageText
  /// Received signal strength in dBm; nil if the controller gives none.
  public let rssi: Int?
}
