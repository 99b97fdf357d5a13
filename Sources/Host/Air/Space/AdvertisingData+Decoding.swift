import Common
import Radio

extension AdvertisingData {
  /// Reads the AD structures in `bytes`, as a receiver does: unknown ones are passed over, and it ends where the bytes
  /// end, where a length is 0, or where a structure is cut off (Core 5.4 Vol 3 Part C 11).
  init(decoding bytes: some Collection<UInt8>) {
    self.init()
    var rest = ArraySlice(Array(bytes))
    while let length = rest.popFirst(), length > 0, rest.count >= Int(length), let type = rest.popFirst() {
      let payload = rest.prefix(Int(length) - 1)
      rest = rest.dropFirst(payload.count)
      take(type, payload)
    }
  }

  private mutating func take(_ type: UInt8, _ payload: ArraySlice<UInt8>) {
    switch type {
    case 0x01:
      flags = payload.first
    case 0x02, 0x03:
      takeUUIDs(payload, size: 2)
    case 0x04, 0x05:
      takeUUIDs(payload, size: 4)
    case 0x06, 0x07:
      takeUUIDs(payload, size: 16)
    case 0x08, 0x09:
      localName = String(decoding: payload, as: UTF8.self)
    case 0x16:
      takeServiceData(payload, size: 2)
    case 0x20:
      takeServiceData(payload, size: 4)
    case 0x21:
      takeServiceData(payload, size: 16)
    default:
      break
    }
  }

  private mutating func takeUUIDs(_ payload: ArraySlice<UInt8>, size: Int) {
    var rest = payload
    while rest.count >= size {
      serviceUUIDs.append(BluetoothUUID(advertised: rest.prefix(size)))
      rest = rest.dropFirst(size)
    }
  }

  private mutating func takeServiceData(_ payload: ArraySlice<UInt8>, size: Int) {
    guard payload.count >= size else { return }
    let service = BluetoothUUID(advertised: payload.prefix(size))
    serviceData.append(ServiceData(service: service, bytes: Array(payload.dropFirst(size))))
  }
}

extension BluetoothUUID {
  /// From 2, 4 or 16 bytes, little endian.
  fileprivate init(advertised bytes: ArraySlice<UInt8>) {
    func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
      bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    if bytes.count == 16 {
      self.init(high: number(bytes.suffix(8)), low: number(bytes.prefix(8)))
    } else {
      let base = BluetoothUUID(short: 0)
      self.init(high: number(bytes) << 32 | base.high, low: base.low)
    }
  }
}

extension Sighting {
  /// What a scanner makes of the two payloads of an advertiser.
  init(address: BluetoothAddress, data: [UInt8], scanResponse: [UInt8], rssi: Int?) {
    let first = AdvertisingData(decoding: data)
    let second = AdvertisingData(decoding: scanResponse)
    self.init(
      address: address, serviceUUIDs: first.serviceUUIDs + second.serviceUUIDs,
      serviceData: first.serviceData + second.serviceData, localName: first.localName ?? second.localName, rssi: rssi)
  }
}
