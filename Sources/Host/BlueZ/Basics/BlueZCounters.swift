import Common
import Loop

/// Counts of faults and limits that peers and programs caused at this radio since the start.
@LoopActor
public final class BlueZCounters {
  /// Number of calls of our D-Bus objects by programs other than bluetoothd.
  public internal(set) var strangers: UInt64 = 0
  /// Number of invalid properties, paths and signals from bluetoothd, which were ignored.
  public internal(set) var malformed: UInt64 = 0
  /// Writes that were answered with an error.
  public internal(set) var refusedWrites: UInt64 = 0
  /// Values for clients that had not subscribed, or whose link had ended.
  public internal(set) var droppedNotifications: UInt64 = 0
  /// Values that bypassed bluetoothd and were sent by raw HCI.
  public internal(set) var forcedNotifications: UInt64 = 0
  /// Values over raw HCI that were too long and were cut.
  public internal(set) var cutNotifications: UInt64 = 0
  /// Values that were sent again because the client had changed its subscription meanwhile.
  public internal(set) var repeatedNotifications: UInt64 = 0
  /// Links that were not reported because the maximum was reached.
  public internal(set) var refusedLinks: UInt64 = 0
  /// Restarts of scanning after its results had stopped.
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
