import Radio

/// The type `Advertisement` of `Radio`, in files that also import `Thali`, which has a type of the same name.
typealias RadioAdvertisement = Advertisement

extension AdvertisingData {
  /// Makes advertising data from complete AD structures, with unchanged types.
  init(exactly bytes: [UInt8]) {
    var structures: [AdvertisingStructure] = []
    var rest = bytes[...]
    while let length = rest.popFirst(), length > 0, let type = rest.popFirst() {
      let payload = rest.prefix(Int(length) - 1)
      rest = rest.dropFirst(payload.count)
      structures.append(.other(type, Array(payload)))
    }
    self.init(structures)
  }
}

extension ScanResult {
  /// The advertising data with the UUIDs, the service data and the manufacturer data of a scan result.
  var data: [UInt8] {
    func structure(_ type: UInt8, _ payload: [UInt8]) -> [UInt8] {
      payload.count < 255 ? [UInt8(payload.count + 1), type] + payload : []
    }
    let uuids = serviceUUIDs.flatMap { structure($0.short == nil ? 0x07 : 0x03, $0.advertisedBytes) }
    let services = serviceData.flatMap { entry in
      structure(entry.service.short == nil ? 0x21 : 0x16, entry.service.advertisedBytes + entry.bytes)
    }
    let companies = manufacturerData.flatMap { entry in
      structure(
        0xFF, [UInt8(truncatingIfNeeded: entry.company), UInt8(truncatingIfNeeded: entry.company >> 8)] + entry.bytes)
    }
    return uuids + services + companies
  }
}
