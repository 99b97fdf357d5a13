import Bytes

/// Capabilities of a node. Its program stores them, because it must answer the service before it could ask the hub.
struct AirAbilities: Hashable, Sendable {
  var advertisingSlots: UInt8
  var seesPackets: Bool
  /// Whether values can be sent to clients that did not subscribe, for characteristics that request it.
  var hasRawHCI: Bool

  init(advertisingSlots: UInt8, seesPackets: Bool, hasRawHCI: Bool) {
    self.advertisingSlots = advertisingSlots
    self.seesPackets = seesPackets
    self.hasRawHCI = hasRawHCI
  }

  init(_ controller: AirController) {
    advertisingSlots = UInt8(clamping: max(1, controller.advertisingSlots))
    seesPackets = controller.seesPackets
    hasRawHCI = controller.hasRawHCI
  }
}

/// Properties of a link. The program stores them, because it must answer the service before it could ask the hub.
///
/// | bytes | field |
/// |---|---|
/// | 1 | bit 0: this node made the link; bit 1: the peer receives values that it did not subscribe to |
/// | 2 | maximum values in transit to the peer; 0: no limit |
struct AirLinkTraits: Hashable, Sendable {
  var isOurs: Bool
  var hearsUnsubscribed: Bool
  var notifyWindow: UInt16

  init(isOurs: Bool, hearsUnsubscribed: Bool, notifyWindow: UInt16) {
    self.isOurs = isOurs
    self.hearsUnsubscribed = hearsUnsubscribed
    self.notifyWindow = notifyWindow
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags & ~3 == 0 else { throw .badValue("traits") }
    isOurs = flags & 1 != 0
    hearsUnsubscribed = flags & 2 != 0
    notifyWindow = try reader.u16le()
  }

  func write(to writer: inout ByteWriter) {
    writer.u8((isOurs ? 1 : 0) | (hearsUnsubscribed ? 2 : 0))
    writer.u16le(notifyWindow)
  }
}
