import Common
import Radio

/// The advertisers that are heard, and what each scan was told of them. A value.
struct SightingTable: Sendable {
  struct ScanID: Hashable, Sendable, Comparable {
    let number: Int

    static func < (left: ScanID, right: ScanID) -> Bool { left.number < right.number }
  }

  /// What a scan is to be told.
  struct Report: Hashable, Sendable {
    let scan: ScanID
    let event: ScanEvent
  }

  private struct Scan: Sendable {
    let services: Set<BluetoothUUID>
    /// When the scan was last told of each advertiser.
    var reported: [BluetoothAddress: Instant] = [:]

    func wants(_ sighting: Sighting) -> Bool { services.isEmpty || !services.isDisjoint(with: sighting.services) }
  }

  private struct Advertiser: Sendable {
    var sighting: Sighting
    var lastHeard: Instant
  }

  /// Advertisers that are remembered; of more, the one that was not heard for longest is lost.
  static let limit = 256
  /// An advertiser that is heard no more is lost after this time.
  static let memory = Duration.seconds(30)
  /// While an advertiser is heard, each scan is told of it this often at most.
  static let interval = Duration.seconds(1)

  private var scans: [ScanID: Scan] = [:]
  private var advertisers: [BluetoothAddress: Advertiser] = [:]

  /// The services that the scans are for: empty for every advertiser, nil if there is no scan.
  var services: Set<BluetoothUUID>? {
    guard !scans.isEmpty else { return nil }
    return scans.values.contains { $0.services.isEmpty }
      ? [] : scans.values.reduce(into: []) { $0.formUnion($1.services) }
  }

  /// When the next advertiser may be lost; nil while there is none.
  var deadline: Instant? { advertisers.values.map { $0.lastHeard.advanced(by: Self.memory) }.min() }

  // MARK: Scans

  /// - Returns: what the scan is told at once: the advertisers that are being heard.
  mutating func add(_ id: ScanID, for services: Set<BluetoothUUID>, at now: Instant) -> [Report] {
    scans[id] = Scan(services: services)
    return advertisers.keys.sorted { $0.value < $1.value }.flatMap { report($0, to: [id], at: now) }
  }

  mutating func remove(_ id: ScanID) {
    scans[id] = nil
    if scans.isEmpty { advertisers = [:] }
  }

  // MARK: Advertisers

  /// An advertiser was heard.
  mutating func hear(_ sighting: Sighting, at now: Instant) -> [Report] {
    let known = advertisers[sighting.address]
    // A crowd that no scan asked for must not displace those that one did.
    guard known != nil || scans.values.contains(where: { $0.wants(sighting) }) else { return [] }
    var reports = known == nil ? makeRoom() : []
    advertisers[sighting.address] = Advertiser(sighting: sighting, lastHeard: now)
    let isNews = known.map { !$0.sighting.saysTheSame(as: sighting) } ?? true
    let due = scans.keys.sorted().filter { id in
      guard !isNews, let last = scans[id]?.reported[sighting.address] else { return true }
      return last.duration(to: now) >= Self.interval
    }
    reports += report(sighting.address, to: due, at: now)
    return reports
  }

  /// Loses the advertisers that were not heard for long enough.
  mutating func expire(at now: Instant) -> [Report] {
    let old = advertisers.filter { $0.value.lastHeard.advanced(by: Self.memory) <= now }
    return old.keys.sorted { $0.value < $1.value }.flatMap { lose($0) }
  }

  /// The radio hears nothing any more.
  mutating func loseAll() -> [Report] { advertisers.keys.sorted { $0.value < $1.value }.flatMap { lose($0) } }

  private mutating func report(_ address: BluetoothAddress, to ids: [ScanID], at now: Instant) -> [Report] {
    guard let sighting = advertisers[address]?.sighting else { return [] }
    return ids.compactMap { id in
      guard scans[id]?.wants(sighting) == true else { return nil }
      scans[id]?.reported[address] = now
      return Report(scan: id, event: .sighted(sighting))
    }
  }

  private mutating func makeRoom() -> [Report] {
    guard advertisers.count >= Self.limit,
      let oldest = advertisers.min(by: {
        ($0.value.lastHeard, $0.key.value) < ($1.value.lastHeard, $1.key.value)
      })
    else { return [] }
    return lose(oldest.key)
  }

  /// Loses an advertiser: each scan that was told of it is told so.
  mutating func lose(_ address: BluetoothAddress) -> [Report] {
    advertisers[address] = nil
    return scans.keys.sorted().compactMap { id in
      scans[id]?.reported.removeValue(forKey: address).map { _ in Report(scan: id, event: .lost(address)) }
    }
  }
}

extension Sighting {
  /// Whether two sightings differ in their signal strength at most.
  fileprivate func saysTheSame(as other: Sighting) -> Bool {
    var copy = other
    copy.rssi = rssi
    return self == copy
  }
}
