import Bytes
import Common
import Radio

/// A frame from a node to the hub. The node chooses the numbers of its applications and connections; each number is
/// unique while in use. `LinkID`s are the hub's.
enum NodeFrame: Hashable, Sendable {
  /// The first frame: the address that the node requests, or nil for any.
  case hello(version: UInt8, address: BluetoothAddress?)
  case advertise(slot: UInt8, EncodedAdvertisement)
  /// Ends the advertisement in a slot.
  case silence(slot: UInt8)
  case serve(application: UInt32, GATTApplication)
  case stopServing(application: UInt32)
  /// The filter of the node's scan; nil stops scanning.
  case listen(Listening?)
  case connect(connection: UInt32, BluetoothAddress)
  case disconnect(connection: UInt32)
  case discover(connection: UInt32)
  case exchangeMTU(connection: UInt32, UInt16)
  case subscribe(connection: UInt32, CharacteristicID)
  case write(connection: UInt32, WriteKind, CharacteristicID, [UInt8])
  /// Sends a value to clients. `HubFrame.gone` reports its transmission for each of the links.
  case notify(application: UInt32, [LinkID], CharacteristicID, [UInt8])
  case cut(LinkID)
  /// The answer to a request that the hub sent under this number.
  case answer(UInt32, ATTError?)
  /// Begins to accept streams to a profile's UUID, or ends it.
  case listenStreams(BluetoothUUID, Bool)
  /// Opens a stream under a number below 2^31. The answer is `HubFrame.streamConnected` or `streamClosed`.
  case connectStream(stream: UInt32, BluetoothAddress, [BluetoothUUID])
  case streamData(stream: UInt32, [UInt8])
  /// Confirms that the node has taken this number of bytes, so that the hub may send as many more.
  case streamTaken(stream: UInt32, count: UInt32)
  case closeStream(stream: UInt32)

  init(reading reader: inout ByteReader) throws(WireError) {
    switch try reader.u8() {
    case 1:
      let version = try reader.u8()
      self = .hello(version: version, address: try reader.flag("address") ? try reader.address() : nil)
    case 2:
      let limit = AdvertisingData.limit
      let slot = try reader.u8()
      let interval = try reader.duration()
      let isConnectable = try reader.flag("connectable")
      let data = try reader.value("data", limit: limit)
      let scanResponse = try reader.value("scan response", limit: limit)
      self = .advertise(
        slot: slot,
        EncodedAdvertisement(data: data, scanResponse: scanResponse, interval: interval, isConnectable: isConnectable))
    case 3: self = .silence(slot: try reader.u8())
    case 4:
      let application = try reader.u32le()
      let services = try reader.services()
      guard services.count <= AirWire.serviceLimit else {
        throw .tooLong(field: "services", limit: AirWire.serviceLimit)
      }
      self = .serve(application: application, GATTApplication(services: services))
    case 5: self = .stopServing(application: try reader.u32le())
    case 6: self = .listen(try reader.listening())
    case 7: self = .connect(connection: try reader.u32le(), try reader.address())
    case 8: self = .disconnect(connection: try reader.u32le())
    case 9: self = .discover(connection: try reader.u32le())
    case 10: self = .exchangeMTU(connection: try reader.u32le(), try reader.u16le())
    case 11: self = .subscribe(connection: try reader.u32le(), try reader.characteristic())
    case 12:
      let connection = try reader.u32le()
      let kind: WriteKind = try reader.flag("kind") ? .request : .command
      self = .write(connection: connection, kind, try reader.characteristic(), try reader.value("value"))
    case 13:
      self = .notify(
        application: try reader.u32le(), try reader.links(), try reader.characteristic(), try reader.value("value"))
    case 14: self = .cut(try reader.link())
    case 15: self = .answer(try reader.u32le(), try reader.error())
    case 16: self = .listenStreams(try reader.uuid(), try reader.flag("listening"))
    case 17: self = .connectStream(stream: try reader.u32le(), try reader.address(), try reader.uuids())
    case 18: self = .streamData(stream: try reader.u32le(), try reader.value("data"))
    case 19: self = .streamTaken(stream: try reader.u32le(), count: try reader.u32le())
    case 20: self = .closeStream(stream: try reader.u32le())
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
    case .advertise(let slot, let advertisement):
      writer.u8(2)
      writer.u8(slot)
      writer.duration(advertisement.interval)
      writer.u8(advertisement.isConnectable ? 1 : 0)
      writer.value(advertisement.data)
      writer.value(advertisement.scanResponse)
    case .silence(let slot):
      writer.u8(3)
      writer.u8(slot)
    case .serve(let application, let services):
      writer.u8(4)
      writer.u32le(application)
      writer.services(services.services)
    case .stopServing(let application):
      writer.u8(5)
      writer.u32le(application)
    case .listen(let listening):
      writer.u8(6)
      writer.listening(listening)
    case .notify(let application, let links, let characteristic, let value):
      writer.u8(13)
      writer.u32le(application)
      writer.links(links)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    case .cut(let link):
      writer.u8(14)
      writer.link(link)
    case .answer(let number, let error):
      writer.u8(15)
      writer.u32le(number)
      writer.error(error)
    case .connect, .disconnect, .discover, .exchangeMTU, .subscribe, .write:
      writeOfConnections(to: &writer)
    case .listenStreams, .connectStream, .streamData, .streamTaken, .closeStream:
      writeOfStreams(to: &writer)
    }
  }

  private func writeOfStreams(to writer: inout ByteWriter) {
    switch self {
    case .listenStreams(let service, let isListening):
      writer.u8(16)
      writer.uuid(service)
      writer.u8(isListening ? 1 : 0)
    case .connectStream(let stream, let address, let services):
      writer.u8(17)
      writer.u32le(stream)
      writer.address(address)
      writer.uuids(services)
    case .streamData(let stream, let bytes):
      writer.u8(18)
      writer.u32le(stream)
      writer.value(bytes)
    case .streamTaken(let stream, let count):
      writer.u8(19)
      writer.u32le(stream)
      writer.u32le(count)
    case .closeStream(let stream):
      writer.u8(20)
      writer.u32le(stream)
    default: break
    }
  }

  private func writeOfConnections(to writer: inout ByteWriter) {
    switch self {
    case .connect(let connection, let address):
      writer.u8(7)
      writer.u32le(connection)
      writer.address(address)
    case .disconnect(let connection):
      writer.u8(8)
      writer.u32le(connection)
    case .discover(let connection):
      writer.u8(9)
      writer.u32le(connection)
    case .exchangeMTU(let connection, let mtu):
      writer.u8(10)
      writer.u32le(connection)
      writer.u16le(mtu)
    case .subscribe(let connection, let characteristic):
      writer.u8(11)
      writer.u32le(connection)
      writer.characteristic(characteristic)
    case .write(let connection, let kind, let characteristic, let value):
      writer.u8(12)
      writer.u32le(connection)
      writer.u8(kind == .request ? 1 : 0)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    default: break
    }
  }
}
