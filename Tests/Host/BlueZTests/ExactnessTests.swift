import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Values for exactly one client (reach `exact`) through bluetoothd")
struct ExactnessTests {
  init() { EventLoop.shared.runInBackground() }

  static let first = "00:AA:02:00:00:01"
  static let second = "00:AA:02:00:00:02"
  static let hear = Service.id(0xFE03)
  /// Two versions of BlueZ: 5.66, which cannot distinguish clients, and 5.82, which can.
  static let versions = [BlueZVersion(5, 66), BlueZVersion(5, 82)]

  /// A radio with two connected, subscribed clients.
  @LoopActor
  final class Two {
    let rig: Rig
    let raw = FakeRawHCI()
    let service = Service()
    let server: DriverRig.Server
    let devices: [ObjectPath]
    let links: [LinkID]

    init(_ version: BlueZVersion, _ reach: GATTCharacteristic.Reach, areSubscribed: Bool = true) async throws {
      rig = try await Rig(version: version, doors: KernelChannels(raw: .open(raw)))
      try await rig.reach(.ready)
      server = try await rig.serve(service, Service.application(reach: reach))
      raw.links = [first, second].enumerated().map { index, address in
        HCILink(handle: UInt16(0x40 + index), address: BluetoothAddress(address) ?? BluetoothAddress(0))
      }
      devices = [rig.fake.addDevice(first), rig.fake.addDevice(second)]
      links = [try await service.link(), try await service.link()]
      guard areSubscribed else { return }
      for device in devices { try await rig.fake.subscribe(Service.hear, by: device) }
    }

    /// The values that each client received in order, through bluetoothd or by raw HCI.
    var heard: [[[UInt8]]] {
      [0, 1].map { index in
        rig.fake.notified.all.filter { $0.client == devices[index] }.map(\.value)
          + raw.controller.received.all.filter { $0.peer.description == [first, second][index] }.map {
            Array($0.payload.dropFirst(3))
          }
      }
    }

    func close() { rig.close() }
  }

  @Test(
    "An exact value for one of two subscribers is not received by the other subscriber",
    arguments: versions)
  @LoopActor
  func exact(version: BlueZVersion) async throws {
    let two = try await Two(version, .exact)
    defer { two.close() }
    for number in 0..<4 as Range<UInt8> {
      let link = two.links[Int(number % 2)]
      #expect(two.server.notify([number], of: Self.hear, to: link) == Delivery(accepted: [link]))
    }
    #expect(two.server.notify([9], of: Self.hear, to: .links(two.links)) == Delivery(accepted: two.links))
    while two.heard.joined().count < 6 { try await two.rig.settle() }
    #expect(two.heard == [[[0], [2], [9]], [[1], [3], [9]]])
    #expect(two.raw.controller.violations.isEmpty)
    #expect(two.raw.sent.all.isEmpty == (version >= BlueZVersion(5, 76)))
    two.server.close()
  }

  @Test("After raw HCI failed, values for subscribers are sent through bluetoothd")
  @LoopActor
  func rawFailed() async throws {
    let two = try await Two(BlueZVersion(5, 66), .exact)
    defer { two.close() }
    two.raw.failure = .denied("send: Operation not permitted")
    two.server.notify([1], of: Self.hear, to: two.links[0])
    try await two.rig.reach(.degraded, "send: Operation not permitted")
    two.raw.failure = nil
    two.server.notify([2], of: Self.hear, to: two.links[0])
    while two.heard.joined().isEmpty { try await two.rig.settle() }
    #expect(two.heard == [[[2]], [[2]]])
    #expect(two.raw.sent.all.isEmpty)
    two.server.close()
  }

  @Test("A value that is not exact reaches only its link if bluetoothd separates clients, otherwise all subscribers")
  @LoopActor
  func subscribers() async throws {
    for version in Self.versions {
      let two = try await Two(version, .subscribers)
      defer { two.close() }
      let areApart = version >= BlueZVersion(5, 76)
      // A value for one client alone would be sent by raw HCI.
      let second = Recipients.links([two.links[1]])
      #expect(
        two.server.notify([1], of: Self.hear, to: second)
          == Delivery(accepted: [two.links[1]], overheard: areApart ? [] : [two.links[0]]))
      #expect(Set(two.server.notify([2], of: Self.hear, to: .subscribers).accepted) == Set(two.links))
      let gone = LinkID(.max)
      #expect(
        two.server.notify([3], of: Self.hear, to: .links([two.links[0], gone]))
          == Delivery(accepted: [two.links[0]], unreachable: [gone], overheard: areApart ? [] : [two.links[1]]))
      while two.heard.joined().count < (areApart ? 4 : 6) { try await two.rig.settle() }
      #expect(two.heard == (areApart ? [[[2], [3]], [[1], [2]]] : [[[1], [2], [3]], [[1], [2], [3]]]))
      #expect(two.raw.sent.all.isEmpty)
      two.server.close()
    }
  }

  @Test("An exact value is sent to a client without a subscription; any other value is refused", arguments: versions)
  @LoopActor
  func unsubscribed(version: BlueZVersion) async throws {
    let two = try await Two(version, .exact, areSubscribed: false)
    defer { two.close() }
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    for link in two.links {
      #expect(two.server.notify([UInt8(link == two.links[0] ? 0 : 1)], of: Self.hear, to: link).accepted == [link])
    }
    while two.heard.joined().count < 2 { try await two.rig.settle() }
    #expect(two.heard == [[[0]], [[1]]])
    two.server.close()
    let other = try await Two(version, .subscribers, areSubscribed: false)
    defer { other.close() }
    #expect(other.server.notify([1], of: Self.hear, to: other.links[0]) == Delivery(unreachable: [other.links[0]]))
    #expect(other.server.notify([1], of: Self.hear, to: .subscribers).accepted.isEmpty)
    try await other.rig.settle()
    #expect(other.heard == [[], []] && other.raw.sent.all.isEmpty)
    other.server.close()
  }

  @Test("An empty notification value is refused, and the next value arrives")
  @LoopActor
  func empty() async throws {
    let two = try await Two(BlueZVersion(5, 82), .exact)
    defer { two.close() }
    #expect(two.server.notify([], of: Self.hear, to: two.links[0]) == Delivery(unreachable: [two.links[0]]))
    #expect(two.server.notify([1], of: Self.hear, to: two.links[0]).accepted == [two.links[0]])
    while two.heard.joined().isEmpty { try await two.rig.settle() }
    #expect(two.heard == [[[1]], []])
    two.server.close()
  }

  @Test("A subscription is reported with its link if bluetoothd separates clients")
  @LoopActor
  func uses() async throws {
    let two = try await Two(BlueZVersion(5, 82), .subscribers)
    defer { two.close() }
    func used(_ index: Int, _ use: Use) -> DriverRig.Told { .used(two.server.number, two.links[index], use) }
    try await two.rig.fake.subscribe(Service.hear, false, by: two.devices[0])
    try await two.rig.settle()
    two.rig.time.advance(by: .seconds(1))
    _ = try await two.rig.radio.told.first { $0 == used(0, .unsubscribed(Self.hear)) }
    #expect(two.server.notify([1], of: Self.hear, to: two.links[0]) == Delivery(unreachable: [two.links[0]]))
    #expect(two.server.notify([2], of: Self.hear, to: .subscribers) == Delivery(accepted: [two.links[1]]))
    // A client that changes from notifications to indications gets one copy of a value.
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[1])
    // The end of a link ends its subscription, which bluetoothd may report first.
    two.rig.fake.setConnected(two.devices[1], false)
    _ = try await two.rig.radio.told.first { $0 == .down(two.links[1]) }
    try await two.rig.settle()
    let told = two.rig.radio.told.all
    let uses = told.filter { if case .used = $0 { true } else { false } }
    #expect(
      uses.prefix(3) == [
        used(0, .subscribed(Self.hear)), used(1, .subscribed(Self.hear)), used(0, .unsubscribed(Self.hear)),
      ])
    #expect(uses.dropFirst(3).allSatisfy { $0 == used(1, .unsubscribed(Self.hear)) })
    #expect(told.last == .down(two.links[1]))
    two.server.close()
  }

  @Test("If bluetoothd does not separate clients, a subscription is reported only while one client is connected")
  @LoopActor
  func certainUses() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let device = rig.fake.addDevice(Self.first)
    let link = try await service.link()
    try await rig.fake.subscribe(Service.hear, by: device)
    #expect(rig.radio.told.all.last == .used(server.number, link, .subscribed(Self.hear)))
    let other = rig.fake.addDevice(Self.second)
    _ = try await service.link()
    try await rig.fake.subscribe(Service.hear, by: other)
    try await rig.fake.subscribe(Service.hear, false, by: device)
    try await rig.fake.subscribe(Service.hear, false, by: other)
    #expect(rig.radio.told.all.last == .used(server.number, link, .unsubscribed(Self.hear)))
    try await rig.fake.subscribe(Service.hear, by: other)
    let uses = rig.radio.told.all.filter { if case .used = $0 { true } else { false } }
    #expect(uses.count == 2)
    server.close()
  }

  @Test("A full socket of one client does not delay other clients, and its free capacity is reported")
  @LoopActor
  func fullSocket() async throws {
    let two = try await Two(BlueZVersion(5, 82), .exact, areSubscribed: false)
    defer { two.close() }
    two.rig.fake.leavesValues = true
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    two.rig.fake.leavesValues = false
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[1])
    let value = [UInt8](repeating: 7, count: 512)
    var sent = 0
    while two.server.notify(value, of: Self.hear, to: two.links[0]).accepted == [two.links[0]] { sent += 1 }
    #expect((4...40).contains(sent))
    #expect(two.server.notify(value, of: Self.hear, to: two.links[0]) == Delivery(full: [two.links[0]]))
    #expect(
      two.server.notify([1], of: Self.hear, to: .links(two.links))
        == Delivery(accepted: [two.links[1]], full: [two.links[0]]))
    two.rig.fake.takeValues()
    _ = try await two.rig.radio.told.first { $0 == .room(two.links[0]) }
    #expect(two.server.notify([2], of: Self.hear, to: two.links[0]).accepted == [two.links[0]])
    while two.heard.joined().count < sent + 2 { try await two.rig.settle() }
    #expect(two.heard == [Array(repeating: value, count: sent) + [[2]], [[1]]])
    #expect(!two.rig.radio.told.all.contains(.room(two.links[1])))
    two.server.close()
  }

  @Test(
    "With the backlog limit `long` a client's socket holds eight times as many bytes as with `short`")
  @LoopActor
  func backlog() async throws {
    let two = try await Two(BlueZVersion(5, 82), .exact, areSubscribed: false)
    defer { two.close() }
    two.rig.fake.leavesValues = true
    for device in two.devices { try await two.rig.fake.subscribe(Service.hear, by: device) }
    func fill(_ link: LinkID) -> Int {
      var sent = 0
      while two.server.notify([UInt8](repeating: 7, count: 512), of: Self.hear, to: link).accepted == [link] {
        sent += 1
      }
      return sent
    }
    two.rig.driver.allow(.long, on: two.links[0])
    let (long, short) = (fill(two.links[0]), fill(two.links[1]))
    #expect((4...8).contains(short) && (short * 8 - 7...short * 8 + 7).contains(long))
    try await two.rig.fake.subscribe(Service.hear, false, by: two.devices[0])
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    #expect(fill(two.links[0]) == long)
    two.server.close()
  }

  @Test("If a client subscribes again before its old socket's end is noticed, the new capacity is reported")
  @LoopActor
  func fullAndReplaced() async throws {
    let two = try await Two(BlueZVersion(5, 82), .exact, areSubscribed: false)
    defer { two.close() }
    two.rig.fake.leavesValues = true
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    while two.server.notify([7], of: Self.hear, to: two.links[0]).accepted == [two.links[0]] {}
    two.rig.fake.leavesValues = false
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    _ = try await two.rig.radio.told.first { $0 == .room(two.links[0]) }
    #expect(two.server.notify([9], of: Self.hear, to: two.links[0]).accepted == [two.links[0]])
    while !two.heard[0].contains([9]) { try await two.rig.settle() }
    two.server.close()
  }

  @Test("At most 16 values wait for bluetoothd, and links refused a value are notified of free capacity")
  @LoopActor
  func fullWindow() async throws {
    let two = try await Two(BlueZVersion(5, 66), .subscribers)
    defer { two.close() }
    // A value for one client alone would be sent by raw HCI.
    let first = Recipients.links([two.links[0]])
    for number in 0..<16 as Range<UInt8> {
      #expect(two.server.notify([number], of: Self.hear, to: first).full.isEmpty)
    }
    #expect(two.server.notify([16], of: Self.hear, to: .links(two.links)) == Delivery(full: two.links))
    for link in two.links { _ = try await two.rig.radio.told.first { $0 == .room(link) } }
    // bluetoothd has handled all values at this point.
    #expect(two.rig.fake.notified.all.count == 32)
    #expect(two.server.notify([17], of: Self.hear, to: first).accepted == [two.links[0]])
    while two.heard.joined().count < 34 { try await two.rig.settle() }
    #expect(two.heard[0] == (0..<16).map { [$0] } + [[17]])
    two.server.close()
  }

  @Test("A program that monitors the bus does not see exact values", arguments: versions)
  @LoopActor
  func thirdProgram(version: BlueZVersion) async throws {
    let two = try await Two(version, .subscribers)
    defer { two.close() }
    let listener = BusConnection(address: .address(two.rig.bus.address))
    listener.connect()
    try await listener.ready()
    let signals = Mailbox<Message>()
    let everything = listener.subscribe(SignalMatch()) { signals.put($0) }
    // The bus has the match rule when it has answered a later call.
    _ = try await listener.call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Peer", "Ping")
    let secret: [UInt8] = Array("between us".utf8)
    #expect(two.server.notify(secret, of: Self.hear, to: .subscribers).accepted.count == 2)
    #expect(two.server.notify(secret, of: Service.id(0xFE04), to: two.links[0]).accepted.isEmpty)
    await two.rig.fake.write(secret, to: Service.put, from: two.devices[0])
    _ = try await two.rig.fake.read(Service.read, from: two.devices[0])
    while two.heard.joined().count < 2 { try await two.rig.settle() }
    // The final signal arrives after all earlier ones.
    two.rig.fake.emit("/end", "org.example.End", "End", [])
    two.rig.driver.serve(Service.application, as: ApplicationID(99))
    _ = try await signals.first { $0.member == "End" }
    #expect(signals.all.count > 1)
    for signal in signals.all { #expect(!Self.holds(secret, signal.arguments), "\(signal)") }
    everything.cancel()
    listener.close()
    two.server.close()
  }

  private static func holds(_ secret: [UInt8], _ values: [DBusValue]) -> Bool {
    values.contains { value in
      if let bytes = value.asBytes, bytes == secret { return true }
      if case .dictionary(_, _, let entries) = value.unwrapped { return holds(secret, entries.map(\.value)) }
      return holds(secret, value.asBytes == nil ? value.asArray ?? [] : [])
    }
  }

  @Test("An exact value can be read only by the client that it was sent to")
  @LoopActor
  func reading() async throws {
    let two = try await Two(BlueZVersion(5, 82), .exact, areSubscribed: false)
    defer { two.close() }
    two.server.notify([5, 6], of: Service.id(0xFE04), to: two.links[0])
    #expect(try await two.rig.fake.read(Service.read, from: two.devices[0]) == [5, 6])
    #expect(
      two.rig.radio.told.all.last == .used(two.server.number, two.links[0], .read(Service.id(0xFE04))))
    for client in [two.devices[1], nil] {
      await #expect(throws: DBusError.self) { try await two.rig.fake.read(Service.read, from: client) }
    }
    two.server.close()
  }

  @Test("After a restart of bluetoothd values are sent to the new subscriptions", arguments: versions)
  @LoopActor
  func restart(version: BlueZVersion) async throws {
    let two = try await Two(version, .subscribers)
    defer { two.close() }
    two.rig.fake.vanish()
    two.raw.links.removeLast()
    try await two.rig.reach(.waiting)
    #expect(two.server.notify([1], of: Self.hear, to: .subscribers) == Delivery())
    try await two.rig.fake.start()
    try await two.rig.reach(.ready)
    try await two.rig.fake.until { two.rig.fake.applications.first?[Service.hear] != nil }
    let device = two.rig.fake.addDevice(Self.first)
    let link = try await two.service.link()
    #expect(two.server.notify([1], of: Self.hear, to: link) == Delivery(unreachable: [link]))
    try await two.rig.fake.subscribe(Service.hear, by: device)
    #expect(two.server.notify([2], of: Self.hear, to: link).accepted == [link])
    _ = try await two.rig.fake.notified.first { $0.value == [2] }
    two.server.close()
  }
}
