import Common

extension BroadcastEngine {
  /// What happens to the feed, but for reports and what programs ask for: those have methods of their own.
  public enum Event: Hashable, Sendable {
    /// The message of `Action.transmit` has come on the air.
    case began(UInt64)
    /// Its time on the air is over, or it was taken off before that.
    case ended(UInt64, wasCutShort: Bool)
    /// It gets no place on the air, for this reason.
    case refused(UInt64, BroadcastError)
    /// The beacon of `Action.transmitBeacon` has come on the air.
    case beaconBegan
    /// The beacon is no longer on the air.
    case beaconEnded
    /// The beacon gets no place on the air.
    case beaconRefused
    /// `deadline` has come.
    case timer
    /// The service ends: what waits is dropped.
    case stop
  }

  /// What is to be done, in this order. Each action means the same wherever it stands.
  public enum Action: Hashable, Sendable {
    /// Puts a message on the air for `Limits.airTime`, within `Limits.longestWait`, under the address of the message before;
    /// `Event.began` and `ended`, or `refused`, tell what became of it.
    case transmit(UInt64, MessagePacket)
    /// Takes off the air what was to be transmitted, or no longer asks for a place. The address is kept.
    case silence
    /// Nothing was said for a while: the address is given up.
    case leaveAir
    /// Puts a beacon on the air for `Limits.beaconTime`, within `Limits.longestWait`; `Event.beaconBegan` and `beaconEnded`, or
    /// `beaconRefused`, tell what became of it.
    case transmitBeacon(NotifyBeacon)
    /// Takes the beacon off the air, or no longer asks for its place, for this reason.
    case stopBeacon(BroadcastError)
    /// A message was said as a whole.
    case sent(UInt64)
    /// A message will not be said, or was not said for its whole time.
    case dropped(UInt64, BroadcastError)
    /// A peer says something.
    case heard(HeardMessage)
    /// A peer wants to talk.
    case notified
    /// The ledger has changed: it is to outlive the run.
    case keep(NotifyLedger)
  }

  /// How often each thing happened since the engine was made.
  public struct Counters: Hashable, Sendable {
    /// Messages that were new.
    public var heard: UInt64 = 0
    /// Messages that were on the air for their whole time.
    public var sent: UInt64 = 0
    /// Messages that programs sent and that were not on the air for their whole time.
    public var notSent: UInt64 = 0
    /// Reports that a message is over.
    public var stops: UInt64 = 0
    /// Beacons that were told.
    public var notifications: UInt64 = 0
    /// What the caps on peers and their pace have dropped.
    public var refusedByCaps: UInt64 { self[.noRoom] + self[.tooManyNew] + self[.tooFast] }
    private var drops = [UInt64](repeating: 0, count: Drop.allCases.count)

    public init() {}

    /// How much was dropped for one reason.
    public subscript(_ drop: Drop) -> UInt64 { drops[drop.rawValue] }

    mutating func count(_ drop: Drop) { drops[drop.rawValue] += 1 }

    /// All of them, with their names.
    public var tallies: [Tally] {
      [
        Tally("HeardMessages", heard), Tally("SentMessages", sent), Tally("UnsentMessages", notSent),
        Tally("Stops", stops), Tally("Notifications", notifications),
      ] + Drop.allCases.map { Tally($0.name, self[$0]) }
    }
  }

  public struct Configuration: Hashable, Sendable {
    /// Whether the same message from a new address that is as near is held for the same.
    public var followsAddresses = false

    public init() {}
  }
}
