import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Unconfirmed writes through bluetoothd's sockets")
struct StreamTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor private static let put = Visitor.id(Visitor.put)
  /// A configuration with this number of ATT channels.
  private static func channels(_ count: Int) -> DaemonConfiguration {
    DaemonConfiguration("[GATT]\nChannels = \(count)\n")
  }

  @LoopActor
  private func rig(_ version: BlueZVersion, channels: Int) async throws -> Rig {
    let rig = try await Rig(version: version, configuration: { Self.channels(channels) })
    try await rig.reach(.ready)
    return rig
  }

  /// Writes the first two values of a link, which are sent as requests, and clears their records.
  @LoopActor
  private func write(first visitor: Visitor, to peer: FakePeer) async throws {
    for value in [[0xF0], [0xF1]] as [[UInt8]] { visitor.link?.write(value, to: Self.put, as: .stream) }
    while visitor.events.all.count(where: { $0 == .written(Self.put, error: nil) }) < 2 {
      _ = try await visitor.events.next()
    }
    #expect(peer.writes.all.map(\.value) == [[0xF0], [0xF1]])
    #expect(peer.writes.all.map(\.type) == ["request", "request"])
    peer.writes.empty()
    visitor.events.empty()
  }

  /// A temporary file with the content of bluetoothd's configuration.
  @LoopActor
  private final class File {
    var channels = 3
  }

  @Test("A changed configuration of bluetoothd applies from its next start")
  @LoopActor
  func configured() async throws {
    let file = File()
    let rig = try await Rig(version: BlueZVersion(5, 82), configuration: { Self.channels(file.channels) })
    defer { rig.close() }
    try await rig.reach(.ready)
    func isAsked() -> Bool { rig.radio.status.limits.contains { $0.contains("Channels=1") } }
    file.channels = 1
    #expect(isAsked())
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.reach(.ready)
    #expect(!isAsked())
    let peer = try await rig.sighted(.sample(takesChannels: true))
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    visitor.link?.write([1], to: Self.put, as: .stream)
    #expect(try await peer.writes.first { $0.value == [1] }.type == "socket")
  }

  @Test("The first two writes are sent as requests, and then a write socket is acquired")
  @LoopActor
  func firstTwo() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    peer.holdsAnswers = true
    for number in 0..<4 as Range<UInt8> { visitor.link?.write([number], to: Self.put, as: .stream) }
    for number in 1...2 {
      try await rig.fake.until { peer.heldAnswers == 1 }
      try await rig.settle()
      #expect(peer.writes.all.map(\.value) == (0..<UInt8(number)).map { [$0] })
      #expect(!rig.fake.calls.all.contains { $0.hasPrefix("AcquireWrite") })
      peer.releaseAnswers()
    }
    _ = try await peer.writes.first { $0.value == [3] }
    #expect(peer.writes.all.map(\.type) == ["request", "request", "socket", "socket"])
  }

  @Test("If the characteristic does not take write requests, all writes use the socket")
  @LoopActor
  func noRequests() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = FakePeer(services: [
      FakePeer.Service(
        Visitor.service.description,
        [FakePeer.Characteristic(Visitor.put.description, ["write-without-response"])])
    ])
    let visitor = try await rig.visit(try await rig.sighted(peer))
    for number in 0..<2 as Range<UInt8> { visitor.link?.write([number], to: Self.put, as: .stream) }
    _ = try await peer.writes.first { $0.value == [1] }
    #expect(peer.writes.all.map(\.type) == ["socket", "socket"])
  }

  @Test("All writes to a characteristic use one socket in order, and each is confirmed")
  @LoopActor
  func socket() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    let values = (0..<40 as Range<UInt8>).map { [$0, 7] }
    for value in values { visitor.link?.write(value, to: Self.put, as: .stream) }
    _ = try await peer.writes.first { $0.value == [39, 7] }
    #expect(peer.writes.all.map(\.value) == values)
    #expect(Set(peer.writes.all.map(\.type)) == ["socket"])
    #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireWrite") } == 1)
    let written = LinkEvent.written(Self.put, error: nil)
    while visitor.events.all.count(where: { $0 == written }) < 40 { _ = try await visitor.events.next() }
  }

  @Test(
    "A full write socket confirms no further write until bluetoothd reads from it, and loses none")
  @LoopActor
  func full() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.leavesWrites = true
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    let written = LinkEvent.written(Self.put, error: nil)
    for number in 0..<60 as Range<UInt8> {
      visitor.link?.write([UInt8](repeating: number, count: 500), to: Self.put, as: .stream)
    }
    _ = try await visitor.events.first { $0 == written }
    try await rig.settle()
    let told = visitor.events.all.count { $0 == written }
    #expect(told < 40)
    peer.takeWrites()
    _ = try await peer.writes.first { $0.value.first == 59 }
    #expect(peer.writes.all.compactMap(\.value.first) == Array(0..<60))
    while visitor.events.all.count(where: { $0 == written }) < 60 { _ = try await visitor.events.next() }
  }

  @Test("`streamNow` sends its value after queued writes, and reports no `written` event")
  @LoopActor
  func atOnce() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    let link = try #require(visitor.link)
    func take(_ value: [UInt8]) -> Bool { link.streamNow(value, to: Self.put) }
    #expect(!take([0]), "there is no socket yet")
    link.write([1], to: Self.put, as: .stream)
    #expect(!take([0]), "what was asked for before is not done yet")
    _ = try await visitor.events.first { $0 == .written(Self.put, error: nil) }
    #expect(take([2]) && take([3]))
    #expect(!take([]), "bluetoothd takes it for the end")
    #expect(!take([UInt8](repeating: 0, count: 513)))
    let isTakenElsewhere = link.streamNow([0], to: Visitor.id(Visitor.hear))
    #expect(!isTakenElsewhere, "it has no socket")
    link.subscribe(to: Visitor.id(Visitor.hear))
    #expect(!take([0]), "it would overtake what waits for the subscription")
    link.write([4], to: Self.put, as: .stream)
    _ = try await peer.writes.first { $0.value == [4] }
    #expect(peer.writes.all.map(\.value) == [[1], [2], [3], [4]])
    _ = try await visitor.events.first { $0 == .written(Self.put, error: nil) }
    try await rig.settle()
    #expect(visitor.events.all.count { $0 == .written(Self.put, error: nil) } == 2)

    peer.endWrites()
    #expect(!take([9]))
    link.write([8], to: Self.put, as: .stream)
    #expect(try await peer.writes.first { $0.value == [8] }.type == "command")
    #expect(!take([0]), "there is no socket any more")
  }

  @Test("`streamNow` is refused while the write socket is full")
  @LoopActor
  func fullAtOnce() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.leavesWrites = true
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    let link = try #require(visitor.link)
    func take(_ value: [UInt8]) -> Bool { link.streamNow(value, to: Self.put) }
    link.write([0], to: Self.put, as: .stream)
    _ = try await visitor.events.first { $0 == .written(Self.put, error: nil) }
    var taken: UInt8 = 0
    while link.streamNow([taken + 1] + [UInt8](repeating: 0, count: 499), to: Self.put) { taken += 1 }
    #expect((3...10).contains(taken))
    link.write([taken + 1], to: Self.put, as: .stream)
    #expect(!take([99]))
    try await rig.settle()
    #expect(visitor.events.all.count { $0 == .written(Self.put, error: nil) } == 1)
    peer.takeWrites()
    while visitor.events.all.count(where: { $0 == .written(Self.put, error: nil) }) < 2 {
      _ = try await visitor.events.next()
    }
    #expect(take([taken + 2]))
    _ = try await peer.writes.first { $0.value.first == taken + 2 }
    #expect(peer.writes.all.compactMap(\.value.first) == Array(0...taken + 2))
  }

  @Test("With the backlog limit `long` a write socket holds eight times as many bytes as with `short`")
  @LoopActor
  func backlog() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    func room(before: Backlog, after: Backlog) async throws -> Int {
      let peer = FakePeer.sample("00:AA:03:00:00:0\(rig.radio.links.count + 1)")
      peer.leavesWrites = true
      let visitor = try await rig.visit(try await rig.sighted(peer))
      try await write(first: visitor, to: peer)
      let link = try #require(visitor.link)
      rig.driver.allow(before, on: link.id)
      link.write([UInt8](repeating: 1, count: 500), to: Self.put, as: .stream)
      _ = try await visitor.events.first { $0 == .written(Self.put, error: nil) }
      rig.driver.allow(after, on: link.id)
      var count = 1
      while link.streamNow([UInt8](repeating: 1, count: 500), to: Self.put) { count += 1 }
      return count
    }
    let short = try await room(before: .short, after: .short)
    #expect((4...8).contains(short))
    let more = short * 8 - 7...short * 8 + 7
    #expect(more.contains(try await room(before: .long, after: .long)))
    #expect(more.contains(try await room(before: .short, after: .long)))
    #expect(try await room(before: .long, after: .short) == short)
  }

  @Test("If bluetoothd does not give a write socket, writes are sent as WriteValue calls of type command")
  @LoopActor
  func refused() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.socketRefusal = DBusError(name: "org.bluez.Error.NotSupported", message: "Operation is not supported")
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    for number in 0..<3 as Range<UInt8> { visitor.link?.write([number], to: Self.put, as: .stream) }
    _ = try await peer.writes.first { $0.value == [2] }
    #expect(peer.writes.all.map(\.type) == ["command", "command", "command"])
    #expect(rig.fake.calls.all.count { $0.hasPrefix("AcquireWrite") } == 1)
  }

  @Test("After bluetoothd closes the write socket, writes are sent as WriteValue calls")
  @LoopActor
  func ended() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    visitor.link?.write([1], to: Self.put, as: .stream)
    _ = try await peer.writes.first { $0.value == [1] }
    peer.endWrites()
    visitor.link?.write([2], to: Self.put, as: .stream)
    #expect(try await peer.writes.first { $0.value == [2] }.type == "command")
  }

  @Test("After bluetoothd closes a full write socket, the waiting writes are sent as WriteValue calls")
  @LoopActor
  func endedFull() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.leavesWrites = true
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    let written = LinkEvent.written(Self.put, error: nil)
    for number in 0..<60 as Range<UInt8> {
      visitor.link?.write([UInt8](repeating: number, count: 500), to: Self.put, as: .stream)
    }
    _ = try await visitor.events.first { $0 == written }
    try await rig.settle()
    peer.endWrites()
    #expect(try await peer.writes.first { $0.value.first == 59 }.type == "command")
    while visitor.events.all.count(where: { $0 == written }) < 60 { _ = try await visitor.events.next() }
  }

  @Test(
    "If both ends have several EATT channels, writes are sent as requests, otherwise through the socket",
    arguments: [
      (5, 66, 3, true, "request"), (5, 66, 3, false, "socket"), (5, 66, 1, true, "socket"), (5, 82, 1, true, "socket"),
    ])
  @LoopActor
  func channels(major: Int, minor: Int, channels: Int, takesChannels: Bool, type: String) async throws {
    let rig = try await rig(BlueZVersion(major, minor), channels: channels)
    defer { rig.close() }
    let peer = try await rig.sighted(.sample(takesChannels: takesChannels))
    let visitor = try await rig.visit(peer)
    if type != "request" { try await write(first: visitor, to: peer) }
    peer.holdsAnswers = true
    for number in 0..<2 as Range<UInt8> { visitor.link?.write([number], to: Self.put, as: .stream) }
    if type == "request" {
      try await rig.fake.until { peer.heldAnswers == 1 }
      try await rig.settle()
      #expect(peer.writes.all.map(\.value) == [[0]])
      peer.holdsAnswers = false
      peer.releaseAnswers()
    }
    _ = try await peer.writes.first { $0.value == [1] }
    #expect(peer.writes.all.map(\.type) == [type, type])
  }

  @Test(
    "Outgoing writes are limited to 509 bytes if the bluetoothd of either end loses longer ones",
    arguments: [(5, 66, 1, false, 509), (5, 69, 1, false, 512), (5, 82, 1, true, 509), (5, 82, 1, false, 512)])
  @LoopActor
  func lengths(major: Int, minor: Int, channels: Int, takesChannels: Bool, limit: Int) async throws {
    let rig = try await rig(BlueZVersion(major, minor), channels: channels)
    defer { rig.close() }
    let visitor = try await rig.visit(try await rig.sighted(.sample(takesChannels: takesChannels)))
    #expect(visitor.link?.writeLimit == limit)
  }

  @Test("A write socket ends with its link, and the next link gets a new socket")
  @LoopActor
  func again() async throws {
    let rig = try await rig(BlueZVersion(5, 82), channels: 1)
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    try await write(first: visitor, to: peer)
    visitor.link?.write([1], to: Self.put, as: .stream)
    _ = try await peer.writes.first { $0.value == [1] }
    rig.fake.lose(peer)
    _ = try await visitor.end()
    let next = try await rig.visit(try await rig.sighted(peer))
    peer.writes.empty()
    try await write(first: next, to: peer)
    next.link?.write([2], to: Self.put, as: .stream)
    #expect(try await peer.writes.first { $0.value == [2] }.type == "socket")
  }

  // MARK: Incoming writes
}

@Suite("Reading bluetoothd's configuration file")
struct DaemonConfigurationTests {
  @Test(
    "The settings Channels and Privacy of bluetoothd are read only in their own sections",
    arguments: [
      ("", nil, false), ("[GATT]\nChannels=1", 1, false), ("[GATT]\n# Channels = 5\n  Channels = 3 \n", 3, false),
      ("[General]\nChannels=1\nPrivacy = device", nil, true),
      ("[General]\nPrivacy=off\n[GATT]\nPrivacy=device", nil, false),
      ("[GATT]\nChannels=x\n=\n[\n]", nil, false),
    ] as [(String, Int?, Bool)])
  func read(text: String, channels: Int?, hidesAddress: Bool) {
    let configuration = DaemonConfiguration(text)
    #expect(configuration.channels == channels)
    #expect(configuration.hidesAddress == hidesAddress)
  }
}
