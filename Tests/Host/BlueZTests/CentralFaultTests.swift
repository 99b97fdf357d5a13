import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Failures of outgoing links", .serialized)
struct CentralFaultTests {
  init() { EventLoop.shared.runInBackground() }

  /// Stage of an outgoing link at which the test injects the fault.
  enum Step: CaseIterable, Sendable { case connecting, connected, resolved, subscribing, writing, disconnecting }

  enum Fault: CaseIterable, Sendable { case daemonGone, adapterGone, adapterOff, peerLost, peerForgotten }

  static let all = Step.allCases.flatMap { step in Fault.allCases.map { (step, $0) } }

  @Test(
    "After a failure at any step of an outgoing link, its last event is the end, and the next link works",
    arguments: all)
  @LoopActor
  func lost(step: Step, fault: Fault) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let path = rig.fake.devicePath(peer.address)
    let visitor = Visitor()
    let put = Visitor.id(Visitor.put)
    peer.isDeaf = step == .connecting
    peer.isUnreadable = step == .connected
    try visitor.connect(with: rig.radio, to: peer)
    visitor.link?.discover()
    switch step {
    case .connecting: _ = try await rig.fake.calls.first { $0.hasPrefix("Connect") }
    case .connected: _ = try await visitor.events.next()
    case .resolved: _ = try await visitor.events.first { if case .discovered = $0 { true } else { false } }
    case .subscribing:
      visitor.link?.subscribe(to: Visitor.id(Visitor.hear))
      try await rig.fake.until { !peer.subscriptions.isEmpty }
    case .writing:
      peer.onWrite = { _, _ in }
      visitor.link?.write([1], to: put, as: .request)
      visitor.link?.write([2], to: put, as: .command)
      _ = try await peer.writes.next()
    case .disconnecting:
      _ = try await visitor.events.first { if case .discovered = $0 { true } else { false } }
      visitor.link?.disconnect()
    }
    switch fault {
    case .daemonGone: rig.fake.vanish()
    case .adapterGone: rig.fake.removeAdapter()
    case .adapterOff: rig.fake.power("hci0", false)
    case .peerLost: rig.fake.lose(peer)
    case .peerForgotten: rig.fake.removeDevice(path)
    }
    if fault == .adapterOff || fault == .peerLost, step == .connecting {
      // bluetoothd gives up the attempt by itself.
      peer.giveUpConnecting()
    }
    #expect(try await visitor.end() != "")
    try await rig.settle()
    let ends = visitor.events.all.enumerated().filter { if case .disconnected = $0.element { true } else { false } }
    #expect(ends.map(\.offset) == [visitor.events.all.count - 1])
    // Results that arrive after the end of the link are ignored.
    visitor.link?.write([3], to: put, as: .request)
    visitor.link?.disconnect()
    visitor.drop()

    (peer.isDeaf, peer.isUnreadable) = (false, false)
    peer.onWrite = { $1(nil) }
    switch fault {
    case .daemonGone: try await rig.fake.start()
    case .adapterGone: rig.fake.addAdapter()
    case .adapterOff: rig.fake.power("hci0", true)
    case .peerLost, .peerForgotten: break
    }
    if rig.radio.status.state != .ready { try await rig.reach(.ready) }
    let next = try await rig.visit(try await rig.sighted(peer))
    next.link?.write([1], to: put, as: .request)
    #expect(try await next.events.next() == .written(put, error: nil))
  }

  @Test("An attempt that fails at once is made 3 times, 0.5 s apart, while bluetoothd knows the peer")
  @LoopActor
  func retried() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let failure = DBusError(name: "org.bluez.Error.Failed", message: "le-connection-abort-by-local")
    let connects = { rig.fake.calls.all.filter { $0.hasPrefix("Connect") }.count }
    func answered(_ number: Int) async throws {
      while connects() < number { _ = try await rig.fake.calls.next() }
      try await rig.settle()
    }
    func begin(failing count: Int) async throws -> (Visitor, ObjectPath) {
      let (peer, visitor) = (try await rig.sighted(), Visitor())
      peer.refusals = Array(repeating: failure, count: count)
      try visitor.connect(with: rig.radio, to: peer)
      return (visitor, rig.fake.devicePath(peer.address))
    }
    let (visitor, device) = try await begin(failing: 2)
    for number in 1...2 {
      try await answered(number)
      rig.time.advance(by: .milliseconds(499))
      // Other property changes of the peer have no effect.
      rig.fake.signal(["RSSI": .int16(-50)], of: device)
      try await rig.settle()
      #expect(connects() == number)
      rig.time.advance(by: .milliseconds(1))
    }
    #expect(try await visitor.events.next() == .connected)
    visitor.link?.disconnect()
    _ = try await visitor.end()
    let (unlucky, _) = try await begin(failing: 3)
    for number in 4...5 {
      try await answered(number)
      rig.time.advance(by: .milliseconds(500))
    }
    #expect(try await unlucky.end().contains("le-connection-abort-by-local"))
    #expect(unlucky.events.all.count == 1)
    try await rig.fake.until { rig.fake.devices.isEmpty }
    let (forgotten, gone) = try await begin(failing: 1)
    try await answered(7)
    rig.fake.removeDevice(gone)
    #expect(try await forgotten.end().contains("forgotten"))
    rig.time.advance(by: .seconds(1))
    try await rig.settle()
    #expect(connects() == 7)
    let (impatient, bound) = try await begin(failing: 1)
    // A bonded peer is not removed when the attempt is given up.
    rig.fake.signal(["Paired": .bool(true)], of: bound)
    try await answered(8)
    rig.fake.holdsCuts = true
    impatient.link?.disconnect()
    rig.time.advance(by: .seconds(1))
    try await rig.settle()
    #expect(connects() == 8)
  }

  struct Refusal: Sendable {
    var name: String
    var message: String
    var words: String
  }

  private static let refusals = [
    Refusal(name: "org.bluez.Error.NotReady", message: "Resource Not Ready", words: "switched off"),
    Refusal(name: "org.bluez.Error.InProgress", message: "In Progress", words: "Another program is already connecting"),
    Refusal(name: "org.bluez.Error.Failed", message: "Host is down", words: "failed (Host is down)"),
    Refusal(name: "org.freedesktop.DBus.Error.UnknownObject", message: "", words: "has forgotten"),
    Refusal(name: "org.freedesktop.DBus.Error.AccessDenied", message: "no", words: "policy"),
  ]

  @Test("Each connection error of bluetoothd is translated to a sentence", arguments: refusals)
  @LoopActor
  func words(refusal: Refusal) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.refusals = [DBusError(name: refusal.name, message: refusal.message)]
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    let reason = try await visitor.end()
    #expect(reason.contains(refusal.words), "\(reason)")
  }

  @Test("The driver neither ends another program's connection attempt nor removes that program's peer")
  @LoopActor
  func othersAttempt() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.refusals = [DBusError(name: "org.bluez.Error.InProgress", message: "In Progress")]
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    _ = try await visitor.end()
    try await rig.settle()
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") || $0.hasPrefix("RemoveDevice") })
    let next = try await rig.visit(peer)
    #expect(next.link != nil)
  }

  /// The error that bluetoothd reports if an attribute that is not writable now has the handle.
  private static let otherAttribute = DBusError(name: "org.bluez.Error.NotPermitted", message: "Write not permitted")

  @Test("The error `NotPermitted` for a write does not make the driver treat the peer's services as outdated")
  @LoopActor
  func writeAcquired() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.outdatedAnswer = DBusError(name: "org.bluez.Error.NotPermitted", message: "Write acquired")
    let visitor = try await rig.visit(peer)
    peer.isOutdated = true
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await visitor.events.next() == .written(Visitor.id(Visitor.put), error: .writeNotPermitted))
    #expect(rig.fake.devices.count == 1)
  }

  @Test(
    "A peer whose services bluetoothd has cached and are outdated is removed and discovered again",
    arguments: [
      (true, true, nil), (true, false, nil), (false, true, nil), (false, false, nil), (true, false, otherAttribute),
      (false, true, otherAttribute),
    ])
  @LoopActor
  func outdated(isPeersLink: Bool, subscribes: Bool, answer: DBusError?) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    if let answer { peer.outdatedAnswer = answer }
    if isPeersLink { rig.fake.arrive(peer) }
    let visitor = try await rig.visit(peer)
    peer.isOutdated = true
    func use(_ visitor: Visitor) {
      if subscribes {
        visitor.link?.subscribe(to: Visitor.id(Visitor.hear))
      } else {
        visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
      }
    }
    use(visitor)
    #expect(try await visitor.end().contains("the peer has changed them"))
    try await rig.fake.until { rig.fake.devices.isEmpty }
    try await rig.settle()
    #expect(rig.radio.links.isEmpty)
    let next = try await rig.visit(try await rig.sighted(peer))
    use(next)
    let done: LinkEvent =
      subscribes ? .subscribed(Visitor.id(Visitor.hear)) : .written(Visitor.id(Visitor.put), error: nil)
    #expect(try await next.events.next() == done)
  }

  @Test(
    "A peer whose cached services are always outdated is removed at most once a minute, and never while in use",
    arguments: [true, false])
  @LoopActor
  func outdatedEachTime(usesUs: Bool) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    defer { server.close() }
    let peer = try await rig.sighted()
    let device = rig.fake.devicePath(peer.address)
    func fail() async throws {
      let visitor = try await rig.visit(try await rig.sighted(peer))
      if usesUs { await rig.fake.write([1], to: Service.put, from: device, mtu: nil) }
      peer.isOutdated = true
      visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
      #expect(try await visitor.end().contains("the peer has changed them"))
      try await rig.settle()
    }
    try await fail()
    try await rig.fake.until { rig.fake.devices.isEmpty }
    try await fail()
    #expect(rig.fake.devices[device]?.isConnected == (usesUs ? true : nil), "what nobody uses is cut")
    guard usesUs else { return }
    rig.fake.lose(peer)
    try await rig.settle()
    rig.time.advance(by: .seconds(60))
    try await fail()
    try await rig.fake.until { rig.fake.devices.isEmpty }
  }

  @Test("A paired peer is never removed from bluetoothd")
  @LoopActor
  func outdatedFriend() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    let device = rig.fake.devicePath(peer.address)
    rig.fake.signal(["Paired": .bool(true)], of: device)
    try await rig.settle()
    peer.isOutdated = true
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    #expect(try await visitor.events.next() == .written(Visitor.id(Visitor.put), error: .unlikely))
    #expect(rig.fake.devices.keys.contains(device))
  }

  @Test("Without an adapter an outgoing connection fails with the reason")
  @LoopActor
  func noAdapter() async throws {
    let rig = try await Rig(prepare: { _ in })
    defer { rig.close() }
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    let error = caught(RadioError.self) { try Visitor().connect(with: rig.radio, to: FakePeer()) }
    #expect(error == .notReady("There is no Bluetooth adapter."))
  }

  @Test(
    "A peer whose link ended with the adapter is removed from bluetoothd later, unless it was paired meanwhile",
    arguments: [false, true], [false, true])
  @LoopActor
  func withTheAdapter(isPaired: Bool, isLinkFirst: Bool) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    rig.fake.power("hci0", false, areLinksFirst: isLinkFirst)
    _ = try await visitor.end()
    let path = rig.fake.devicePath(peer.address)
    if isPaired { rig.fake.signal(["Paired": .bool(true)], of: path) }
    try await rig.settle()
    #expect(rig.fake.devices[path] != nil)
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    try await rig.settle()
    #expect((rig.fake.devices[path] != nil) == isPaired)
  }

  @Test("A peer that bluetoothd knew before the service started is not removed when the adapter restarts")
  @LoopActor
  func knownWithTheAdapter() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.addDevice("00:AA:03:00:00:01", isConnected: false)
    }
    defer { rig.close() }
    let visitor = try await rig.visit(try await rig.sighted())
    rig.fake.power("hci0", false, areLinksFirst: false)
    _ = try await visitor.end()
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    try await rig.settle()
    #expect(rig.fake.devices.count == 1)
  }

  @Test("A connection attempt to a peer that never answers ends after 30 s, and the peer is removed from bluetoothd")
  @LoopActor
  func deaf() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isDeaf = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    try await rig.fake.until { peer.isBeingConnected }
    rig.time.advance(by: .milliseconds(29_999))
    try await rig.settle()
    #expect(visitor.events.all.isEmpty)
    rig.time.advance(by: .milliseconds(1))
    #expect(try await visitor.end().contains("was not established within 30 s"))
    try await rig.fake.until { rig.fake.devices.isEmpty }
    #expect(rig.fake.calls.all.suffix(2).map { $0.split(separator: " ").first } == ["Disconnect", "RemoveDevice"])
  }

  @Test("Disconnecting during a connection attempt ends the attempt")
  @LoopActor
  func givenUp() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isDeaf = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    try await rig.fake.until { peer.isBeingConnected }
    visitor.link?.disconnect()
    #expect(try await visitor.end() == "Disconnected.")
    #expect(!peer.isBeingConnected)
    #expect(visitor.events.all.count == 1)
  }

  @Test("An outgoing link whose services are not resolved within 60 s is given up")
  @LoopActor
  func unreadable() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    peer.isUnreadable = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    visitor.link?.discover()
    #expect(try await visitor.events.next() == .connected)
    rig.time.advance(by: .seconds(60))
    #expect(try await visitor.end().contains("were not discovered within 60 s"))
    #expect(visitor.events.all.count == 2)
  }

  @Test("A write or Disconnect call that bluetoothd does not answer ends the link after its timeout")
  @LoopActor
  func silentWrite() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    peer.holdsAnswers = true
    visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    _ = try await peer.writes.next()
    rig.time.advance(by: .seconds(40))
    #expect(try await visitor.end().contains("did not answer a write within 40 s"))
  }

  @Test("If bluetoothd does not list the objects of a connected peer, the link ends")
  @LoopActor
  func silentDaemon() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    rig.fake.isSilent = true
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    visitor.link?.discover()
    #expect(try await visitor.end().contains("did not return the services of 00:AA:03:00:00:01"))
  }

  @Test(
    "A write or subscription on a removed D-Bus object ends the link",
    arguments: [true, false])
  @LoopActor
  func takenAway(isWrite: Bool) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    rig.fake.takeAway((isWrite ? Visitor.put : Visitor.hear).description, of: peer)
    if isWrite {
      visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request)
    } else {
      visitor.link?.subscribe(to: Visitor.id(Visitor.hear))
    }
    #expect(try await visitor.end().contains("no longer has the services of 00:AA:03:00:00:01"))
    try await rig.fake.until { rig.fake.devices.isEmpty }
  }

  @Test("A link ends 1 s after the object of a subscribed characteristic was removed, not after other removals")
  @LoopActor
  func listenedToTakenAway() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    visitor.link?.subscribe(to: Visitor.id(Visitor.hear))
    try await rig.fake.until { !peer.subscriptions.isEmpty }
    rig.fake.takeAway(Visitor.put.description, of: peer)
    try await rig.settle()
    rig.time.advance(by: .seconds(30))
    try await rig.settle()
    let isEnd: (LinkEvent) -> Bool = { if case .disconnected = $0 { true } else { false } }
    #expect(!visitor.events.all.contains(where: isEnd))
    rig.fake.takeAway(Visitor.hear.description, of: peer)
    try await rig.settle()
    rig.time.advance(by: .milliseconds(999))
    try await rig.settle()
    #expect(!visitor.events.all.contains(where: isEnd))
    rig.time.advance(by: .milliseconds(1))
    #expect(try await visitor.end().contains("no longer has"))
  }

  @Test("A service that queues 2,000 unconfirmed writes loses its link")
  @LoopActor
  func flooded() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let peer = try await rig.sighted()
    let visitor = try await rig.visit(peer)
    for _ in 0..<2000 { visitor.link?.write([1], to: Visitor.id(Visitor.put), as: .request) }
    #expect(try await visitor.end().contains("operations wait"))
  }
}
