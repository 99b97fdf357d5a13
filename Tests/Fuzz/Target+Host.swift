import Bytes
import CommandLine
import Common
import Listing
import Radio

@testable import Air
@testable import Config
@testable import DBus
@testable import HCI

#if canImport(TestSupport)
  import TestSupport
#endif

extension Target {
  static let host = [
    Target(
      name: "advertising-data",
      seeds: {
        try Vectors.read().advertising.cases.flatMap {
          try [Hex.decode($0.advDataHex), Hex.decode($0.scanResponseHex)]
        }
          + [[5, 0x05, 1, 2, 3, 4, 3, 0x09, 0x61, 0xC3], [17, 0x07] + [UInt8](0..<16), [0]]
      },
      run: { bytes in
        let data = AdvertisingData(decoding: bytes)
        guard let encoded = taken({ try data.encoded() }) else { return }
        let again = AdvertisingData(decoding: encoded)
        promise(
          again.flags == data.flags && again.localName == data.localName && again.serviceData == data.serviceData,
          "an advertisement is read as it was written")
        promise(Set(again.serviceUUIDs) == Set(data.serviceUUIDs), "its UUIDs are read as they were written")
      }),
    Target(
      name: "air-hub-frame", seeds: { hubFrames.map { written($0.write) } },
      run: { bytes in repeatFrame(bytes, { try HubFrame(reading: &$0) }, { $0.write }) }),
    Target(
      name: "air-node-frame", seeds: { nodeFrames.map { written($0.write) } },
      run: { bytes in repeatFrame(bytes, { try NodeFrame(reading: &$0) }, { $0.write }) }),
    Target(
      name: "sdp-answer",
      seeds: {
        [
          [7, 0, 0, 0, 24, 0, 21, 0x35, 0x13, 0x35, 0x11, 9, 0, 4, 0x35, 12, 0x35, 3, 0x19, 1, 0, 0x35, 5, 0x19, 0, 3]
            + [8, 1, 0],
          [7, 0, 0, 0, 5, 0, 2, 0x35, 0, 0], [1, 0, 0, 0, 2, 0, 3],
        ]
      },
      run: { bytes in
        var query = ChannelQuery(BluetoothUUID(short: 0x1101), transaction: 0)
        guard let progress = taken({ try query.handle(Array(bytes)) }) else { return }
        if case .channel(let channel) = progress { promise((1...30).contains(channel), "a channel is one of RFCOMM") }
        promise(query.request.count <= 50, "a request has a limit")
      }),
    Target(
      name: "management", seeds: { managementEvents.map { $0.packet(of: 0).bytes } },
      run: { bytes in
        guard let packet = taken({ try ManagementPacket(reading: Array(bytes)) }) else { return }
        promise(packet.bytes == Array(bytes), "a packet is written as it was read")
        guard let event = taken({ try ManagementEvent(reading: packet) }) else { return }
        let again = taken { try ManagementEvent(reading: event.packet(of: packet.index)) }
        promise(again == event, "an event is read as it was written")
        guard case .commandComplete(_, _, let reply) = event else { return }
        var readers = (0..<4).map { _ in ByteReader(reply) }
        if let features = taken({ try ReadAdvertisingFeatures.reply(reading: &readers[0]) }) {
          promise(features.instances.count <= AdvertisingFeatures.limit, "instances have a limit")
        }
        _ = taken { try AddExtendedAdvertisingParameters.reply(reading: &readers[1]) }
        if let defaults = taken({ try ReadDefaultSystemConfiguration.reply(reading: &readers[2]) }) {
          var writer = ByteWriter()
          SetDefaultSystemConfiguration(defaults).write(to: &writer)
          var reader = ByteReader(writer.bytes)
          let again = taken { try ReadDefaultSystemConfiguration.reply(reading: &reader) }
          promise(again == defaults, "parameters are read as they were written")
        }
        _ = taken { try GetPHYConfiguration.reply(reading: &readers[3]) }
      }),
    Target(
      name: "raw-hci",
      seeds: {
        [
          HCILink.question(0).prefix(20).enumerated().map { $0 == 2 ? 1 : $1 }, LEBuffers.deviceQuestion(0),
          [4, 0x0E, 7, 1, 2, 0x20, 0, 0xFB, 0, 8], [4, 0x13, 9, 2, 0x40, 0, 1, 0, 0x41, 0, 2, 0],
          [4, 0x05, 4, 0, 0x40, 0, 0x13], [2, 0x40, 0x20, 9, 0, 5, 0, 4, 0, 0x12, 0x26, 0, 1, 0],
        ]
      },
      run: { bytes in
        let bytes = Array(bytes)
        if let links = taken({ try HCILink.list(reading: bytes) }) {
          promise(links.count <= HCILink.limit, "links have a limit")
        }
        if let write = taken({ try ConfigurationWrite(reading: bytes) }) ?? nil {
          promise(write.link <= 0x0FFF && bytes.count <= ConfigurationWrite.limit, "only a short write is read")
        }
        let event = taken { try ControllerEvent(reading: bytes) } ?? nil
        if case .completed(let links) = event {
          promise(links.count * 4 + 4 == bytes.count, "an event is read to its end")
          promise(links.allSatisfy { $0.handle <= 0x0FFF }, "a handle has 12 bits")
        }
        var buffers = taken { try LEBuffers.shared(reading: bytes) } ?? nil
        if case .buffers(let own) = event { buffers = own }
        guard let buffers else { return }
        promise(buffers.length >= 27 && (1...64).contains(buffers.count), "buffers are within reason")
        let notification = ATTNotification(handle: 1, value: Array(bytes.prefix(512)))
        let packets = notification.packets(on: 1, buffers: buffers)
        promise(packets.allSatisfy { $0.count <= 5 + buffers.length }, "a packet fits into a buffer")
        promise(packets.reduce(0) { $0 + $1.count - 5 } == notification.value.count + 7, "nothing is lost")
        promise(packets.count == notification.packetCount(buffers), "packets are counted before they are made")
      }),
    Target(
      name: "kernel-version",
      seeds: {
        [
          "6.1.0-56-amd64\n#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-07-13)", "6.17.0-rc3\n", "6.18.44\n#1 SMP",
          "6.12.47+rpt-rpi-v8\n#1 SMP PREEMPT Debian 1:6.12.47-1+rpt1 (2025-09-16)",
        ].map { Array($0.utf8) }
      },
      run: { bytes in
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", maxSplits: 1).map(String.init)
        let version = KernelVersion(release: lines.first ?? "", version: lines.dropFirst().first ?? "")
        if let version {
          promise(
            [version.major, version.minor, version.patch].allSatisfy { (0...9999).contains($0) }, "it is a number")
        }
        if let limit = KernelRepair.known(version).limit { promise(limit.count <= 200, "a sentence fits the journal") }
      }),
    Target(
      name: "ini",
      seeds: {
        let words = defaults.table.map { "[\($0.section)]\n\($0.key)=\($0.fallback)\n" }
        let odd = "\u{FEFF}; comment\n[Verifier]\nName = a \\\n # more\n b\n[X-Mine]\nx\n[]\nNmae=1\n[Verifer]\n"
        return (words + [words.joined(), odd]).map { Array($0.utf8) }
      },
      run: configure),
    Target(
      name: "dbus-names",
      seeds: {
        ["/", "/org/earshot/verifier", "/a//b", "org.earshot.Error.Busy", ":1.42", "a{sv}(ii)aay", "_2d", "é", "_"]
          .map { Array($0.utf8) }
      },
      run: nameOnTheBus),
    Target(
      name: "command-line",
      seeds: {
        [
          "verifier\nstart\n-d0.5\n--count=3\nname", "-jv", "present\n--receipt\nx\nuri\na\nb", "--\n-x", "--help",
          "-t\n0.5\nlog\ninfo", "--tmieout=2", "status\n-jvt1",
        ].map { Array($0.utf8) }
      },
      run: { bytes in
        let words = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
          .map { String(decoding: $0, as: UTF8.self) }
        do throws(UsageError) {
          let parsed = try example.parse(words)
          promise(parsed.value("timeout") == nil || parsed.seconds("timeout") != nil, "a time was checked")
          promise(parsed.value("count") == nil || parsed.integer("count") != nil, "a number was checked")
        } catch {
          promise(!"\(error)".isEmpty, "an error has words")
        }
      }),
  ]

  private static let address = BluetoothAddress(0x00AA_0100_0023)
  private static let uuid = BluetoothUUID(high: 0x0001_0203_0405_0607, low: 0x0809_0A0B_0C0D_0E0F)
  private static let characteristic = CharacteristicID(service: uuid, characteristic: uuid)
  private static let services = [
    GATTService(uuid: uuid, characteristics: [GATTCharacteristic(uuid: uuid, properties: [.write, .notify])]),
    GATTService(uuid: uuid, characteristics: []),
  ]

  private static let abilities = AirAbilities(advertisingSlots: 5, seesPackets: true, hasRawHCI: false)
  private static let traits = AirLinkTraits(isOurs: true, hearsUnsubscribed: true, notifyWindow: 3)
  private static let packet = AdvertisingPacket(
    address: address, addressKind: .randomAddress, kind: .scanResponse, rssi: -59, time: Instant(nanoseconds: 258),
    data: [2, 1, 6])

  private static let hubFrames: [HubFrame] = [
    .welcome(address, abilities), .refused("né"), .status(.degraded, reason: "x"), .abilities(abilities),
    .addressChanged(address), .scanResult(address, rssi: -59, data: [1], scanResponse: [2, 3]), .packet(packet),
    .served(application: 4, true), .linkUp(LinkID(1), address, since: Instant(nanoseconds: 9), traits),
    .linkChanged(LinkID(1), mtu: 517), .linkDown(LinkID(1)),
    .used(application: 4, LinkID(1), .subscribed(characteristic)),
    .written(application: 6, LinkID(1), characteristic, answer: 9, [1]), .gone(LinkID(1), count: 2),
    .event(connection: 1, .connected), .event(connection: 1, .discovered(services)),
    .event(connection: 1, .mtuChanged(23)), .event(connection: 1, .subscribed(characteristic)),
    .event(connection: 1, .written(characteristic, error: .busy)),
    .event(connection: 1, .notified(characteristic, [5])), .event(connection: 1, .disconnected(reason: "x")),
  ]
  private static let nodeFrames: [NodeFrame] = [
    .hello(version: 1, address: nil), .hello(version: 2, address: address),
    .advertise(
      slot: 1, .init(data: [7, 8], scanResponse: [], interval: .milliseconds(100), isConnectable: true)),
    .silence(slot: 2), .serve(application: 1, GATTApplication(services: services)), .stopServing(application: 5),
    .listen(nil), .listen(Listening(services: [uuid], patterns: [AdvertisingPattern(type: 9, bytes: [0x7E])])),
    .connect(connection: 6, address),
    .disconnect(connection: 7), .discover(connection: 8), .exchangeMTU(connection: 9, 517),
    .subscribe(connection: 10, characteristic), .write(connection: 11, .request, characteristic, [1]),
    .notify(application: 12, [LinkID(2), LinkID(3)], characteristic, [1]), .cut(LinkID(1)), .answer(14, nil),
    .answer(14, .busy),
  ]

  private static let managementEvents: [ManagementEvent] = [
    .commandComplete(opcode: 0x3D, .success, [0xFF, 0x7F, 1, 0, 31, 31, 3, 1, 3]),
    .commandComplete(opcode: 3, .success, [2, 0, 0, 0, 1, 0]),
    .commandComplete(opcode: 0x4B, .success, [0, 0, 2, 0, 0, 0x17, 0, 2, 24, 0, 0x1A, 0, 2, 42, 0, 0x1F, 0, 1, 1]),
    .commandComplete(opcode: 0x44, .success, [0xFF, 0x7F, 0, 0, 0xFE, 0x79, 0, 0, 0xFF, 7, 0, 0]),
    .commandComplete(opcode: 4, .success, [UInt8](repeating: 1, count: 280)), .commandStatus(opcode: 0x3D, .busy),
    .deviceConnected(DeviceConnected(address: address, kind: .publicAddress, flags: 8, data: [2, 1, 6])),
    .deviceDisconnected(DeviceDisconnected(address: address, kind: .randomAddress, reason: .remote)),
    .indexAdded, .newSettings(.powered), .discovering(.init(types: 6, isOn: true)), .advertisingRemoved(instance: 3),
    .deviceFound(AdvertisingReport(address: address, kind: .randomAddress, rssi: -59, flags: 0, data: [2, 1, 6])),
  ]

  private static func written(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    write(&writer)
    return writer.bytes
  }

  /// Checks that a decoded frame can be encoded and decodes to the same frame. Text that is not UTF-8 is repaired,
  /// and cut accordingly, when it is first read.
  private static func repeatFrame<Frame: Equatable>(
    _ bytes: UnsafeRawBufferPointer, _ read: (inout ByteReader) throws -> Frame,
    _ write: (Frame) -> (inout ByteWriter) -> Void
  ) {
    func again(_ frame: Frame) -> Frame? {
      var reader = ByteReader(written(write(frame)))
      return taken { try read(&reader) }
    }
    var reader = ByteReader(Array(bytes))
    guard let frame = taken({ try read(&reader) }) else { return }
    promise(reader.isAtEnd, "a frame is read to its end")
    guard let mended = again(frame) else { return promise(false, "a frame is read after it was written") }
    promise(again(mended) == mended, "a frame is read as it was written")
  }

  private static let defaults = ServiceList.all.configuration

  private static func configure(_ bytes: UnsafeRawBufferPointer) {
    let content = INI(Array(bytes), file: "fuzz.conf")
    let lines = bytes.count { $0 == UInt8(ascii: "\n") } + 1
    var configuration = defaults
    let complaints = content.complaints + configuration.apply(content)
    promise(complaints.allSatisfy { (1...lines).contains($0.line ?? 0) }, "a complaint names a line")
    for key in defaults.table {
      var other = defaults
      let text = key.show(configuration)
      promise(key.assign(text, &other) == nil, "\(key.name) is read as it was shown")
      promise(key.show(other) == text || text.isEmpty, "\(key.name) is the same again")
    }
  }

  /// The bytes of the name that an element of an object path stands for.
  private static func unescaped(_ element: String) -> [UInt8] {
    guard element != "_" else { return [] }
    var name: [UInt8] = []
    var rest = Array(element.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "_") else {
        name.append(byte)
        continue
      }
      name.append(UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) ?? 0)
      rest = rest.dropFirst(2)
    }
    return name
  }

  private static func nameOnTheBus(_ bytes: UnsafeRawBufferPointer) {
    let text = String(decoding: bytes, as: UTF8.self)
    let answers = [
      Validity.isInterface(text), Validity.isMember(text), Validity.isErrorName(text), Validity.isBusName(text),
      Validity.isSignature(text), Validity.isSingleType(text),
    ]
    promise(!answers.contains(true) || text.utf8.count <= 255, "a name has at most 255 bytes")
    promise(!text.utf8.contains(0) || !answers.contains(true), "a name has no NUL")
    let escaped = ObjectPath.escape(text)
    promise(Validity.isPathElement(escaped), "what is escaped is an element")
    promise(unescaped(escaped) == Array(text.utf8), "an element stands for one name")
    promise(Validity.isPath(ObjectPath.root.child(text).child(text).string), "a child is a path")
    guard let path = ObjectPath(text) else { return }
    promise("/" + path.elements.joined(separator: "/") == text, "a path is its elements")
    if let parent = path.parent {
      promise(Validity.isPath(parent.string) && path.isWithin(parent), "a path is within its parent")
      promise(parent.child(path.lastElement) == path, "a path is its parent's child")
    }
  }
}
