import Common
import DBus
import Radio

/// The advertisers that were heard of late, each as what its reports say together.
///
/// bluetoothd's `ServiceData` is what the last report held. Advertising data and scan response can come as two reports, so
/// what the one brought must outlive the other. Facts: bluez-debian13.md section 2.
struct Sightings: Sendable {
  private struct Entry: Sendable {
    var sighting: Sighting
    var lastHeard: Instant
  }

  /// Advertisers that are remembered; of more, the one that was not heard for longest is forgotten.
  static let limit = 256
  /// For how long an advertiser is remembered that is heard no more, as bluetoothd does.
  static let memory = Duration.seconds(30)
  /// What is kept of one advertiser's data, put together.
  static let entryLimit = 16
  static let bytesLimit = 512

  private var entries: [ObjectPath: Entry] = [:]

  /// Takes a report of `device`.
  ///
  /// - Returns: what is known of the device now.
  mutating func hear(_ report: DeviceReport, of device: Device, at now: Instant) -> Sighting {
    let known = entries[device.path].flatMap { $0.lastHeard.duration(to: now) < Self.memory ? $0.sighting : nil }
    let sighting = Sighting(
      address: device.address, serviceUUIDs: device.serviceUUIDs,
      serviceData: Self.together(known?.serviceData ?? [], report.serviceData),
      manufacturerData: Self.together(known?.manufacturerData ?? [], report.manufacturerData),
      localName: device.localName, rssi: report.rssi ?? known?.rssi)
    if entries[device.path] == nil { makeRoom() }
    entries[device.path] = Entry(sighting: sighting, lastHeard: now)
    return sighting
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

  /// What a report makes of the data that is known.
  ///
  /// Where bytes changed, another advertisement has taken the place of the one before, and what only that one held is
  /// forgotten: the first half of new data must not be met with the second half of the old.
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

/// Data of an advertisement, under a key that stands in it once.
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
