import Common
import Loop

/// What confused, overwhelmed or hostile peers and programs did to this radio, in numbers since the start.
@LoopActor
public final class BlueZCounters {
  /// Calls of our objects by programs other than bluetoothd.
  public internal(set) var strangers: UInt64 = 0
  /// Properties, paths and signals of bluetoothd that are not what they should be, and were passed over.
  public internal(set) var malformed: UInt64 = 0
  /// Writes that were answered with an error.
  public internal(set) var refusedWrites: UInt64 = 0
  /// Values for clients that had not subscribed, or whose link was gone.
  public internal(set) var droppedNotifications: UInt64 = 0
  /// Values that went by raw HCI.
  public internal(set) var forcedNotifications: UInt64 = 0
  /// Those of them that were too long, and were cut.
  public internal(set) var cutNotifications: UInt64 = 0
  /// Values that were sent once more, for the client had changed its subscription while they were on their way.
  public internal(set) var repeatedNotifications: UInt64 = 0
  /// Links that were not told of because there were too many.
  public internal(set) var refusedLinks: UInt64 = 0
  /// Restarts of scanning because its results had stopped.
  public internal(set) var scanRestarts: UInt64 = 0

  init() {}

  var tallies: [Tally] {
    [
      Tally("Strangers", strangers), Tally("Malformed", malformed), Tally("RefusedWrites", refusedWrites),
      Tally("DroppedNotifications", droppedNotifications), Tally("RepeatedNotifications", repeatedNotifications),
      Tally("RefusedLinks", refusedLinks), Tally("ScanRestarts", scanRestarts),
    ]
  }
}
