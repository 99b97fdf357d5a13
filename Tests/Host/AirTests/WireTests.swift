import Bytes
import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct WireTests {
  /// Joins parts. The compiler needs too long to type-check a sum of array literals.
  static func joined(_ parts: [UInt8]...) -> [UInt8] { parts.flatMap { $0 } }
  static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  static let address = BluetoothAddress(0x00AA_0100_0023)
  static let addressBytes: [UInt8] = [0x23, 0x00, 0x00, 0x01, 0xAA, 0x00]
  static let uuid = BluetoothUUID(high: 0x0001_0203_0405_0607, low: 0x0809_0A0B_0C0D_0E0F)
  static let uuidBytes: [UInt8] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
  static let characteristic = CharacteristicID(service: uuid, characteristic: uuid)
  static let characteristicBytes = joined(uuidBytes, uuidBytes)
  static let services = [
    GATTService(
      uuid: uuid, characteristics: [GATTCharacteristic(uuid: uuid, properties: [.write, .notify], reach: .exact)]),
    GATTService(uuid: uuid, characteristics: []),
  ]
  static let servicesBytes: [UInt8] = joined([2, 0], uuidBytes, [1], uuidBytes, [0x18, 1], uuidBytes, [0])
  static let later = BluetoothUUID(high: 0x0001_0203_0405_0608, low: 0)
  static let laterBytes: [UInt8] = joined(zeros(8), [8, 6, 5, 4, 3, 2, 1, 0])
  static let one: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0]
  static let abilities = AirAbilities(advertisingSlots: 5, seesPackets: true, hasRawHCI: false)
  static let pattern = AdvertisingPattern(type: 9, bytes: [0x7E])
  static let longPattern = AdvertisingPattern(type: 9, bytes: [0x7E, 0x30])
  static let packet = AdvertisingPacket(
    address: address, addressKind: .randomAddress, kind: .scanResponse, rssi: -59, time: Instant(nanoseconds: 258),
    data: [7])

  static let nodeFrames: [(NodeFrame, [UInt8])] = [
    (.hello(version: 1, address: nil), [1, 1, 0]),
    (.hello(version: 2, address: address), joined([1, 2, 1], addressBytes)),
    (
      .advertise(slot: 4, .init(data: [7, 8], scanResponse: [], interval: .nanoseconds(258), isConnectable: true)),
      [2, 4, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 7, 8, 0, 0]
    ),
    (
      .advertise(slot: 4, .init(data: [], scanResponse: [9], interval: .zero, isConnectable: false)),
      [2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 9]
    ),
    (.silence(slot: 3), [3, 3]),
    (.serve(application: 1, GATTApplication(services: services)), joined([4, 1, 0, 0, 0], servicesBytes)),
    (.stopServing(application: 5), [5, 5, 0, 0, 0]),
    (.listen(nil), [6, 0]),
    (.listen(Listening(patterns: [])), [6, 1, 0, 1, 0]),
    (
      .listen(Listening(patterns: [longPattern, pattern])),
      [6, 1, 0, 1, 2, 9, 0, 1, 0, 0x7E, 9, 0, 2, 0, 0x7E, 0x30]
    ),
    (.listen(Listening(services: [])), [6, 1, 1, 0, 0, 0]),
    (
      .listen(Listening(services: [later, uuid], patterns: [])),
      joined([6, 1, 1, 2, 0], uuidBytes, laterBytes, [1, 0])
    ),
    (.connect(connection: 6, address), joined([7, 6, 0, 0, 0], addressBytes)),
    (.disconnect(connection: 7), [8, 7, 0, 0, 0]),
    (.discover(connection: 8), [9, 8, 0, 0, 0]),
    (.exchangeMTU(connection: 9, 517), [10, 9, 0, 0, 0, 5, 2]),
    (.subscribe(connection: 10, characteristic), joined([11, 10, 0, 0, 0], characteristicBytes)),
    (
      .write(connection: 11, .request, characteristic, [1]),
      joined([12, 11, 0, 0, 0, 1], characteristicBytes, [1, 0, 1])
    ),
    (.write(connection: 11, .command, characteristic, []), joined([12, 11, 0, 0, 0, 0], characteristicBytes, [0, 0])),
    (
      .notify(application: 12, [LinkID(0x0102), LinkID(1)], characteristic, [1]),
      joined([13, 12, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0, 0, 0], one, characteristicBytes, [1, 0, 1])
    ),
    (.cut(LinkID(1)), joined([14], one)),
    (.answer(14, nil), [15, 14, 0, 0, 0, 0]),
    (.answer(14, .busy), [15, 14, 0, 0, 0, 0x80]),
    (.listenStreams(uuid, true), joined([16], uuidBytes, [1])),
    (.connectStream(stream: 2, address, [uuid]), joined([17, 2, 0, 0, 0], addressBytes, [1, 0], uuidBytes)),
    (.streamData(stream: 2, [7, 8]), [18, 2, 0, 0, 0, 2, 0, 7, 8]),
    (.streamTaken(stream: 2, count: 258), [19, 2, 0, 0, 0, 2, 1, 0, 0]),
    (.closeStream(stream: 2), [20, 2, 0, 0, 0]),
  ]

  static let hubFrames: [(HubFrame, [UInt8])] = [
    (.welcome(address, abilities), joined([1], addressBytes, [5, 1, 0])),
    (.refused("né"), [2, 3, 0, 0x6E, 0xC3, 0xA9]),
    (.status(.degraded, reason: "x"), [3, 2, 1, 0, 0x78]),
    (.abilities(abilities), [4, 5, 1, 0]),
    (.addressChanged(address), joined([5], addressBytes)),
    (
      .scanResult(address, rssi: -59, data: [1], scanResponse: [2, 3]),
      joined([6], addressBytes, [0xC5, 1, 0, 1, 2, 0, 2, 3])
    ),
    (.scanResult(address, rssi: nil, data: [], scanResponse: []), joined([6], addressBytes, [127, 0, 0, 0, 0])),
    (.packet(packet), joined([7], addressBytes, [1, 2, 0xC5, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 7])),
    (.served(application: 4, true), [8, 4, 0, 0, 0, 1]),
    (
      .linkUp(
        LinkID(1), address, since: Instant(nanoseconds: 258),
        .init(isOurs: true, hearsUnsubscribed: false, notifyWindow: 3)),
      joined([9], one, addressBytes, [2, 1, 0, 0, 0, 0, 0, 0, 1, 3, 0])
    ),
    (
      .linkUp(
        LinkID(1), address, since: Instant(nanoseconds: -1),
        .init(isOurs: false, hearsUnsubscribed: true, notifyWindow: 0)),
      joined([9], one, addressBytes, [255, 255, 255, 255, 255, 255, 255, 255, 2, 0, 0])
    ),
    (.linkChanged(LinkID(1), mtu: 517), joined([10], one, [5, 2])),
    (.linkDown(LinkID(1)), joined([11], one)),
    (.used(application: 4, LinkID(1), .read(characteristic)), joined([12, 4, 0, 0, 0], one, [0], characteristicBytes)),
    (
      .used(application: 4, LinkID(1), .subscribed(characteristic)),
      joined([12, 4, 0, 0, 0], one, [1], characteristicBytes)
    ),
    (
      .used(application: 4, LinkID(1), .unsubscribed(characteristic)),
      joined([12, 4, 0, 0, 0], one, [2], characteristicBytes)
    ),
    (
      .written(application: 6, LinkID(1), characteristic, answer: 9, [1]),
      joined([13, 6, 0, 0, 0], one, characteristicBytes, [9, 0, 0, 0, 1, 0, 1])
    ),
    (.gone(LinkID(1), count: 2), joined([14], one, [2, 0])),
    (.event(connection: 1, .connected), [32, 1, 0, 0, 0]),
    (.event(connection: 1, .discovered(services)), joined([33, 1, 0, 0, 0], servicesBytes)),
    (.event(connection: 1, .mtuChanged(23)), [34, 1, 0, 0, 0, 23, 0]),
    (.event(connection: 1, .subscribed(characteristic)), joined([35, 1, 0, 0, 0], characteristicBytes)),
    (
      .event(connection: 1, .written(characteristic, error: .invalidLength)),
      joined([36, 1, 0, 0, 0], characteristicBytes, [0x0D])
    ),
    (.event(connection: 1, .written(characteristic, error: nil)), joined([36, 1, 0, 0, 0], characteristicBytes, [0])),
    (.event(connection: 1, .notified(characteristic, [5])), joined([37, 1, 0, 0, 0], characteristicBytes, [1, 0, 5])),
    (.event(connection: 1, .disconnected(reason: "x")), [38, 1, 0, 0, 0, 1, 0, 0x78]),
    (.streamOpened(stream: 2, address, uuid), joined([15, 2, 0, 0, 0], addressBytes, uuidBytes)),
    (.streamConnected(stream: 2), [16, 2, 0, 0, 0]),
    (.streamData(stream: 2, [7, 8]), [17, 2, 0, 0, 0, 2, 0, 7, 8]),
    (.streamTaken(stream: 2, count: 258), [18, 2, 0, 0, 0, 2, 1, 0, 0]),
    (.streamClosed(stream: 2, reason: "x"), [19, 2, 0, 0, 0, 1, 0, 0x78]),
  ]

  private func encoded(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    write(&writer)
    return writer.bytes
  }

  @Test("Each kind of frame from a node to the simulated radio hub is decoded as it was encoded", arguments: nodeFrames)
  func nodeFrame(frame: NodeFrame, bytes: [UInt8]) throws {
    #expect(encoded(frame.write(to:)) == bytes)
    var reader = ByteReader(bytes)
    #expect(try NodeFrame(reading: &reader) == frame)
  }

  @Test("Each kind of frame from the simulated radio hub to a node is decoded as it was encoded", arguments: hubFrames)
  func hubFrame(frame: HubFrame, bytes: [UInt8]) throws {
    #expect(encoded(frame.write(to:)) == bytes)
    var reader = ByteReader(bytes)
    #expect(try HubFrame(reading: &reader) == frame)
  }

  @Test("A simulated radio hub frame that is truncated or has a trailing byte is refused")
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
    "A simulated radio hub frame with a field beyond its limit is refused",
    arguments: [
      [], [0], [16], [255], [1, 1, 2],
      [2, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 0],
      [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0],
      joined([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 32, 0], zeros(34)),
      joined([4, 0, 0, 0, 0, 65, 0], zeros(65 * 17)),
      joined([4, 0, 0, 0, 0, 1, 0], zeros(16), [65], zeros(65 * 18)),
      joined([4, 0, 0, 0, 0, 1, 0], zeros(16), [1], zeros(17), [2]),
      joined([6, 1, 1, 65, 0], zeros(65 * 16), [0]),
      joined([6, 1, 1, 2, 0], laterBytes, uuidBytes, [0]),
      joined([6, 1, 1, 2, 0], uuidBytes, uuidBytes, [0]),
      joined([12, 0, 0, 0, 0, 2], zeros(34)),
      joined([12, 0, 0, 0, 0, 0], zeros(32), [1, 4], zeros(1025)),
      joined([13, 0, 0, 0, 0, 65], zeros(65 * 8), zeros(34)),
      [15, 0, 0, 0, 0, 1],
    ] as [[UInt8]])
  func limits(bytes: [UInt8]) {
    #expect(throws: WireError.self) {
      var reader = ByteReader(bytes)
      _ = try NodeFrame(reading: &reader)
    }
  }

  @Test("A text that is too long for a simulated radio hub frame is cut between two characters")
  func longText() throws {
    let bytes = encoded(HubFrame.refused(String(repeating: "é", count: 600) + "x").write(to:))
    var reader = ByteReader(bytes)
    #expect(try HubFrame(reading: &reader) == .refused(String(repeating: "é", count: 512)))
  }

  @Test("10,000 random frames of the simulated radio hub are decoded or refused, and decoded ones encoded unchanged")
  func fuzz() {
    var generator = SplitMix64(seed: 42)
    let valid = Self.nodeFrames.map(\.1) + Self.hubFrames.map(\.1)
    var read = 0
    for round in 0..<10_000 {
      var bytes: [UInt8]
      if round % 4 == 0 {
        bytes = (0..<Int.random(in: 0...80, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
        if !bytes.isEmpty { bytes[0] %= 40 }
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
        // Invalid UTF-8 is replaced during decoding, so the re-encoded bytes may differ from the input.
        var again = ByteReader(encoded(frame.write(to:)))
        #expect((try? HubFrame(reading: &again)) == frame)
        read += 1
      }
      _ = AdvertisingData(decoding: bytes)
    }
    #expect(read > 100)
  }
}
