import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Outgoing links through bluetoothd")
struct CentralLinkTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("An outgoing link reports connection, discovery, MTU, subscription, write, notification and disconnection")
  @LoopActor
  func whole() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    let (put, hear) = (Visitor.id(Visitor.put), Visitor.id(Visitor.hear))
    visitor.link?.discover()
    visitor.link?.exchangeMTU(517)
    visitor.link?.subscribe(to: hear)
    visitor.link?.write([1], to: put, as: .request)
    visitor.link?.write([2], to: put, as: .command)
    #expect(visitor.events.all.isEmpty)
    _ = try await peer.writes.first { $0.value == [2] }
    rig.fake.notify([3], of: Visitor.hear.description, from: peer)
    rig.fake.notify([3], of: Visitor.hear.description, from: peer)
    rig.fake.notify([4], of: Visitor.hear.description, from: peer)
    _ = try await visitor.events.first { $0 == .notified(hear, [4]) }
    visitor.link?.disconnect()
    #expect(try await visitor.end() == "Disconnected.")
    let services = [
      GATTService(
        uuid: Visitor.service,
        characteristics: [
          GATTCharacteristic(uuid: Visitor.put, properties: [.write, .writeWithoutResponse]),
          GATTCharacteristic(uuid: Visitor.hear, properties: [.indicate]),
        ])
    ]
    #expect(
      visitor.events.all == [
        .connected, .discovered(services), .mtuChanged(517), .subscribed(hear), .written(put, error: nil),
        .written(put, error: nil), .notified(hear, [3]), .notified(hear, [3]), .notified(hear, [4]),
        .disconnected(reason: "Disconnected."),
      ])
    #expect(peer.writes.all.map(\.type) == ["request", "command"])
    try await rig.fake.until { rig.fake.devices.isEmpty }
    #expect(rig.fake.calls.all.suffix(2).map { $0.split(separator: " ").first } == ["Disconnect", "RemoveDevice"])
  }

  @Test("A link works, and its loss is reported, if Connect is answered before `Connected` is signalled")
  @LoopActor
  func toldLate() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isToldLate = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await peer.writes.next().value == [1])
    rig.fake.setConnected(rig.fake.devicePath(peer.address), false)
    #expect(try await visitor.end().contains("was lost"))
  }

  @Test("Up to eight write commands are pending; a write request waits for them, and the order is preserved")
  @LoopActor
  func window() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let put = Visitor.id(Visitor.put)
    peer.holdsAnswers = true
    for number in 0..<20 as Range<UInt8> { visitor.link?.write([number], to: put, as: .command) }
    visitor.link?.write([0xFF], to: put, as: .request)
    try await rig.fake.until { peer.heldAnswers == 8 }
    try await rig.settle()
    #expect(peer.writes.all.count == 8)
    peer.releaseAnswers(3)
    try await rig.fake.until { peer.writes.all.count == 11 }
    peer.holdsAnswers = false
    peer.releaseAnswers()
    _ = try await peer.writes.first { $0.value == [0xFF] }
    for _ in 0..<21 { _ = try await visitor.events.next() }
    #expect(peer.writes.all.map(\.value) == (0..<20).map { [$0] } + [[0xFF]])
    #expect(peer.writes.all.filter { $0.type == "request" }.count == 1)
    #expect(visitor.events.all.dropFirst(2).allSatisfy { $0 == .written(put, error: nil) })
  }

  @Test("A written value that is too long for the MTU is refused and not sent")
  @LoopActor
  func tooLong() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = FakePeer.sample()
    peer.mtu = 100
    let visitor = try await rig.visit(try await rig.sighted(peer))
    let put = Visitor.id(Visitor.put)
    for kind in [WriteKind.command, .request] {
      visitor.link?.write(Array(repeating: 0, count: 98), to: put, as: kind)
      #expect(try await visitor.events.next() == .written(put, error: .invalidLength))
      visitor.link?.write(Array(repeating: 0, count: 97), to: put, as: kind)
      #expect(try await visitor.events.next() == .written(put, error: nil))
    }
    #expect(peer.writes.all.map(\.value.count) == [97, 97])
  }

  @Test("If bluetoothd does not have the MTU property, the MTU is 23")
  @LoopActor
  func unknownMTU() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = FakePeer.sample()
    peer.mtu = nil
    let visitor = try await rig.visit(try await rig.sighted(peer))
    visitor.link?.exchangeMTU(517)
    #expect(try await visitor.events.next() == .mtuChanged(23))
  }

  @Test("A write that the peer refuses is reported with its error, and the link stays up")
  @LoopActor
  func refusals() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let put = Visitor.id(Visitor.put)
    peer.onWrite = { $1(DBusError(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x80")) }
    visitor.link?.write([1], to: put, as: .request)
    #expect(try await visitor.events.next() == .written(put, error: .busy))
    // bluetoothd does not report the result of a write command.
    visitor.link?.write([1], to: put, as: .command)
    #expect(try await visitor.events.next() == .written(put, error: nil))
    // Writes to a missing characteristic, and to one that does not accept writes, fail.
    let nothing = Visitor.id(BluetoothUUID(short: 0xFE2F))
    visitor.link?.write([1], to: nothing, as: .request)
    #expect(try await visitor.events.next() == .written(nothing, error: .unlikely))
    visitor.link?.write([1], to: Visitor.id(Visitor.hear), as: .command)
    #expect(try await visitor.events.next() == .written(Visitor.id(Visitor.hear), error: .unlikely))
    peer.onWrite = { $1(nil) }
    visitor.link?.write([1], to: put, as: .request)
    #expect(try await visitor.events.next() == .written(put, error: nil))
  }

  @Test("A subscription that the peer refuses is reported as subscribed, and the link stays up")
  @LoopActor
  func notSubscribed() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.subscriptionRefusal = DBusError(
      name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x0e")
    let visitor = try await rig.visit(peer)
    for characteristic in [Visitor.hear, Visitor.put, BluetoothUUID(short: 0xFE2F)] {
      visitor.link?.subscribe(to: Visitor.id(characteristic))
      #expect(try await visitor.events.next() == .subscribed(Visitor.id(characteristic)))
    }
  }

  @Test("A malformed or too long notification is counted and dropped")
  @LoopActor
  func malformedValues() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let hear = Visitor.id(Visitor.hear)
    visitor.link?.subscribe(to: hear)
    #expect(try await visitor.events.next() == .subscribed(hear))
    let path = try #require(rig.fake.attributePath(Visitor.hear.description, of: peer))
    let other = try #require(rig.fake.attributePath(Visitor.put.description, of: peer))
    for (path, properties) in [
      (path, ["Value": DBusValue.string("text")]), (path, ["Value": .bytes(Array(repeating: 0, count: 513))]),
      (path, ["Notifying": .bool(true)]), (other, ["Value": .bytes([9])]),
    ] {
      rig.fake.emit(
        path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
        [.string("org.bluez.GattCharacteristic1"), .options(properties), .strings([])])
    }
    rig.fake.notify([1], of: Visitor.hear.description, from: peer)
    #expect(try await visitor.events.next() == .notified(hear, [1]))
    #expect(rig.radio.counters.malformed == 2)
  }

  @Test("Dropping the handle of an outgoing connection disconnects the link")
  @LoopActor
  func dropped() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.fake.until { rig.fake.devices.isEmpty }
  }

  @Test("When the program ends, it leaves no link and no device object in bluetoothd")
  @LoopActor
  func programEnds() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let visitor = try await rig.visit(try await rig.sighted())
    visitor.drop()
    rig.connection.close()
    try await rig.fake.until { rig.fake.devices.isEmpty }
  }

  @Test("At its end the driver removes no known or paired devices and cuts no links that existed earlier")
  @LoopActor
  func notOurs() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.addDevice("00:AA:03:00:00:01", isConnected: false)
    }
    defer { rig.close() }
    let known = try await rig.sighted()
    let visitor = try await rig.visit(known)
    visitor.link?.disconnect()
    _ = try await visitor.end()
    try await rig.settle()
    #expect(rig.fake.devices.count == 1)

    let path = try #require(rig.fake.devices.keys.first)
    rig.fake.setConnected(path, true, isOutgoing: true)
    try await rig.settle()
    let guest = Visitor()
    try guest.connect(with: rig.radio, to: known)
    #expect(try await guest.events.next() == .connected)
    guest.link?.disconnect()
    #expect(try await guest.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.fake.devices[path]?.isConnected == true)
    #expect(rig.fake.calls.all.filter { $0.hasPrefix("Disconnect") }.count == 1)

    let bound = try await rig.sighted(.sample("00:AA:03:00:00:02"))
    let friend = try await rig.visit(bound)
    let place = rig.fake.devicePath(bound.address)
    rig.fake.signal(["Paired": .bool(true)], of: place)
    try await rig.settle()
    friend.link?.disconnect()
    _ = try await friend.end()
    try await rig.settle()
    #expect(rig.fake.devices.keys.contains(place))
  }

  @Test("An outgoing link is reported once, and does not end an advertisement")
  @LoopActor
  func oneNumber() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let advertisement = try await rig.advertise()
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let id = try #require(visitor.link?.id)
    let ups = rig.radio.told.all.compactMap { if case .up(let link, _, _) = $0 { link } else { nil } }
    #expect(ups == [id])
    #expect(rig.driver.origin(of: id) == .here)
    // The peer is also a client of the adapter's service on that link.
    await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath(peer.address), mtu: nil)
    #expect(service.events.all.last == .written(id, Service.id(0xFE02), [1]))
    rig.driver.cut(id)
    #expect(try await visitor.end() == "Disconnected.")
    _ = try await rig.radio.told.first { $0 == .down(id) }
    try await rig.settle()
    #expect(rig.fake.calls.all.filter { $0.hasPrefix("RegisterAdvertisement") }.count == 1)
    #expect(rig.fake.calls.all.filter { $0.hasPrefix("Disconnect") }.count == 1)
    advertisement.cancel()
    server.close()
  }

  @Test("If bluetoothd refuses Disconnect, the connection ends, and the link stays up and can be cut later")
  @LoopActor
  func refusedCut() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let path = rig.fake.devicePath(peer.address)
    rig.fake.arrive(peer)
    let told = try await rig.radio.told.first { if case .up(_, peer.address, _) = $0 { true } else { false } }
    guard case .up(let link, _, _) = told else { throw CancellationError() }
    let visitor = try await rig.visit(peer)
    #expect(visitor.link?.id == link)
    rig.fake.cutRefusals = [DBusError(name: "org.bluez.Error.Failed", message: "Operation failed")]
    rig.driver.cut(link)
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.radio.links == [link] && rig.fake.devices[path]?.isConnected == true)
    rig.driver.cut(link)
    _ = try await rig.radio.told.first { $0 == .down(link) }
    #expect(rig.fake.devices[path]?.isConnected != true)
    #expect(rig.fake.calls.all.filter { $0.hasPrefix("Disconnect") }.count == 2)
  }

  @Test("A connection to a peer that is already connected uses the existing link at once")
  @LoopActor
  func peersLink() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let peer = try await rig.sighted()
    let path = rig.fake.devicePath(peer.address)
    rig.fake.setConnected(path, true)
    let link = try await service.link()
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    #expect(visitor.link?.id == link)
    #expect(visitor.events.all.isEmpty)
    #expect(try await visitor.events.next() == .connected)
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Connect") })
    visitor.link?.disconnect()
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.fake.devices[path]?.isConnected == true)
    #expect(!rig.radio.told.all.contains(.down(link)))
    rig.fake.setConnected(path, false)
    _ = try await rig.radio.told.first { $0 == .down(link) }
    server.close()
  }

  @Test("A peer that connects again does not have the subscriptions of its previous link", arguments: [true, false])
  @LoopActor
  func comesBack(isSubscribed: Bool) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isKept = true
    rig.fake.arrive(peer)
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    let hear = Visitor.id(Visitor.hear)
    visitor.link?.discover()
    _ = try await visitor.events.first { if case .discovered = $0 { true } else { false } }
    if isSubscribed {
      visitor.link?.subscribe(to: hear)
      _ = try await visitor.events.first { $0 == .subscribed(hear) }
    } else {
      // bluetoothd answers after the peer has disconnected.
      peer.onSubscribe = { _, answer in
        rig.fake.lose(peer)
        answer()
      }
      visitor.link?.subscribe(to: hear)
    }
    rig.fake.lose(peer)
    #expect(try await visitor.end().contains("was lost"))
    try await rig.settle()
    #expect(peer.subscriptions.isEmpty)
    rig.fake.arrive(peer)
    try await rig.settle()
    #expect(peer.subscriptions.isEmpty)
  }

  @Test("A link that is lost before `Connected` is signalled ends its connection")
  @LoopActor
  func lostAtOnce() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isLostAtOnce = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    #expect(try await visitor.events.next() == .connected)
    rig.time.advance(by: .seconds(5))
    #expect(try await visitor.end() == "The link to \(peer.address) was lost.")
    #expect(rig.radio.links.isEmpty)
  }

  @Test("Connecting to a peer that was connected before the start reports its link, and then `connected`")
  @LoopActor
  func connectedBefore() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.add(.sample())
      fake.addDevice("00:AA:03:00:00:01")
    }
    defer { rig.close() }
    #expect(rig.radio.told.all.allSatisfy { if case .up = $0 { false } else { true } })
    rig.time.advance(by: .seconds(3))
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: .sample())
    #expect(rig.radio.links.isEmpty)
    #expect(try await visitor.events.next() == .connected)
    let id = try #require(visitor.link?.id)
    let since = rig.time.now.advanced(by: .seconds(-3))
    #expect(rig.radio.told.all.last == .up(id, "00:AA:03:00:00:01", since: since))
    #expect(rig.driver.origin(of: id) == .unknown)
  }

  @Test(
    "Several connections to one peer share a link, which is cut when the last of them ends")
  @LoopActor
  func shared() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let first = try await rig.visit(peer)
    let second = try await rig.visit(peer)
    #expect(second.link?.id == first.link?.id && first.link != nil)
    #expect(rig.fake.calls.all.filter { $0.hasPrefix("Connect") }.count == 1)
    first.drop()
    #expect(try await first.end() == "Disconnected.")
    second.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await second.events.next() == .written(Visitor.id(Visitor.put), error: nil))
    let stranger = Visitor()
    try stranger.connect(with: rig.radio, to: FakePeer("00:AA:03:00:00:09"))
    #expect(try await stranger.end().contains("bluetoothd does not know 00:AA:03:00:00:09"))
    second.drop()
    #expect(try await second.end() == "Disconnected.")
    try await rig.fake.until { rig.fake.devices.isEmpty }
  }

  @Test("A second connection attempt to a peer during the first one fails at once")
  @LoopActor
  func twoAttempts() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isDeaf = true
    let (first, second) = (Visitor(), Visitor())
    try first.connect(with: rig.radio, to: peer)
    try await rig.fake.until { peer.isBeingConnected }
    try second.connect(with: rig.radio, to: peer)
    #expect(try await second.end().contains("An attempt to connect to 00:AA:03:00:00:01 is already"))
    #expect(first.events.all.isEmpty && peer.isBeingConnected)
    first.drop()
  }

  @Test("A link stays up after our connection ends if the peer uses an application that we serve")
  @LoopActor
  func usedByPeer() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let path = rig.fake.devicePath(peer.address)
    await rig.fake.write([1], to: Service.put, from: path, mtu: nil)
    visitor.drop()
    #expect(try await visitor.end() == "Disconnected.")
    try await rig.settle()
    #expect(rig.fake.devices[path]?.isConnected == true)
    for link in rig.radio.links { rig.driver.cut(link) }
    try await rig.fake.until { rig.fake.devices[path]?.isConnected != true }
    // bluetoothd would never remove the device, because Earshot connected to it.
    try await rig.fake.until { rig.fake.devices.isEmpty }
    server.close()
  }

  @Test("Up to twelve outgoing connections are possible at a time, and a thirteenth is refused")
  @LoopActor
  func tooMany() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    var visitors: [Visitor] = []
    for number in 0..<12 {
      let peer = try await rig.sighted(.sample("00:AA:03:00:01:0\(String(number, radix: 16, uppercase: true))"))
      visitors.append(try await rig.visit(peer))
    }
    let thirteenth = try await rig.sighted(.sample("00:AA:03:00:01:FF"))
    let error = caught(RadioError.self) { try Visitor().connect(with: rig.radio, to: thirteenth) }
    #expect(error == .notReady("The maximum of 12 connections is reached."))
    visitors.first?.link?.disconnect()
    _ = try await visitors.first?.end()
    visitors.append(try await rig.visit(thirteenth))
  }
}
