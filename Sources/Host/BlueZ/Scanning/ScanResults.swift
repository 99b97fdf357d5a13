import Common
import DBus
import Radio

/// Recent scan results, each combined from several reports of an advertiser.
///
/// bluetoothd's `ServiceData` contains only the last report. Advertising data and scan response can arrive in two
/// reports, so the data of one must be stored together with the other. Facts: bluez-debian13.md section 2.
struct ScanResults: Sendable {
  private struct Entry: Sendable {
    var scanResult: ScanResult
    var lastHeard: Instant
  }

  /// Maximum stored advertisers; beyond it the one with the oldest report is removed.
  static let limit = 256
  /// Time after its last report for which an advertiser is stored, as in bluetoothd.
  static let memory = Duration.seconds(30)
  /// Maximum entries of one advertiser's combined data.
  static let entryLimit = 16
  /// Maximum bytes of one advertiser's combined data.
  static let bytesLimit = 512

  private var entries: [ObjectPath: Entry] = [:]

  /// Handles a report of `device`.
  ///
  /// - Returns: the combined scan result.
  mutating func hear(_ report: DeviceReport, of device: Device, at now: Instant) -> ScanResult {
    let known = entries[device.path].flatMap { $0.lastHeard.duration(to: now) < Self.memory ? $0.scanResult : nil }
    let scanResult = ScanResult(
      address: device.address, serviceUUIDs: device.serviceUUIDs,
      serviceData: Self.together(known?.serviceData ?? [], report.serviceData),
      manufacturerData: Self.together(known?.manufacturerData ?? [], report.manufacturerData),
      localName: device.localName, rssi: report.rssi ?? known?.rssi)
    if entries[device.path] == nil { makeRoom() }
    entries[device.path] = Entry(scanResult: scanResult, lastHeard: now)
    return scanResult
  }

  var count: Int { entries.count }

  func holds(_ device: ObjectPath) -> Bool { entries[device] != nil }

  mutating func forget(_ device: ObjectPath) {
    entries[device] = nil
  }

  mutating func removeAll() {
    entries = [:]
  }

  private mutating func makeRoom() {
    guard entries.count >= Self.limit, let oldest = entries.min(by: { $0.value.lastHeard < $1.value.lastHeard })
    else { return }
    entries[oldest.key] = nil
  }

  /// Combines a report with the stored data.
  ///
  /// If the bytes of a key changed, the advertiser has a new advertisement, and the remaining data of the old one is
  /// discarded. Otherwise parts of the new and the old data would be mixed.
  static func together<Data: KeyedBytes>(_ known: [Data], _ report: [Data]) -> [Data] {
    let isReplaced = report.contains { new in known.contains { $0.key == new.key && $0.bytes != new.bytes } }
    var kept = isReplaced ? [] : known
    for entry in report where !kept.contains(where: { $0.key == entry.key }) { kept.append(entry) }
    var bytes = 0
    return kept.prefix(entryLimit).filter { entry in
      bytes += entry.bytes.count
      return bytes <= bytesLimit
    }
  }
}

/// Data of an advertisement with a key that is unique in it.
protocol KeyedBytes {
  associatedtype Key: Equatable
  var key: Key { get }
  var bytes: [UInt8] { get }
}

extension AdvertisingData.ServiceData: KeyedBytes {
  var key: BluetoothUUID { service }
}

extension AdvertisingData.ManufacturerData: KeyedBytes {
  var key: UInt16 { company }
}
