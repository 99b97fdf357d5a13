import Bitchat
import Common
import Loop

/// What a node spends: one on the mains listens all the time, one on a battery a fifteenth of it.
extension MeshService {
  /// What the node lives on.
  public enum Power: String, Sendable, CaseIterable {
    case mains
    case battery
  }

  /// From one advertisement to the next.
  var advertisingInterval: Duration { settings.power == .battery ? .seconds(1) : .milliseconds(200) }

  /// Whether it is time to scan. On a battery it is looked at again when that changes.
  func isScanDue() -> Bool {
    guard settings.power == .battery else {
      dutyTimer.set(nil)
      return true
    }
    let duty = self.duty.look(at: scheduler.now)
    dutyTimer.set(duty.next)
    return duty.isListening
  }

  /// A packet goes out. What somebody says may be the beginning of a conversation, for which a node on a battery wakes up; announces, and
  /// what neighbours ask each other all day, are not.
  func note(sent bytes: [UInt8], _ kind: PacketClass) {
    guard settings.power == .battery, kind != .announce, kind != .syncAnswer,
      bytes.count > 1, bytes[1] != MessageType.requestSync.rawValue
    else { return }
    noteTraffic()
  }

  /// Somebody has said something.
  func noteTraffic() {
    guard settings.power == .battery else { return }
    duty.traffic(at: scheduler.now)
    if scan == nil { listen() }
  }

  /// Takes on another way to live.
  func powerChanged(from old: Power) {
    guard settings.power != old, isStarted, engine != nil, server != nil else { return }
    duty = ScanDuty()
    advertise()
    listen()
  }
}
