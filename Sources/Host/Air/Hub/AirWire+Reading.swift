import Bytes
import Common
import Radio

extension ByteReader {
  mutating func address() throws(WireError) -> BluetoothAddress {
    let low = UInt64(try u32le())
    return BluetoothAddress(low | UInt64(try u16le()) << 32)
  }

  mutating func uuid() throws(WireError) -> BluetoothUUID {
    let low = try u64le()
    return BluetoothUUID(high: try u64le(), low: low)
  }

  mutating func characteristic() throws(WireError) -> CharacteristicID {
    let service = try uuid()
    return CharacteristicID(service: service, characteristic: try uuid())
  }

  mutating func value(_ field: String, limit: Int = AirWire.valueLimit) throws(WireError) -> [UInt8] {
    let length = Int(try u16le())
    guard length <= limit else { throw .tooLong(field: field, limit: limit) }
    return Array(try bytes(length))
  }

  mutating func text(_ field: String) throws(WireError) -> String {
    String(decoding: try value(field, limit: AirWire.textLimit), as: UTF8.self)
  }

  mutating func duration() throws(WireError) -> Duration {
    let nanoseconds = try u64le()
    guard let signed = Int64(exactly: nanoseconds) else { throw .badValue("duration") }
    return .nanoseconds(signed)
  }

  mutating func error() throws(WireError) -> ATTError? {
    let code = try u8()
    guard code != 0 else { return nil }
    guard let error = ATTError(rawValue: code) else { throw .badValue("error") }
    return error
  }

  mutating func uuids() throws(WireError) -> [BluetoothUUID] {
    let count = Int(try u16le())
    guard count <= AirWire.uuidLimit else { throw .tooLong(field: "services", limit: AirWire.uuidLimit) }
    var all: [BluetoothUUID] = []
    for _ in 0..<count { all.append(try uuid()) }
    return all
  }

  mutating func services() throws(WireError) -> [GATTService] {
    let count = Int(try u16le())
    guard count <= AirWire.discoveredLimit else { throw .tooLong(field: "services", limit: AirWire.discoveredLimit) }
    var all: [GATTService] = []
    for _ in 0..<count {
      let service = try uuid()
      var characteristics: [GATTCharacteristic] = []
      let limit = AirWire.characteristicLimit
      let count = Int(try u8())
      guard count <= limit else { throw .tooLong(field: "characteristics", limit: limit) }
      for _ in 0..<count {
        let id = try uuid()
        let properties = GATTCharacteristic.Properties(rawValue: try u8())
        let reach: GATTCharacteristic.Reach = try flag("reach") ? .exact : .subscribers
        characteristics.append(GATTCharacteristic(uuid: id, properties: properties, reach: reach))
      }
      all.append(GATTService(uuid: service, characteristics: characteristics))
    }
    return all
  }

  mutating func flag(_ field: String) throws(WireError) -> Bool {
    switch try u8() {
    case 0: false
    case 1: true
    default: throw .badValue(field)
    }
  }

  mutating func link() throws(WireError) -> LinkID {
    LinkID(try u64le())
  }

  mutating func links() throws(WireError) -> [LinkID] {
    let count = Int(try u8())
    guard count <= AirWire.linkLimit else { throw .tooLong(field: "links", limit: AirWire.linkLimit) }
    var all: [LinkID] = []
    for _ in 0..<count { all.append(try link()) }
    return all
  }

  mutating func instant() throws(WireError) -> Instant {
    Instant(nanoseconds: Int64(bitPattern: try u64le()))
  }

  mutating func rssi() throws(WireError) -> Int8? {
    let byte = try u8()
    return byte == AirWire.noSignalStrength ? nil : Int8(bitPattern: byte)
  }

  mutating func state() throws(WireError) -> RadioStatus.State {
    switch try u8() {
    case 0: .waiting
    case 1: .ready
    case 2: .degraded
    default: throw .badValue("state")
    }
  }

  mutating func abilities() throws(WireError) -> AirAbilities {
    AirAbilities(
      advertisingSlots: try u8(), seesPackets: try flag("packets"), hasRawHCI: try flag("raw HCI"))
  }

  mutating func packet() throws(WireError) -> AdvertisingPacket {
    let address = try address()
    let addressKind: AdvertisingPacket.AddressKind = try flag("address kind") ? .randomAddress : .publicAddress
    let kind: AdvertisingPacket.Kind
    switch try u8() {
    case 0: kind = .connectable
    case 1: kind = .nonConnectable
    case 2: kind = .scanResponse
    case 3: kind = .unknown
    default: throw .badValue("kind")
    }
    return AdvertisingPacket(
      address: address, addressKind: addressKind, kind: kind, rssi: try rssi().map { Int($0) },
      time: try instant(), data: try value("data", limit: AdvertisingData.limit))
  }

  mutating func use() throws(WireError) -> Use {
    let kind = try u8()
    let characteristic = try characteristic()
    switch kind {
    case 0: return .read(characteristic)
    case 1: return .subscribed(characteristic)
    case 2: return .unsubscribed(characteristic)
    default: throw .badValue("use")
    }
  }

  mutating func listening() throws(WireError) -> Listening? {
    guard try flag("listening") else { return nil }
    var services: [BluetoothUUID]?
    if try flag("sightings") {
      let sorted = try uuids()
      guard zip(sorted, sorted.dropFirst()).allSatisfy({ $0.isBefore($1) }) else { throw .badValue("services") }
      services = sorted
    }
    return Listening(services: services.map { Set($0) }, patterns: try flag("packets") ? try patterns() : nil)
  }

  private mutating func patterns() throws(WireError) -> Set<AdvertisingPattern> {
    let count = Int(try u8())
    guard count <= AdvertisingPattern.limit else { throw .tooLong(field: "patterns", limit: AdvertisingPattern.limit) }
    var all: [AdvertisingPattern] = []
    for _ in 0..<count {
      let type = try u8()
      let offset = try u8()
      let bytes = try value("pattern", limit: AdvertisingData.limit)
      guard AdvertisingPattern.isValid(offset: offset, count: bytes.count) else { throw .badValue("pattern") }
      all.append(AdvertisingPattern(type: type, offset: offset, bytes: bytes))
    }
    guard zip(all, all.dropFirst()).allSatisfy({ $0.isBefore($1) }) else { throw .badValue("patterns") }
    return Set(all)
  }
}
