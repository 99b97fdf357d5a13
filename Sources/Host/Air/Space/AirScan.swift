import Common
import Loop
import Radio

/// What a node listens for, and when it reported last what it heard.
@LoopActor
final class AirScan {
  /// An advertiser that goes on saying the same is reported once in this time.
  static let repetition = Duration.seconds(1)

  let node: AirRadio
  var listening: Listening
  /// When each advertisement, by its fingerprint, was reported last.
  private var reported: [UInt64: Instant] = [:]
  /// How many reports may be remembered before old ones are thrown away.
  private var reportLimit = 64

  init(node: AirRadio, _ listening: Listening) {
    self.node = node
    self.listening = listening
  }

  /// An advertisement is received, now.
  ///
  /// - Returns: the time from which on the node wants to hear of it again; nil: not at all.
  func hear(_ advertisement: OnAir, rssi: Int?, at now: Instant) -> Instant? {
    var next: Instant?
    // The listener may change its mind with any packet.
    for packet in advertisement.packets where wants(packet) {
      next = now.advanced(by: .nanoseconds(1))
      var packet = packet
      packet.rssi = rssi
      packet.time = now
      node.heard(packet)
    }
    guard wants(advertisement.sighting) else { return next }
    if let last = reported[advertisement.fingerprint], last.duration(to: now) < Self.repetition {
      let again = last.advanced(by: Self.repetition)
      return next.map { min($0, again) } ?? again
    }
    remember(advertisement.fingerprint, now)
    node.heard(advertisement, rssi: rssi)
    return next ?? now.advanced(by: Self.repetition)
  }

  /// Whether the node wants to hear of the advertisement, now or a little later.
  func wants(_ advertisement: OnAir) -> Bool {
    advertisement.packets.contains { wants($0) } || wants(advertisement.sighting)
  }

  private func wants(_ packet: AdvertisingPacket) -> Bool { node.seesPackets && listening.wants(packet.data[...]) }

  /// Only the lists of service UUIDs count, as for BlueZ and the kernel.
  private func wants(_ sighting: Sighting) -> Bool {
    guard let services = listening.services else { return false }
    return services.isEmpty || sighting.serviceUUIDs.contains(where: services.contains)
  }

  private func remember(_ fingerprint: UInt64, _ now: Instant) {
    reported[fingerprint] = now
    guard reported.count > reportLimit else { return }
    reported = reported.filter { $0.value.duration(to: now) < Self.repetition }
    reportLimit = max(64, 2 * reported.count)
  }

  /// The scan begins again, after the adapter was gone.
  func restart() {
    reported = [:]
  }
}
