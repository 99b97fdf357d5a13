import Bytes
import Common
import Radio

/// What a node says to the hub. Nodes number what they set up, and the links they make, as they like; a number is used once.
enum NodeFrame: Hashable, Sendable {
  /// First of all; the address that the node would like to have, or nil for any.
  case hello(version: UInt8, address: BluetoothAddress?)
  case advertise(id: UInt32, interval: Duration, data: [UInt8], scanResponse: [UInt8])
  case serve(id: UInt32, GATTApplication)
  case scan(id: UInt32, [BluetoothUUID])
  /// Takes down an advertisement, an application or a scan.
  case end(id: UInt32)
  case connect(link: UInt32, BluetoothAddress)
  case disconnect(link: UInt32)
  case discover(link: UInt32)
  case exchangeMTU(link: UInt32, UInt16)
  case subscribe(link: UInt32, CharacteristicID)
  case write(link: UInt32, WriteKind, CharacteristicID, [UInt8])
  /// For a server `LinkID`s are the hub's.
  case notify(id: UInt32, LinkID, CharacteristicID, [UInt8])
  case disconnectClient(id: UInt32, LinkID)
  /// The answer to a request that the hub handed over under this number.
  case answer(UInt32, ATTError?)

  init(reading reader: inout ByteReader) throws(WireError) {
    switch try reader.u8() {
    case 1:
      let version = try reader.u8()
      switch try reader.u8() {
      case 0: self = .hello(version: version, address: nil)
      case 1: self = .hello(version: version, address: try reader.address())
      default: throw .badValue("address")
      }
    case 2:
      let limit = AdvertisingData.limit
      self = .advertise(
        id: try reader.u32le(), interval: try reader.duration(), data: try reader.value("data", limit: limit),
        scanResponse: try reader.value("scan response", limit: limit))
    case 3:
      let id = try reader.u32le()
      let services = try reader.services()
      guard services.count <= AirWire.serviceLimit else {
        throw .tooLong(field: "services", limit: AirWire.serviceLimit)
      }
      self = .serve(id: id, GATTApplication(services: services))
    case 4: self = .scan(id: try reader.u32le(), try reader.uuids())
    case 5: self = .end(id: try reader.u32le())
    case 6: self = .connect(link: try reader.u32le(), try reader.address())
    case 7: self = .disconnect(link: try reader.u32le())
    case 8: self = .discover(link: try reader.u32le())
    case 9: self = .exchangeMTU(link: try reader.u32le(), try reader.u16le())
    case 10: self = .subscribe(link: try reader.u32le(), try reader.characteristic())
    case 11:
      let link = try reader.u32le()
      let kind: WriteKind
      switch try reader.u8() {
      case 0: kind = .command
      case 1: kind = .request
      default: throw .badValue("kind")
      }
      self = .write(link: link, kind, try reader.characteristic(), try reader.value("value"))
    case 12:
      self = .notify(
        id: try reader.u32le(), LinkID(try reader.u64le()), try reader.characteristic(), try reader.value("value"))
    case 13: self = .disconnectClient(id: try reader.u32le(), LinkID(try reader.u64le()))
    case 14: self = .answer(try reader.u32le(), try reader.error())
    default: throw .badValue("tag")
    }
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    switch self {
    case .hello(let version, let address):
      writer.u8(1)
      writer.u8(version)
      writer.u8(address == nil ? 0 : 1)
      if let address { writer.address(address) }
    case .advertise(let id, let interval, let data, let scanResponse):
      writer.u8(2)
      writer.u32le(id)
      writer.duration(interval)
      writer.value(data)
      writer.value(scanResponse)
    case .serve(let id, let application):
      writer.u8(3)
      writer.u32le(id)
      writer.services(application.services)
    case .scan(let id, let services):
      writer.u8(4)
      writer.u32le(id)
      writer.uuids(services)
    case .end(let id):
      writer.u8(5)
      writer.u32le(id)
    case .connect(let link, let address):
      writer.u8(6)
      writer.u32le(link)
      writer.address(address)
    case .disconnect(let link):
      writer.u8(7)
      writer.u32le(link)
    case .discover(let link):
      writer.u8(8)
      writer.u32le(link)
    case .exchangeMTU(let link, let mtu):
      writer.u8(9)
      writer.u32le(link)
      writer.u16le(mtu)
    case .subscribe(let link, let characteristic):
      writer.u8(10)
      writer.u32le(link)
      writer.characteristic(characteristic)
    case .write(let link, let kind, let characteristic, let value):
      writer.u8(11)
      writer.u32le(link)
      writer.u8(kind == .request ? 1 : 0)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    case .notify(let id, let link, let characteristic, let value):
      writer.u8(12)
      writer.u32le(id)
      writer.u64le(link.number)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    case .disconnectClient(let id, let link):
      writer.u8(13)
      writer.u32le(id)
      writer.u64le(link.number)
    case .answer(let number, let error):
      writer.u8(14)
      writer.u32le(number)
      writer.error(error)
    }
  }
}
