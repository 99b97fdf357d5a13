import Common
import Radio

/// The received advertisers, and the times of their reports to each scan. A value type: events and time are inputs,
/// reports are outputs.
struct ScanResultTable: Sendable {
  struct ScanID: Hashable, Sendable, Comparable {
    let number: Int

    static func < (left: ScanID, right: ScanID) -> Bool { left.number < right.number }
  }

  /// A scan result, or the loss of an advertiser, that is reported to one scan.
  struct Report: Hashable, Sendable {
    let scan: ScanID
    let event: ScanEvent
  }

  private struct Scan: Sendable {
    let services: Set<BluetoothUUID>
    /// When the scan last received a report of each advertiser.
    var reported: [BluetoothAddress: Instant] = [:]

    func wants(_ scanResult: ScanResult) -> Bool { services.isEmpty || !services.isDisjoint(with: scanResult.services) }
  }

  private struct Advertiser: Sendable {
    var scanResult: ScanResult
    var lastHeard: Instant
  }

  /// Maximum stored advertisers; beyond it the one with the oldest packet is lost.
  static let limit = 256
  /// Time without a packet after which an advertiser is lost.
  static let memory = Duration.seconds(30)
  /// Minimum time between two reports of an advertiser to a scan.
  static let interval = Duration.seconds(1)

  private var scans: [ScanID: Scan] = [:]
  private var advertisers: [BluetoothAddress: Advertiser] = [:]

  /// The services of all scans: empty for every advertiser, nil if there is no scan.
  var services: Set<BluetoothUUID>? {
    guard !scans.isEmpty else { return nil }
    return scans.values.contains { $0.services.isEmpty }
      ? [] : scans.values.reduce(into: []) { $0.formUnion($1.services) }
  }

  /// When the next advertiser may be lost; nil if there is none.
  var deadline: Instant? { advertisers.values.map { $0.lastHeard.advanced(by: Self.memory) }.min() }

  // MARK: Scans

  /// Adds a scan.
  ///
  /// - Returns: the first reports: the advertisers that are present.
  mutating func add(_ id: ScanID, for services: Set<BluetoothUUID>, at now: Instant) -> [Report] {
    scans[id] = Scan(services: services)
    return advertisers.keys.sorted { $0.value < $1.value }.flatMap { report($0, to: [id], at: now) }
  }

  mutating func remove(_ id: ScanID) {
    scans[id] = nil
    if scans.isEmpty { advertisers = [:] }
  }

  // MARK: Advertisers

  /// Handles a scan result of the driver, and returns the reports to the scans that it concerns.
  mutating func hear(_ scanResult: ScanResult, at now: Instant) -> [Report] {
    let known = advertisers[scanResult.address]
    // Many advertisers that no scan requested must not displace requested ones.
    guard known != nil || scans.values.contains(where: { $0.wants(scanResult) }) else { return [] }
    var reports = known == nil ? makeRoom() : []
    advertisers[scanResult.address] = Advertiser(scanResult: scanResult, lastHeard: now)
    let isNews = known.map { !$0.scanResult.saysTheSame(as: scanResult) } ?? true
    let due = scans.keys.sorted().filter { id in
      guard !isNews, let last = scans[id]?.reported[scanResult.address] else { return true }
      return last.duration(to: now) >= Self.interval
    }
    reports += report(scanResult.address, to: due, at: now)
    return reports
  }

  /// Removes advertisers whose time without a packet is over.
  mutating func expire(at now: Instant) -> [Report] {
    let old = advertisers.filter { $0.value.lastHeard.advanced(by: Self.memory) <= now }
    return old.keys.sorted { $0.value < $1.value }.flatMap { lose($0) }
  }

  /// Removes all advertisers, because the radio no longer receives.
  ///
  /// - Returns: the reports about them.
  mutating func loseAll() -> [Report] { advertisers.keys.sorted { $0.value < $1.value }.flatMap { lose($0) } }

  private mutating func report(_ address: BluetoothAddress, to ids: [ScanID], at now: Instant) -> [Report] {
    guard let scanResult = advertisers[address]?.scanResult else { return [] }
    return ids.compactMap { id in
      guard scans[id]?.wants(scanResult) == true else { return nil }
      scans[id]?.reported[address] = now
      return Report(scan: id, event: .sighted(scanResult))
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

  /// Removes an advertiser, with a report to each scan that knows it.
  mutating func lose(_ address: BluetoothAddress) -> [Report] {
    advertisers[address] = nil
    return scans.keys.sorted().compactMap { id in
      scans[id]?.reported.removeValue(forKey: address).map { _ in Report(scan: id, event: .lost(address)) }
    }
  }
}

extension ScanResult {
  /// Whether two scan results have equal data; they may differ in signal strength.
  fileprivate func saysTheSame(as other: ScanResult) -> Bool {
    var copy = other
    copy.rssi = rssi
    return self == copy
  }
}
