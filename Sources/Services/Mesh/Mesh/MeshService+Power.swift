import Bitchat
import Common
import Loop

/// Power settings: on mains the node scans continuously, on battery a fifteenth of the time.
extension MeshService {
  /// Power source of the node.
  public enum Power: String, Sendable, CaseIterable {
    case mains
    case battery
  }

  /// Advertising interval.
  var advertisingInterval: Duration { settings.power == .battery ? .seconds(1) : .milliseconds(200) }

  /// Whether to scan now. On battery, schedules the next check.
  func isScanDue() -> Bool {
    guard settings.power == .battery else {
      dutyTimer.set(nil)
      return true
    }
    let duty = self.duty.look(at: scheduler.now)
    dutyTimer.set(duty.next)
    return duty.isListening
  }

  /// Records a sent packet. A message may begin a conversation, so a node on battery scans. Announces and sync do not
  /// have this effect.
  func note(sent bytes: [UInt8], _ kind: PacketClass) {
    guard settings.power == .battery, kind != .announce, kind != .syncAnswer,
      bytes.count > 1, bytes[1] != MessageType.requestSync.rawValue
    else { return }
    noteTraffic()
  }

  /// Records traffic, and scans if the node is on battery.
  func noteTraffic() {
    guard settings.power == .battery else { return }
    duty.traffic(at: scheduler.now)
    if scan == nil { listen() }
  }

  /// Applies a changed power source.
  func powerChanged(from old: Power) {
    guard settings.power != old, isStarted, engine != nil, server != nil else { return }
    duty = ScanDuty()
    advertise()
    listen()
  }
}
