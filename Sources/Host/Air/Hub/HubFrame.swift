import Bytes
import Common
import Radio

/// A frame from the hub to a node. `LinkID`s are the hub's; the node numbered the applications and connections.
enum HubFrame: Hashable, Sendable {
  /// The node has joined the simulated radio, at this address.
  case welcome(BluetoothAddress, AirAbilities)
  /// The node was refused, for this reason; the connection ends.
  case refused(String)
  case status(RadioStatus.State, reason: String)
  case abilities(AirAbilities)
  case addressChanged(BluetoothAddress)
  /// An advertiser was received. The signal strength is nil if unknown.
  case scanResult(BluetoothAddress, rssi: Int8?, data: [UInt8], scanResponse: [UInt8])
  /// A single advertising packet, with at most 31 bytes of data.
  case packet(AdvertisingPacket)
  case served(application: UInt32, Bool)
  case linkUp(LinkID, BluetoothAddress, since: Instant, AirLinkTraits)
  case linkChanged(LinkID, mtu: UInt16)
  case linkDown(LinkID)
  case used(application: UInt32, LinkID, Use)
  /// A client has written a value. `answer` is the number under which the hub expects an answer; 0 for a command.
  case written(application: UInt32, LinkID, CharacteristicID, answer: UInt32, [UInt8])
  /// Reports that `count` values of the node on the link were transmitted, or will never be.
  case gone(LinkID, count: UInt16)
  /// An event of a connection that the node requested.
  case event(connection: UInt32, LinkEvent)
  /// A peer has opened a stream to a profile of the node. The hub's numbers are at least 2^31.
  case streamOpened(stream: UInt32, BluetoothAddress, BluetoothUUID)
  case streamConnected(stream: UInt32)
  case streamData(stream: UInt32, [UInt8])
  /// Confirms that the hub has taken this number of the node's bytes, so that the node may send as many more.
  case streamTaken(stream: UInt32, count: UInt32)
  /// A stream has ended, or could not be opened.
  case streamClosed(stream: UInt32, reason: String)

  init(reading reader: inout ByteReader) throws(WireError) {
    switch try reader.u8() {
    case 1: self = .welcome(try reader.address(), try reader.abilities())
    case 2: self = .refused(try reader.text("reason"))
    case 3: self = .status(try reader.state(), reason: try reader.text("reason"))
    case 4: self = .abilities(try reader.abilities())
    case 5: self = .addressChanged(try reader.address())
    case 6:
      let limit = AdvertisingData.limit
      self = .scanResult(
        try reader.address(), rssi: try reader.rssi(), data: try reader.value("data", limit: limit),
        scanResponse: try reader.value("scan response", limit: limit))
    case 7: self = .packet(try reader.packet())
    case 8: self = .served(application: try reader.u32le(), try reader.flag("served"))
    case 9:
      self = .linkUp(
        try reader.link(), try reader.address(), since: try reader.instant(), try AirLinkTraits(reading: &reader))
    case 10: self = .linkChanged(try reader.link(), mtu: try reader.u16le())
    case 11: self = .linkDown(try reader.link())
    case 12: self = .used(application: try reader.u32le(), try reader.link(), try reader.use())
    case 13:
      self = .written(
        application: try reader.u32le(), try reader.link(), try reader.characteristic(), answer: try reader.u32le(),
        try reader.value("value"))
    case 14: self = .gone(try reader.link(), count: try reader.u16le())
    case 15: self = .streamOpened(stream: try reader.u32le(), try reader.address(), try reader.uuid())
    case 16: self = .streamConnected(stream: try reader.u32le())
    case 17: self = .streamData(stream: try reader.u32le(), try reader.value("data"))
    case 18: self = .streamTaken(stream: try reader.u32le(), count: try reader.u32le())
    case 19: self = .streamClosed(stream: try reader.u32le(), reason: try reader.text("reason"))
    case 32: self = .event(connection: try reader.u32le(), .connected)
    case 33: self = .event(connection: try reader.u32le(), .discovered(try reader.services()))
    case 34: self = .event(connection: try reader.u32le(), .mtuChanged(Int(try reader.u16le())))
    case 35: self = .event(connection: try reader.u32le(), .subscribed(try reader.characteristic()))
    case 36:
      self = .event(connection: try reader.u32le(), .written(try reader.characteristic(), error: try reader.error()))
    case 37:
      self = .event(connection: try reader.u32le(), .notified(try reader.characteristic(), try reader.value("value")))
    case 38: self = .event(connection: try reader.u32le(), .disconnected(reason: try reader.text("reason")))
    default: throw .badValue("tag")
    }
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    switch self {
    case .welcome(let address, let abilities):
      writer.u8(1)
      writer.address(address)
      writer.abilities(abilities)
    case .refused(let reason):
      writer.u8(2)
      writer.text(reason)
    case .status(let state, let reason):
      writer.u8(3)
      writer.state(state)
      writer.text(reason)
    case .abilities(let abilities):
      writer.u8(4)
      writer.abilities(abilities)
    case .addressChanged(let address):
      writer.u8(5)
      writer.address(address)
    case .scanResult(let address, let rssi, let data, let scanResponse):
      writer.u8(6)
      writer.address(address)
      writer.rssi(rssi)
      writer.value(data)
      writer.value(scanResponse)
    case .packet(let packet):
      writer.u8(7)
      writer.packet(packet)
    case .served(let application, let isServed):
      writer.u8(8)
      writer.u32le(application)
      writer.u8(isServed ? 1 : 0)
    case .linkUp, .linkChanged, .linkDown, .used, .written, .gone:
      writeOfLinks(to: &writer)
    case .event(let connection, let event):
      write(event, of: connection, to: &writer)
    case .streamOpened, .streamConnected, .streamData, .streamTaken, .streamClosed:
      writeOfStreams(to: &writer)
    }
  }

  private func writeOfStreams(to writer: inout ByteWriter) {
    switch self {
    case .streamOpened(let stream, let address, let service):
      writer.u8(15)
      writer.u32le(stream)
      writer.address(address)
      writer.uuid(service)
    case .streamConnected(let stream):
      writer.u8(16)
      writer.u32le(stream)
    case .streamData(let stream, let bytes):
      writer.u8(17)
      writer.u32le(stream)
      writer.value(bytes)
    case .streamTaken(let stream, let count):
      writer.u8(18)
      writer.u32le(stream)
      writer.u32le(count)
    case .streamClosed(let stream, let reason):
      writer.u8(19)
      writer.u32le(stream)
      writer.text(reason)
    default: break
    }
  }

  private func writeOfLinks(to writer: inout ByteWriter) {
    switch self {
    case .linkUp(let link, let address, let since, let traits):
      writer.u8(9)
      writer.link(link)
      writer.address(address)
      writer.instant(since)
      traits.write(to: &writer)
    case .linkChanged(let link, let mtu):
      writer.u8(10)
      writer.link(link)
      writer.u16le(mtu)
    case .linkDown(let link):
      writer.u8(11)
      writer.link(link)
    case .used(let application, let link, let use):
      writer.u8(12)
      writer.u32le(application)
      writer.link(link)
      writer.use(use)
    case .written(let application, let link, let characteristic, let answer, let value):
      writer.u8(13)
      writer.u32le(application)
      writer.link(link)
      writer.characteristic(characteristic)
      writer.u32le(answer)
      writer.value(AirWire.capped(value))
    case .gone(let link, let count):
      writer.u8(14)
      writer.link(link)
      writer.u16le(count)
    default: break
    }
  }

  private func write(_ event: LinkEvent, of connection: UInt32, to writer: inout ByteWriter) {
    func head(_ tag: UInt8) {
      writer.u8(tag)
      writer.u32le(connection)
    }
    switch event {
    case .connected:
      head(32)
    case .discovered(let services):
      head(33)
      writer.services(services)
    case .mtuChanged(let mtu):
      head(34)
      writer.u16le(UInt16(clamping: mtu))
    case .subscribed(let characteristic):
      head(35)
      writer.characteristic(characteristic)
    case .written(let characteristic, let error):
      head(36)
      writer.characteristic(characteristic)
      writer.error(error)
    case .notified(let characteristic, let value):
      head(37)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    case .disconnected(let reason):
      head(38)
      writer.text(reason)
    }
  }
}
