import Bytes
import HCI
import Radio
import TestSupport
import Testing

@Suite("Encoding of management packets")
struct ManagementWireTests {
  static func hex(_ text: String) throws -> [UInt8] {
    try Hex.decode(text.filter { $0 != " " })
  }

  static func bytes(_ command: some ManagementCommand) -> String {
    var writer = ByteWriter()
    command.write(to: &writer)
    return Hex.encode(writer.bytes)
  }

  static func reply<Command: ManagementCommand>(_: Command.Type, _ text: String) throws -> Command.Reply {
    var reader = ByteReader(try hex(text))
    return try Command.reply(reading: &reader)
  }

  @Test("Each management command is encoded to the kernel's bytes")
  func commands() throws {
    #expect(Self.bytes(ReadAdvertisingFeatures()) == "")
    #expect(Self.bytes(RemoveAdvertising(instance: 3)) == "03")
    #expect(
      Self.bytes(
        AddAdvertising(instance: 2, flags: .connectable, data: [2, 1, 6], scanResponse: [2, 0x0A, 0]))
        == "02" + "01000000" + "0000" + "0000" + "0303" + "020106" + "020a00")
    #expect(
      Self.bytes(
        AddExtendedAdvertisingParameters(
          instance: 3, flags: [.connectable, .intervals, .scanResponse], interval: 160))
        == "03" + "01400100" + "0000" + "0000" + "a0000000" + "a0000000" + "7f")
    // Connectable or not, with or without a scan response: only the flags differ.
    for (isConnectable, hasScanResponse, flags) in [
      (true, true, "01400100"), (true, false, "01400000"), (false, true, "00400100"), (false, false, "00400000"),
    ] {
      let command = AddExtendedAdvertisingParameters(
        instance: 2, isConnectable: isConnectable, hasScanResponse: hasScanResponse, interval: 0x20)
      #expect(Self.bytes(command) == "02" + flags + "0000" + "0000" + "20000000" + "20000000" + "7f")
    }
    #expect(
      Self.bytes(AddExtendedAdvertisingData(instance: 3, data: [2, 1, 2], scanResponse: []))
        == "03" + "0300" + "020102")
    #expect(Self.bytes(ReadDefaultSystemConfiguration()) == "" && Self.bytes(GetPHYConfiguration()) == "")
    let fast = DefaultSystemConfiguration([
      .supervisionTimeout: 400, .latency: 0, .maximumInterval: 12, .minimumInterval: 9,
    ])
    #expect(
      Self.bytes(SetDefaultSystemConfiguration(fast))
        == "1700020900" + "1800020c00" + "1900020000" + "1a00029001")
    #expect(Self.bytes(SetPHYConfiguration(selected: [.send1M, .receive1M, .send2M, .receive2M])) == "001e0000")
    #expect(ReadDefaultSystemConfiguration.opcode == 0x4B && SetDefaultSystemConfiguration.opcode == 0x4C)
    #expect(Self.bytes(ReadControllerInformation()) == "" && ReadControllerInformation.opcode == 0x04)
    let zeros = String(repeating: "00", count: 29)
    #expect(
      Self.bytes(
        AddAdvertisementPatternsMonitor([
          AdvertisingPattern(type: 9, bytes: [0x7E]), AdvertisingPattern(type: 0xFF, offset: 2, bytes: [2, 0x15]),
        ])) == "02" + "090001" + "7e" + "00" + zeros + "ff0202" + "0215" + zeros)
    #expect(Self.bytes(RemoveAdvertisementMonitor(0x0102)) == "0201")
    #expect(Self.bytes(StopDiscovery(types: 6)) == "06" && StopDiscovery.opcode == 0x24)
    #expect(AddAdvertisementPatternsMonitor.opcode == 0x52 && RemoveAdvertisementMonitor.opcode == 0x53)
    #expect(GetPHYConfiguration.opcode == 0x44 && SetPHYConfiguration.opcode == 0x45)
    #expect(
      ManagementPacket(code: 0x003F, index: 1, parameters: [3]).bytes == [0x3F, 0, 1, 0, 1, 0, 3])
  }

  @Test("Each management answer is decoded from the kernel's bytes")
  func replies() throws {
    #expect(try Self.reply(RemoveAdvertising.self, "03") == 3)
    #expect(
      try Self.reply(ReadAdvertisingFeatures.self, "ff7f0100 1f 1f 03 02 0103")
        == AdvertisingFeatures(
          flags: AdvertisingFlags(rawValue: 0x17FFF), dataLimit: 31, scanResponseLimit: 31, instanceLimit: 3,
          instances: [1, 3]))
    #expect(
      try Self.reply(AddExtendedAdvertisingParameters.self, "03 f4 1f 1f")
        == .init(instance: 3, power: -12, dataLimit: 31, scanResponseLimit: 31))
    // Unknown parameters, of one byte and of two, are skipped.
    #expect(
      try Self.reply(ReadDefaultSystemConfiguration.self, "0000020000 1700021800 1800022800 1f000101 1a00022a00")
        == DefaultSystemConfiguration([.minimumInterval: 24, .maximumInterval: 40, .supervisionTimeout: 42]))
    #expect(
      try Self.reply(GetPHYConfiguration.self, "ff7f0000 fe790000 ff070000")
        == PHYConfiguration(
          supported: PHYs(rawValue: 0x7FFF), configurable: PHYs(rawValue: 0x79FE), selected: PHYs(rawValue: 0x07FF)))
    #expect(try Self.reply(SetDefaultSystemConfiguration.self, "") == Nothing())
    #expect(try Self.reply(SetPHYConfiguration.self, "") == Nothing())
    #expect(try Self.reply(AddAdvertisementPatternsMonitor.self, "0300") == 3)
    #expect(try Self.reply(RemoveAdvertisementMonitor.self, "0102") == 0x0201)
    let names = String(repeating: "00", count: 3 + 249 + 11)
    #expect(
      try Self.reply(ReadControllerInformation.self, "01 00 01 01 aa 00 0c f005 ffbe0100 03020000" + names)
        == .init(
          address: BluetoothAddress(0x00AA_0101_0001), supported: ControllerSettings(rawValue: 0x1BEFF),
          current: [.powered, .connectable, .lowEnergy]))
  }

  static let events: [(ManagementEvent, String)] = [
    (.commandComplete(opcode: 0x3D, .success, [1, 2]), "0100 0000 0500 3d00 00 0102"),
    (.commandStatus(opcode: 0x3D, .permissionDenied), "0200 0000 0300 3d00 14"),
    (.indexAdded, "0400 0000 0000"),
    (.indexRemoved, "0500 0000 0000"),
    (.newSettings([.powered]), "0600 0000 0400 01000000"),
    (
      .deviceFound(
        AdvertisingReport(
          address: BluetoothAddress(0x00AA_0101_0001), kind: .publicAddress, rssi: -59, flags: 4, data: [2, 1, 6])),
      "1200 0000 1100 0100 0101 aa00 01 c5 04000000 0300 020106"
    ),
    (
      .deviceFound(
        AdvertisingReport(address: BluetoothAddress(0x1), kind: .randomAddress, rssi: nil, flags: 0, data: [])),
      "1200 0000 0e00 0100 0000 0000 02 7f 00000000 0000"
    ),
    (
      .deviceConnected(
        DeviceConnected(
          address: BluetoothAddress(0x00AA_0101_0001), kind: .publicAddress, flags: 8, data: [2, 1, 6])),
      "0b00 0000 1000 0100 0101 aa00 01 08000000 0300 020106"
    ),
    (
      .deviceDisconnected(
        DeviceDisconnected(address: BluetoothAddress(0x00AA_0101_0001), kind: .randomAddress, reason: .remote)),
      "0c00 0000 0800 0100 0101 aa00 02 03"
    ),
    (.discovering(.init(types: 6, isOn: true)), "1300 0000 0200 06 01"),
    (.advertisingAdded(instance: 2), "2300 0000 0100 02"),
    (.advertisingRemoved(instance: 2), "2400 0000 0100 02"),
    (.monitorRemoved(0x0103), "2c00 0000 0200 0301"),
    (
      .monitoredDeviceFound(
        MonitoredReport(
          monitor: 2,
          report: AdvertisingReport(
            address: BluetoothAddress(0x00AA_0101_0001), kind: .randomAddress, rssi: -59, flags: 4, data: [2, 1, 6]))),
      "2f00 0000 1300 0200 0100 0101 aa00 02 c5 04000000 0300 020106"
    ),
  ]

  @Test("Each management event is decoded from the kernel's bytes, and encoded to them", arguments: 0..<14)
  func bothDirections(_ row: Int) throws {
    let (event, text) = Self.events[row]
    let packet = try ManagementPacket(reading: Self.hex(text))
    #expect(packet.index == 0)
    #expect(try ManagementEvent(reading: packet) == event)
    let bytes = try Self.hex(text)
    #expect(event.packet(of: 0).bytes == bytes)
  }

  @Test("An unknown management event keeps its number")
  func unknown() throws {
    #expect(try ManagementEvent(reading: ManagementPacket(code: 0x99, index: 0, parameters: [1])) == .other(code: 0x99))
  }

  @Test(
    "A management packet that is truncated or too long is refused",
    arguments: [
      "", "0100 0000", "0100 0000 0500 3d00", "0100 0000 0200 3d00", "0200 0000 0200 3d00", "0200 0000 0400 3d00 0000",
      "0600 0000 0300 010000", "1300 0000 0100 06", "2400 0000 0200 0202",
      // Device Found with a length that exceeds its data, and with an unknown address type.
      "2f00 0000 1000 0200 0100 0000 0000 02 7f 00000000 0100", "2c00 0000 0100 03", "2c00 0000 0300 030000",
      "1200 0000 0e00 0100 0000 0000 02 7f 00000000 0100", "1200 0000 0e00 0100 0000 0000 03 7f 00000000 0000",
      // Device Connected with the same faults; Device Disconnected without a reason, and with two.
      "0b00 0000 0d00 0100 0101 aa00 01 00000000 0100", "0b00 0000 0d00 0100 0101 aa00 03 00000000 0000",
      "0b00 0000 0d00 0100 0101 aa00 01 00000000 7306", "0c00 0000 0700 0100 0101 aa00 02",
      "0c00 0000 0900 0100 0101 aa00 02 0303", "0c00 0000 0800 0100 0101 aa00 03 03",
      // A report longer than extended advertising permits, and a packet longer than the maximum.
      "1200 0000 0e00 0100 0000 0000 02 7f 00000000 7306", "1200 0000 ffff 00",
    ])
  func hostile(_ text: String) throws {
    let bytes = try Self.hex(text)
    let error = caught(WireError.self) { try ManagementEvent(reading: ManagementPacket(reading: bytes)) }
    #expect(error != nil)
  }

  @Test("Flag 3 of the event DeviceConnected shows that this machine made the link, whatever other flags are set")
  func direction() {
    for (flags, isInitiatedHere) in [(0, false), (8, true), (0xF7, false), (0xFF, true)] as [(UInt32, Bool)] {
      let link = DeviceConnected(address: BluetoothAddress(1), kind: .publicAddress, flags: flags, data: [])
      #expect(link.isInitiatedHere == isInitiatedHere)
    }
  }

  @Test("A list of more than 240 advertising instances is refused")
  func longLists() throws {
    func instances(_ count: Int) throws -> [UInt8] {
      var reader = ByteReader([0, 0, 0, 0, 31, 31, 240, UInt8(count)] + [UInt8](repeating: 1, count: count))
      return try ReadAdvertisingFeatures.reply(reading: &reader).instances
    }
    #expect(try instances(240).count == 240)
    #expect(caught(WireError.self) { try instances(241) } == .tooLong(field: "instances", limit: 240))
  }

  @Test("An advertising instance that the kernel does not list is free only if its number is below the list's length")
  func instanceStates() {
    func states(_ instances: [UInt8]) -> [AdvertisingFeatures.InstanceState] {
      let features = AdvertisingFeatures(
        flags: [], dataLimit: 31, scanResponseLimit: 31, instanceLimit: 3, instances: instances)
      return (1...3).map { features.state(of: $0) }
    }
    #expect(states([]) == [.unknown, .unknown, .unknown])
    // If the kernel lists only instance 1, there may be one instance, or the two instances 1 and 3.
    #expect(states([1]) == [.used, .unknown, .unknown])
    #expect(states([1, 2]) == [.used, .used, .unknown])
    #expect(states([2, 3]) == [.free, .used, .used])
  }

  @Test("A management answer that is truncated or too long is refused")
  func hostileReplies() {
    for text in ["ff7f0100 1f 1f 03 02 01", "ff7f0100 1f 1f 03 00 01", ""] {
      #expect(caught(WireError.self) { try Self.reply(ReadAdvertisingFeatures.self, text) } != nil)
    }
    #expect(caught(WireError.self) { try Self.reply(RemoveAdvertising.self, "0303") } != nil)
    // A truncated parameter, one of one byte and of three where there are two, and one that occurs twice.
    for text in ["17", "1700", "170002", "17000218", "17000118", "170003180000", "1700021800 1700021800", "ffff01"] {
      #expect(caught(WireError.self) { try Self.reply(ReadDefaultSystemConfiguration.self, text) } != nil, "\(text)")
    }
    for text in ["", "ff7f0000 fe790000 ff0700", "ff7f0000 fe790000 ff070000 00"] {
      #expect(caught(WireError.self) { try Self.reply(GetPHYConfiguration.self, text) } != nil, "\(text)")
    }
    #expect(caught(WireError.self) { try Self.reply(SetPHYConfiguration.self, "00") } != nil)
    #expect(caught(WireError.self) { try Self.reply(AddExtendedAdvertisingParameters.self, "03") } != nil)
  }
}
