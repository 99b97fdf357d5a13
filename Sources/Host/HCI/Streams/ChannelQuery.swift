import Bytes
import Common

/// A question to the service discovery server (SDP) of a peer: on which RFCOMM channel does it serve a profile?
/// Core 5.4 Vol 3 Part B.
///
/// | offset | Service Search Attribute request | response |
/// |---|---|---|
/// | 0 | 06 | 07, or 01 for an error |
/// | 1 | transaction, 2 bytes | the same |
/// | 3 | length of what follows, 2 bytes | the same |
/// | 5 | the UUID in a sequence, 19 bytes | length of the part, 2 bytes |
/// | | maximum bytes of an answer, 2 bytes | the part of the attribute lists |
/// | | the attribute Protocol Descriptor List in a sequence, 5 bytes | |
/// | | continuation state: its length, 1 byte, and the state | the same; length 0 in the last answer |
public struct ChannelQuery: Sendable {
  /// The result of one answer.
  public enum Progress: Hashable, Sendable {
    /// The answer is incomplete: send the new value of `request` next.
    case unfinished
    /// The RFCOMM channel of the profile, 1 to 30.
    case channel(UInt8)
    /// The peer does not serve the profile by RFCOMM.
    case notServed
  }

  private enum PDU {
    static let error: UInt8 = 0x01
    static let request: UInt8 = 0x06
    static let response: UInt8 = 0x07
  }

  /// Maximum bytes of all parts together. The record of a profile has about 20.
  static let sizeLimit = 4096
  /// Maximum bytes of a continuation state.
  static let stateLimit = 16

  private let service: BluetoothUUID
  private var transaction: UInt16
  private var state: [UInt8] = []
  private var lists: [UInt8] = []

  public init(_ service: BluetoothUUID, transaction: UInt16) {
    (self.service, self.transaction) = (service, transaction)
  }

  /// The packet to be sent next.
  public var request: [UInt8] {
    var body = ByteWriter()
    body.append([DataElement.shortSequence, 17, DataElement.longUUID])
    body.u64be(service.high)
    body.u64be(service.low)
    body.u16be(.max)
    body.append([DataElement.shortSequence, 3, DataElement.shortNumber])
    body.u16be(DataElement.protocolDescriptors)
    body.u8(UInt8(state.count))
    body.append(state)
    var packet = ByteWriter()
    packet.u8(PDU.request)
    packet.u16be(transaction)
    packet.u16be(UInt16(body.bytes.count))
    packet.append(body.bytes)
    return packet.bytes
  }

  /// Handles the peer's answer.
  ///
  /// - Throws: `WireError` for an answer that is malformed, too long or an error, or answers another request.
  public mutating func handle(_ answer: [UInt8]) throws(WireError) -> Progress {
    var reader = ByteReader(answer)
    guard try reader.u8() == PDU.response else { throw .badValue("kind") }
    guard try reader.u16be() == transaction else { throw .badValue("transaction") }
    guard Int(try reader.u16be()) == reader.remaining else { throw .badValue("length") }
    let part = try reader.bytes(Int(try reader.u16be()))
    guard lists.count + part.count <= Self.sizeLimit else { throw .tooLong(field: "lists", limit: Self.sizeLimit) }
    let length = Int(try reader.u8())
    guard length <= Self.stateLimit else { throw .tooLong(field: "continuation state", limit: Self.stateLimit) }
    let next = Array(try reader.bytes(length))
    try reader.finish()
    // A peer that sends only empty parts would make the query endless.
    guard next.isEmpty || !part.isEmpty else { throw .badValue("continuation state") }
    lists += part
    state = next
    guard next.isEmpty else {
      transaction &+= 1
      return .unfinished
    }
    var elements = ByteReader(lists)
    let found = try DataElement(reading: &elements, depth: 0).channel
    return found.map { .channel($0) } ?? .notServed
  }
}

/// A value of an SDP record. The upper five bits of its first byte are the type, the lower three the size. Core 5.4
/// Vol 3 Part B 3.
indirect enum DataElement: Hashable, Sendable {
  case number(UInt64)
  case uuid(BluetoothUUID)
  /// A data element sequence, or a data element alternative.
  case sequence([DataElement])
  /// A value of another type.
  case other

  static let shortNumber: UInt8 = 0x09
  static let longUUID: UInt8 = 0x1C
  static let shortSequence: UInt8 = 0x35
  /// The attribute Protocol Descriptor List.
  static let protocolDescriptors: UInt16 = 0x0004

  private static let rfcomm = BluetoothUUID(short: 0x0003)
  private static let depthLimit = 8

  init(reading reader: inout ByteReader, depth: Int) throws(WireError) {
    guard depth < Self.depthLimit else { throw .tooLong(field: "nested elements", limit: Self.depthLimit) }
    let head = try reader.u8()
    let (type, size) = (head >> 3, head & 7)
    let length: Int =
      switch size {
      case 0...4: type == 0 ? 0 : 1 << Int(size)
      case 5: Int(try reader.u8())
      case 6: Int(try reader.u16be())
      default: Int(try reader.u32be())
      }
    let bytes = try reader.bytes(length)
    switch (type, length) {
    case (1, 1...8): self = .number(bytes.reduce(0) { $0 << 8 | UInt64($1) })
    case (3, 2): self = .uuid(BluetoothUUID(short: bytes.reduce(0) { $0 << 8 | UInt16($1) }))
    case (3, 16):
      let halves = [bytes.prefix(8), bytes.suffix(8)].map { $0.reduce(0) { $0 << 8 | UInt64($1) } }
      self = .uuid(BluetoothUUID(high: halves[0], low: halves[1]))
    case (6, _), (7, _):
      var inner = ByteReader(bytes)
      var elements: [DataElement] = []
      while !inner.isAtEnd { elements.append(try DataElement(reading: &inner, depth: depth + 1)) }
      self = .sequence(elements)
    default: self = .other
    }
  }

  /// The channel of the first descriptor of RFCOMM in this element.
  var channel: UInt8? {
    guard case .sequence(let elements) = self else { return nil }
    if elements.count >= 2, elements[0] == .uuid(Self.rfcomm), case .number(let number) = elements[1],
      (1...30).contains(number)
    {
      return UInt8(number)
    }
    return elements.lazy.compactMap(\.channel).first
  }
}
