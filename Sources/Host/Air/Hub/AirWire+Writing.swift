import Bytes
import Common
import Radio

extension ByteWriter {
  mutating func address(_ address: BluetoothAddress) {
    u32le(UInt32(truncatingIfNeeded: address.value))
    u16le(UInt16(truncatingIfNeeded: address.value >> 32))
  }

  mutating func uuid(_ uuid: BluetoothUUID) {
    u64le(uuid.low)
    u64le(uuid.high)
  }

  mutating func characteristic(_ id: CharacteristicID) {
    uuid(id.service)
    uuid(id.characteristic)
  }

  mutating func value(_ value: [UInt8]) {
    let value = value.prefix(Int(UInt16.max))
    u16le(UInt16(value.count))
    append(value)
  }

  /// Writes a text. A text that is too long is cut at a character boundary.
  mutating func text(_ text: String) {
    var fitting = text[...]
    while fitting.utf8.count > AirWire.textLimit { fitting.removeLast() }
    value(Array(fitting.utf8))
  }

  mutating func duration(_ duration: Duration) {
    u64le(UInt64(max(0, duration.wholeNanoseconds)))
  }

  mutating func error(_ error: ATTError?) {
    u8(error?.rawValue ?? 0)
  }

  mutating func uuids(_ uuids: [BluetoothUUID]) {
    let uuids = uuids.prefix(AirWire.uuidLimit)
    u16le(UInt16(uuids.count))
    for id in uuids { uuid(id) }
  }

  mutating func services(_ services: [GATTService]) {
    let services = services.prefix(Int(UInt16.max))
    u16le(UInt16(services.count))
    for service in services {
      uuid(service.uuid)
      let characteristics = service.characteristics.prefix(AirWire.characteristicLimit)
      u8(UInt8(characteristics.count))
      for characteristic in characteristics {
        uuid(characteristic.uuid)
        u8(characteristic.properties.rawValue)
        u8(characteristic.reach == .exact ? 1 : 0)
      }
    }
  }

  mutating func link(_ link: LinkID) {
    u64le(link.number)
  }

  mutating func links(_ links: [LinkID]) {
    let links = links.prefix(AirWire.linkLimit)
    u8(UInt8(links.count))
    for link in links { self.link(link) }
  }

  mutating func instant(_ instant: Instant) {
    u64le(UInt64(bitPattern: instant.nanoseconds))
  }

  mutating func rssi(_ rssi: Int8?) {
    u8(rssi.map(UInt8.init(bitPattern:)) ?? AirWire.noSignalStrength)
  }

  mutating func state(_ state: RadioStatus.State) {
    switch state {
    case .waiting: u8(0)
    case .ready: u8(1)
    case .degraded: u8(2)
    }
  }

  mutating func abilities(_ abilities: AirAbilities) {
    u8(abilities.advertisingSlots)
    u8(abilities.seesPackets ? 1 : 0)
    u8(abilities.hasRawHCI ? 1 : 0)
  }

  mutating func packet(_ packet: AdvertisingPacket) {
    address(packet.address)
    u8(packet.addressKind == .randomAddress ? 1 : 0)
    switch packet.kind {
    case .connectable: u8(0)
    case .nonConnectable: u8(1)
    case .scanResponse: u8(2)
    case .unknown: u8(3)
    }
    rssi(packet.rssi.map { Int8(clamping: $0) })
    instant(packet.time)
    value(packet.data)
  }

  mutating func use(_ use: Use) {
    switch use {
    case .read(let id): tagged(0, id)
    case .subscribed(let id): tagged(1, id)
    case .unsubscribed(let id): tagged(2, id)
    }
  }

  private mutating func tagged(_ tag: UInt8, _ id: CharacteristicID) {
    u8(tag)
    characteristic(id)
  }

  private mutating func patterns(_ patterns: Set<AdvertisingPattern>) {
    let patterns = patterns.sorted { $0.isBefore($1) }.prefix(AdvertisingPattern.limit)
    u8(UInt8(patterns.count))
    for pattern in patterns {
      u8(pattern.type)
      u8(pattern.offset)
      value(pattern.bytes)
    }
  }

  mutating func listening(_ listening: Listening?) {
    u8(listening == nil ? 0 : 1)
    guard let listening else { return }
    u8(listening.services == nil ? 0 : 1)
    if let services = listening.services {
      // Sets are sorted, so that equal sets have equal bytes: the order of a `Set` differs between runs.
      uuids(services.sorted { $0.isBefore($1) })
    }
    u8(listening.patterns == nil ? 0 : 1)
    if let patterns = listening.patterns { self.patterns(patterns) }
  }
}
