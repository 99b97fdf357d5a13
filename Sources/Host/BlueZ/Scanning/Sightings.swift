import Common
import DBus
import Radio

/// The advertisers that were heard of late, each as what its reports say together.
///
/// bluetoothd's `ServiceData` is what the last report held. Advertising data and scan response can come as two, so what
/// the one brought must outlive the other. Facts: bluez-debian13.md section 2.
struct Sightings: Sendable {
  private struct Entry: Sendable {
    var sighting: Sighting
    var lastHeard: Instant
    /// Goes up with each change of what the sighting holds, the signal strength aside.
    var revision: UInt64
  }

  /// Advertisers that are remembered; of more, those that were not heard for longest are forgotten.
  static let limit = 256
  /// For how long one is remembered that is heard no more, as bluetoothd does.
  static let memory = Duration.seconds(30)
  /// What is kept of one advertiser's service data, put together.
  static let entryLimit = 16
  static let bytesLimit = 512

  private var entries: [ObjectPath: Entry] = [:]
  private var lastRevision: UInt64 = 0

  /// Takes a report of `device`.
  ///
  /// - Returns: what is known of the device now, and the number of that state: a new one where something changed.
  mutating func hear(
    _ report: AdvertisingReport, of device: Device, at now: Instant
  ) -> (sighting: Sighting, revision: UInt64) {
    let known = entries[device.path].flatMap { Self.isFresh($0, now) ? $0 : nil }
    let sighting = Sighting(
      address: device.address, serviceUUIDs: device.serviceUUIDs,
      serviceData: Self.together(known?.sighting.serviceData ?? [], report.serviceData), localName: device.localName,
      rssi: report.rssi ?? known?.sighting.rssi)
    var before = known?.sighting
    before?.rssi = sighting.rssi
    var revision = known?.revision ?? 0
    if before != sighting {
      lastRevision += 1
      revision = lastRevision
    }
    if entries[device.path] == nil { makeRoom() }
    entries[device.path] = Entry(sighting: sighting, lastHeard: now, revision: revision)
    return (sighting, revision)
  }

  /// Those that were heard within `memory`, by their paths.
  func fresh(at now: Instant) -> [(path: ObjectPath, sighting: Sighting, revision: UInt64)] {
    entries.filter { Self.isFresh($0.value, now) }.sorted { $0.key.string < $1.key.string }
      .map { ($0.key, $0.value.sighting, $0.value.revision) }
  }

  func holds(_ device: ObjectPath) -> Bool { entries[device] != nil }

  mutating func forget(_ device: ObjectPath) {
    entries[device] = nil
  }

  mutating func removeAll() {
    entries = [:]
  }

  private static func isFresh(_ entry: Entry, _ now: Instant) -> Bool {
    entry.lastHeard.duration(to: now) < memory
  }

  private mutating func makeRoom() {
    guard entries.count >= Self.limit, let oldest = entries.min(by: { $0.value.lastHeard < $1.value.lastHeard })
    else { return }
    entries[oldest.key] = nil
  }

  /// What a report makes of the service data that is known.
  ///
  /// Where bytes changed, another advertisement has taken the place of the one before, and what only that one held is
  /// forgotten: a verifier's new key must not be met with the rest of the old one.
  static func together(
    _ known: [AdvertisingData.ServiceData], _ report: [AdvertisingData.ServiceData]
  ) -> [AdvertisingData.ServiceData] {
    let isReplaced = report.contains { new in known.contains { $0.service == new.service && $0.bytes != new.bytes } }
    var kept = isReplaced ? [] : known
    for entry in report where !kept.contains(where: { $0.service == entry.service }) { kept.append(entry) }
    var bytes = 0
    return kept.prefix(entryLimit).filter { entry in
      bytes += entry.bytes.count
      return bytes <= bytesLimit
    }
  }
}
