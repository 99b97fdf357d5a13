import Common
import Loop
import Radio

/// A node's scan filter, and the times of its last reports.
@LoopActor
final class AirScan {
  /// Minimum time between two reports of an unchanged advertisement.
  static let repetition = Duration.seconds(1)

  let node: AirRadio
  var listening: Listening
  /// The time of the last report of each advertisement, by `OnAir.fingerprint`.
  private var reported: [UInt64: Instant] = [:]
  /// Number of stored report times from which on old ones are removed.
  private var reportLimit = 64

  init(node: AirRadio, _ listening: Listening) {
    self.node = node
    self.listening = listening
  }

  /// Handles the reception of an advertisement.
  ///
  /// - Returns: the time from which the node accepts it again; nil means never.
  func hear(_ advertisement: OnAir, rssi: Int?, at now: Instant) -> Instant? {
    var next: Instant?
    // The listener may change its filter after any packet.
    for packet in advertisement.packets where wants(packet) {
      next = now.advanced(by: .nanoseconds(1))
      var packet = packet
      packet.rssi = rssi
      packet.time = now
      node.heard(packet)
    }
    guard wants(advertisement.scanResult) else { return next }
    if let last = reported[advertisement.fingerprint], last.duration(to: now) < Self.repetition {
      let again = last.advanced(by: Self.repetition)
      return next.map { min($0, again) } ?? again
    }
    remember(advertisement.fingerprint, now)
    node.heard(advertisement, rssi: rssi)
    return next ?? now.advanced(by: Self.repetition)
  }

  /// Whether the node accepts the advertisement, now or after `repetition`.
  func wants(_ advertisement: OnAir) -> Bool {
    advertisement.packets.contains { wants($0) } || wants(advertisement.scanResult)
  }

  private func wants(_ packet: AdvertisingPacket) -> Bool { node.seesPackets && listening.wants(packet.data[...]) }

  /// Decides by the lists of service UUIDs alone, as BlueZ and the kernel do.
  private func wants(_ scanResult: ScanResult) -> Bool {
    guard let services = listening.services else { return false }
    return services.isEmpty || scanResult.serviceUUIDs.contains(where: services.contains)
  }

  private func remember(_ fingerprint: UInt64, _ now: Instant) {
    reported[fingerprint] = now
    guard reported.count > reportLimit else { return }
    reported = reported.filter { $0.value.duration(to: now) < Self.repetition }
    reportLimit = max(64, 2 * reported.count)
  }

  /// Restarts the scan after the adapter was away.
  func restart() {
    reported = [:]
  }
}
