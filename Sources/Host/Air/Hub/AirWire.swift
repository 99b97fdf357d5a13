import Bytes
import Common
import Radio

/// Common definitions of the hub's frames.
///
/// A frame is a `u32` length of the rest, a tag byte, and the fields of that tag, all little endian:
///
/// | field | bytes |
/// |---|---|
/// | address | 6 |
/// | UUID | 16: low half, high half |
/// | characteristic | 32: service, characteristic |
/// | link | 8 |
/// | flag | 1: 0 or 1 |
/// | signal strength | 1: dBm, 127 if unknown |
/// | value | `u16` length, then the bytes |
/// | text | `u16` length, then UTF-8 |
/// | list | `u8` or `u16` count, then the entries |
enum AirWire {
  static let version: UInt8 = 4
  /// Maximum bytes of a frame, without its length field.
  static let frameLimit = 65536
  /// Maximum bytes of a value. A link accepts 512; a longer value passes so that the link can refuse it.
  static let valueLimit = 1024
  static let textLimit = 1024
  /// Maximum number of services of an application that a program may serve.
  static let serviceLimit = 64
  /// Minimum bytes of a service in a frame.
  static let serviceSize = 17
  /// Minimum bytes of a characteristic in a frame.
  static let characteristicSize = 18
  /// Maximum number of services of a peer that fit into the result of a discovery.
  static let discoveredLimit = frameLimit / serviceSize
  static let characteristicLimit = 64
  static let uuidLimit = 64
  /// Maximum links that one frame sends a value to.
  static let linkLimit = 64
  /// Maximum bytes of one direction of a stream that the receiver has not acknowledged.
  static let streamWindow = 64 << 10
  /// The byte for an unknown signal strength, as in HCI.
  static let noSignalStrength: UInt8 = 127

  /// Returns a frame with its length field; nil if the frame is longer than `frameLimit`.
  static func frame(_ write: (inout ByteWriter) -> Void) -> [UInt8]? {
    var body = ByteWriter(capacity: 64)
    write(&body)
    guard body.bytes.count <= frameLimit else { return nil }
    var whole = ByteWriter(capacity: body.bytes.count + 4)
    whole.u32le(UInt32(body.bytes.count))
    whole.append(body.bytes)
    return whole.bytes
  }

  /// Cuts a value to `valueLimit` bytes. A value that is too long for a link is still too long afterwards.
  static func capped(_ value: [UInt8]) -> [UInt8] {
    value.count <= valueLimit ? value : Array(value.prefix(valueLimit))
  }
}

extension BluetoothUUID {
  /// Whether the UUID precedes another one in a frame.
  func isBefore(_ other: BluetoothUUID) -> Bool { (high, low) < (other.high, other.low) }
}

extension AdvertisingPattern {
  /// Whether the pattern precedes another one in a frame.
  func isBefore(_ other: AdvertisingPattern) -> Bool {
    [type, offset].lexicographicallyPrecedes([other.type, other.offset])
      || [type, offset] == [other.type, other.offset] && bytes.lexicographicallyPrecedes(other.bytes)
  }
}

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
