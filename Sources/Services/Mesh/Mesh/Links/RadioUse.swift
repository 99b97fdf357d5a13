import Common

/// Use of the radio: time of scanning, advertising and links.
struct RadioUse: Sendable {
  /// Accumulated time of an activity, times the number of its instances.
  private struct Meter: Sendable {
    private var total = Duration.zero
    private var since: Instant?
    private var count = 0

    mutating func set(_ count: Int, at now: Instant) {
      total = total(at: now)
      (self.count, since) = (count, now)
    }

    func total(at now: Instant) -> Duration {
      guard let since else { return total }
      return total + since.duration(to: now) * count
    }
  }

  private var scanning = Meter()
  private var advertising = Meter()
  private var connected = Meter()

  mutating func scan(_ isWanted: Bool, at now: Instant) { scanning.set(isWanted ? 1 : 0, at: now) }
  mutating func advertise(_ isWanted: Bool, at now: Instant) { advertising.set(isWanted ? 1 : 0, at: now) }
  mutating func connect(_ links: Int, at now: Instant) { connected.set(links, at: now) }

  func scanned(at now: Instant) -> Duration { scanning.total(at: now) }

  /// The times in whole seconds; those of all links are summed.
  func tallies(at now: Instant) -> [Tally] {
    [
      Tally("ScanSeconds", Self.seconds(scanning.total(at: now))),
      Tally("AdvertiseSeconds", Self.seconds(advertising.total(at: now))),
      Tally("LinkSeconds", Self.seconds(connected.total(at: now))),
    ]
  }

  private static func seconds(_ duration: Duration) -> UInt64 { UInt64(max(0, duration.components.seconds)) }
}
