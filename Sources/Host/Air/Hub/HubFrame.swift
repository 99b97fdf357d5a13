import Bytes
import Common
import Radio

/// What the hub says to a node.
enum HubFrame: Hashable, Sendable {
  /// The node is in the air, at this address.
  case welcome(BluetoothAddress)
  /// It is not, for this reason; the connection ends.
  case refused(String)
  /// Signal strength is nil where it is not known.
  case sighting(scan: UInt32, BluetoothAddress, rssi: Int8?, data: [UInt8], scanResponse: [UInt8])
  /// What happened on a link that the node made.
  case event(link: UInt32, LinkEvent)
  case opened(id: UInt32, LinkID, BluetoothAddress)
  case changed(id: UInt32, LinkID, mtu: UInt16)
  /// `answer` is the number under which an answer is expected; 0 for a command.
  case written(id: UInt32, LinkID, CharacteristicID, answer: UInt32, [UInt8])
  case closed(id: UInt32, LinkID)

  /// As in HCI: the signal strength that means that there is none.
  private static let noSignalStrength: UInt8 = 127

  init(reading reader: inout ByteReader) throws(WireError) {
    switch try reader.u8() {
    case 1: self = .welcome(try reader.address())
    case 2: self = .refused(try reader.text("reason"))
    case 3:
      let scan = try reader.u32le()
      let address = try reader.address()
      let rssi = try reader.u8()
      let limit = AdvertisingData.limit
      self = .sighting(
        scan: scan, address, rssi: rssi == Self.noSignalStrength ? nil : Int8(bitPattern: rssi),
        data: try reader.value("data", limit: limit), scanResponse: try reader.value("scan response", limit: limit))
    case 4: self = .opened(id: try reader.u32le(), LinkID(try reader.u64le()), try reader.address())
    case 5: self = .changed(id: try reader.u32le(), LinkID(try reader.u64le()), mtu: try reader.u16le())
    case 6:
      self = .written(
        id: try reader.u32le(), LinkID(try reader.u64le()), try reader.characteristic(), answer: try reader.u32le(),
        try reader.value("value"))
    case 7: self = .closed(id: try reader.u32le(), LinkID(try reader.u64le()))
    case 16: self = .event(link: try reader.u32le(), .connected)
    case 17: self = .event(link: try reader.u32le(), .discovered(try reader.services()))
    case 18: self = .event(link: try reader.u32le(), .mtuChanged(Int(try reader.u16le())))
    case 19: self = .event(link: try reader.u32le(), .subscribed(try reader.characteristic()))
    case 20:
      self = .event(link: try reader.u32le(), .written(try reader.characteristic(), error: try reader.error()))
    case 21:
      self = .event(link: try reader.u32le(), .notified(try reader.characteristic(), try reader.value("value")))
    case 22: self = .event(link: try reader.u32le(), .disconnected(reason: try reader.text("reason")))
    default: throw .badValue("tag")
    }
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    switch self {
    case .welcome(let address):
      writer.u8(1)
      writer.address(address)
    case .refused(let reason):
      writer.u8(2)
      writer.text(reason)
    case .sighting(let scan, let address, let rssi, let data, let scanResponse):
      writer.u8(3)
      writer.u32le(scan)
      writer.address(address)
      writer.u8(rssi.map(UInt8.init(bitPattern:)) ?? Self.noSignalStrength)
      writer.value(data)
      writer.value(scanResponse)
    case .opened(let id, let link, let address):
      writer.u8(4)
      writer.u32le(id)
      writer.u64le(link.number)
      writer.address(address)
    case .changed(let id, let link, let mtu):
      writer.u8(5)
      writer.u32le(id)
      writer.u64le(link.number)
      writer.u16le(mtu)
    case .written(let id, let link, let characteristic, let answer, let value):
      writer.u8(6)
      writer.u32le(id)
      writer.u64le(link.number)
      writer.characteristic(characteristic)
      writer.u32le(answer)
      writer.value(AirWire.capped(value))
    case .closed(let id, let link):
      writer.u8(7)
      writer.u32le(id)
      writer.u64le(link.number)
    case .event(let link, let event):
      write(event, of: link, to: &writer)
    }
  }

  private func write(_ event: LinkEvent, of link: UInt32, to writer: inout ByteWriter) {
    func head(_ tag: UInt8) {
      writer.u8(tag)
      writer.u32le(link)
    }
    switch event {
    case .connected:
      head(16)
    case .discovered(let services):
      head(17)
      writer.services(services)
    case .mtuChanged(let mtu):
      head(18)
      writer.u16le(UInt16(clamping: mtu))
    case .subscribed(let characteristic):
      head(19)
      writer.characteristic(characteristic)
    case .written(let characteristic, let error):
      head(20)
      writer.characteristic(characteristic)
      writer.error(error)
    case .notified(let characteristic, let value):
      head(21)
      writer.characteristic(characteristic)
      writer.value(AirWire.capped(value))
    case .disconnected(let reason):
      head(22)
      writer.text(reason)
    }
  }
}
