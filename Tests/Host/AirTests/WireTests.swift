import Bytes
import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct WireTests {
  /// Sums of array literals are more than the compiler can type-check in reasonable time.
  static func joined(_ parts: [UInt8]...) -> [UInt8] { parts.flatMap { $0 } }
  static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  static let address = BluetoothAddress(0x00AA_0100_0023)
  static let addressBytes: [UInt8] = [0x23, 0x00, 0x00, 0x01, 0xAA, 0x00]
  static let uuid = BluetoothUUID(high: 0x0001_0203_0405_0607, low: 0x0809_0A0B_0C0D_0E0F)
  static let uuidBytes: [UInt8] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
  static let characteristic = CharacteristicID(service: uuid, characteristic: uuid)
  static let characteristicBytes = joined(uuidBytes, uuidBytes)
  static let services = [
    GATTService(uuid: uuid, characteristics: [GATTCharacteristic(uuid: uuid, properties: [.write, .notify])]),
    GATTService(uuid: uuid, characteristics: []),
  ]
  static let servicesBytes: [UInt8] = joined([2, 0], uuidBytes, [1], uuidBytes, [0x18], uuidBytes, [0])

  static let nodeFrames: [(NodeFrame, [UInt8])] = [
    (.hello(version: 1, address: nil), [1, 1, 0]),
    (.hello(version: 2, address: address), joined([1, 2, 1], addressBytes)),
    (
      .advertise(id: 0x0102_0304, interval: .nanoseconds(258), data: [7, 8], scanResponse: []),
      [2, 4, 3, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 7, 8, 0, 0]
    ),
    (.serve(id: 1, GATTApplication(services: services)), joined([3, 1, 0, 0, 0], servicesBytes)),
    (.scan(id: 1, [uuid]), joined([4, 1, 0, 0, 0, 1, 0], uuidBytes)),
    (.end(id: 5), [5, 5, 0, 0, 0]),
    (.connect(link: 6, address), joined([6, 6, 0, 0, 0], addressBytes)),
    (.disconnect(link: 7), [7, 7, 0, 0, 0]),
    (.discover(link: 8), [8, 8, 0, 0, 0]),
    (.exchangeMTU(link: 9, 517), [9, 9, 0, 0, 0, 5, 2]),
    (.subscribe(link: 10, characteristic), joined([10, 10, 0, 0, 0], characteristicBytes)),
    (.write(link: 11, .request, characteristic, [1]), joined([11, 11, 0, 0, 0, 1], characteristicBytes, [1, 0, 1])),
    (.write(link: 11, .command, characteristic, []), joined([11, 11, 0, 0, 0, 0], characteristicBytes, [0, 0])),
    (
      .notify(id: 12, LinkID(0x0102), characteristic, [1]),
      joined([12, 12, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0], characteristicBytes, [1, 0, 1])
    ),
    (.disconnectClient(id: 13, LinkID(1)), [13, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
    (.answer(14, nil), [14, 14, 0, 0, 0, 0]),
    (.answer(14, .busy), [14, 14, 0, 0, 0, 0x80]),
  ]

  static let hubFrames: [(HubFrame, [UInt8])] = [
    (.welcome(address), joined([1], addressBytes)),
    (.refused("né"), [2, 3, 0, 0x6E, 0xC3, 0xA9]),
    (
      .sighting(scan: 3, address, rssi: -59, data: [1], scanResponse: [2, 3]),
      joined([3, 3, 0, 0, 0], addressBytes, [0xC5, 1, 0, 1, 2, 0, 2, 3])
    ),
    (
      .sighting(scan: 3, address, rssi: nil, data: [], scanResponse: []),
      joined([3, 3, 0, 0, 0], addressBytes, [127, 0, 0, 0, 0])
    ),
    (.opened(id: 4, LinkID(1), address), joined([4, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], addressBytes)),
    (.changed(id: 5, LinkID(1), mtu: 517), [5, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 2]),
    (
      .written(id: 6, LinkID(1), characteristic, answer: 9, [1]),
      joined([6, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], characteristicBytes, [9, 0, 0, 0, 1, 0, 1])
    ),
    (.closed(id: 7, LinkID(1)), [7, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
    (.event(link: 1, .connected), [16, 1, 0, 0, 0]),
    (.event(link: 1, .discovered(services)), joined([17, 1, 0, 0, 0], servicesBytes)),
    (.event(link: 1, .mtuChanged(23)), [18, 1, 0, 0, 0, 23, 0]),
    (.event(link: 1, .subscribed(characteristic)), joined([19, 1, 0, 0, 0], characteristicBytes)),
    (
      .event(link: 1, .written(characteristic, error: .invalidLength)),
      joined([20, 1, 0, 0, 0], characteristicBytes, [0x0D])
    ),
    (.event(link: 1, .written(characteristic, error: nil)), joined([20, 1, 0, 0, 0], characteristicBytes, [0])),
    (.event(link: 1, .notified(characteristic, [5])), joined([21, 1, 0, 0, 0], characteristicBytes, [1, 0, 5])),
    (.event(link: 1, .disconnected(reason: "x")), [22, 1, 0, 0, 0, 1, 0, 0x78]),
  ]

  private func encoded(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    write(&writer)
    return writer.bytes
  }

  @Test("A frame of a node and its bytes stand for each other", arguments: nodeFrames)
  func nodeFrame(frame: NodeFrame, bytes: [UInt8]) throws {
    #expect(encoded(frame.write(to:)) == bytes)
    var reader = ByteReader(bytes)
    #expect(try NodeFrame(reading: &reader) == frame)
  }

  @Test("A frame of the hub and its bytes stand for each other", arguments: hubFrames)
  func hubFrame(frame: HubFrame, bytes: [UInt8]) throws {
    #expect(encoded(frame.write(to:)) == bytes)
    var reader = ByteReader(bytes)
    #expect(try HubFrame(reading: &reader) == frame)
  }

  @Test("A frame that is cut off anywhere, or has a byte too many, is refused")
  func cutOff() {
    func check(_ bytes: [UInt8], _ read: (inout ByteReader) throws -> Void) {
      for length in 0...bytes.count + 1 where length != bytes.count {
        var reader = ByteReader(Array((bytes + [0]).prefix(length)))
        #expect(throws: WireError.self, "\(bytes) cut to \(length)") { try read(&reader) }
      }
    }
    for (_, bytes) in Self.nodeFrames { check(bytes) { _ = try NodeFrame(reading: &$0) } }
    for (_, bytes) in Self.hubFrames { check(bytes) { _ = try HubFrame(reading: &$0) } }
  }

  @Test(
    "A field beyond its limit is refused",
    arguments: [
      [], [0], [15], [255], [1, 1, 2],
      [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0],
      joined([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0], zeros(34)),
      joined([3, 0, 0, 0, 0, 65, 0], zeros(65 * 17)),
      joined([3, 0, 0, 0, 0, 1, 0], zeros(16), [65], zeros(65 * 17)),
      joined([4, 0, 0, 0, 0, 65, 0], zeros(65 * 16)),
      joined([11, 0, 0, 0, 0, 2], zeros(34)),
      joined([11, 0, 0, 0, 0, 0], zeros(32), [1, 4], zeros(1025)),
      [14, 0, 0, 0, 0, 1],
    ] as [[UInt8]])
  func limits(bytes: [UInt8]) {
    #expect(throws: WireError.self) {
      var reader = ByteReader(bytes)
      _ = try NodeFrame(reading: &reader)
    }
  }

  @Test("Text that is too long is cut where a character ends")
  func longText() throws {
    let bytes = encoded(HubFrame.refused(String(repeating: "é", count: 600) + "x").write(to:))
    var reader = ByteReader(bytes)
    #expect(try HubFrame(reading: &reader) == .refused(String(repeating: "é", count: 512)))
  }

  @Test("Ten thousand random and mutated frames are read or refused, and what is read is written as it was")
  func fuzz() {
    var generator = SplitMix64(seed: 42)
    let valid = Self.nodeFrames.map(\.1) + Self.hubFrames.map(\.1)
    var read = 0
    for round in 0..<10_000 {
      var bytes: [UInt8]
      if round % 4 == 0 {
        bytes = (0..<Int.random(in: 0...80, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
        if !bytes.isEmpty { bytes[0] %= 24 }
      } else {
        bytes = valid[Int.random(in: 0..<valid.count, using: &generator)]
        for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
          let place = Int.random(in: 0..<bytes.count, using: &generator)
          switch Int.random(in: 0..<3, using: &generator) {
          case 0: bytes[place] = .random(in: 0...255, using: &generator)
          case 1: bytes.remove(at: place)
          default: bytes.insert(.random(in: 0...255, using: &generator), at: place)
          }
        }
      }
      var reader = ByteReader(bytes)
      if let frame = try? NodeFrame(reading: &reader) {
        #expect(encoded(frame.write(to:)) == bytes)
        read += 1
      }
      reader = ByteReader(bytes)
      if let frame = try? HubFrame(reading: &reader) {
        // Text is mended to valid UTF-8, so it may come out as other bytes.
        var again = ByteReader(encoded(frame.write(to:)))
        #expect((try? HubFrame(reading: &again)) == frame)
        read += 1
      }
      _ = AdvertisingData(decoding: bytes)
    }
    #expect(read > 100)
  }
}
