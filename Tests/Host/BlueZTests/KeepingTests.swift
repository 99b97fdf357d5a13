import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Registrations at bluetoothd after restarts and outages")
struct KeepingTests {
  init() { EventLoop.shared.runInBackground() }

  static let failed = DBusError(name: "org.bluez.Error.Failed", message: "Failed to register")

  @Test("Registrations made before bluetoothd runs are sent to bluetoothd when it starts")
  @LoopActor
  func early() async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    let server = rig.radio.serve(Service.application, delegate: Service())
    let advertisement = try rig.radio.advertise(.sample)
    rig.fake.addAdapter()
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    #expect(rig.fake.applications.count == 1)
    advertisement.cancel()
    server.close()
  }

  @Test("After a restart of bluetoothd everything is registered again, and each link was closed once")
  @LoopActor
  func restart() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let advertisement = try await rig.advertise()
    let device = rig.fake.addDevice()
    let link = try await service.link()
    try await rig.fake.subscribe(Service.hear)
    rig.fake.vanish()
    try await rig.reach(.waiting, "systemctl start bluetooth")
    #expect(service.events.all.filter { $0 == .closed(link) }.count == 1)
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.fake.until {
      rig.fake.advertisements.first?.isOnAir == true && rig.fake.applications.first?[Service.put]?.handle != 0
    }
    // After the restart neither the subscription nor the link exists.
    let next = rig.fake.addDevice("00:AA:02:00:00:01")
    #expect(next == device)
    let second = try await service.link()
    #expect(second != link)
    server.notify([1], of: Service.id(0xFE03), to: second)
    #expect(rig.radio.counters.droppedNotifications == 1)
    #expect(await rig.fake.write([1], to: Service.put, from: next) == nil)
    #expect(service.events.all.filter { $0 == .closed(link) }.count == 1)
    advertisement.cancel()
    server.close()
  }

  @Test("After a restart of the bus everything is registered with bluetoothd again")
  @LoopActor
  func busRestart() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    rig.fake.addDevice()
    let link = try await service.link()
    rig.fake.vanish()
    rig.bus.kill()
    try await rig.reach(.waiting, "bus")
    #expect(service.events.all.last == .closed(link))
    try rig.bus.start()
    try await rig.fake.start()
    rig.time.advance(by: .seconds(5))
    try await rig.reach(.ready)
    try await rig.fake.until { rig.fake.applications.first?[Service.put] != nil }
    server.close()
  }

  @Test("After an adapter was removed and inserted, everything is registered again")
  @LoopActor
  func adapterReplaced() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let advertisement = try await rig.advertise()
    rig.fake.addDevice()
    let link = try await service.link()
    rig.fake.removeAdapter()
    try await rig.reach(.waiting)
    #expect(service.events.all.last == .closed(link))
    rig.fake.addAdapter()
    try await rig.reach(.ready)
    try await rig.fake.until {
      rig.fake.advertisements.first?.isOnAir == true && rig.fake.applications.first?[Service.put] != nil
    }
    advertisement.cancel()
    server.close()
  }

  @Test("After an adapter was powered off and on, everything is registered again")
  @LoopActor
  func powerCycle() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let server = try await rig.serve(Service())
    let advertisement = try await rig.advertise()
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
    #expect(rig.fake.advertisements.first?.isOnAir == false)
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    try await rig.fake.until {
      rig.fake.advertisements.first?.isOnAir == true && rig.fake.applications.first?[Service.put] != nil
    }
    #expect(rig.fake.advertisements.count == 1)
    #expect(rig.fake.applications.count == 1)
    advertisement.cancel()
    server.close()
  }

  @Test("A registration that bluetoothd refuses is reported in its words and repeated after 0.5, 1, 2, … 30 s")
  @LoopActor
  func refusals() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let waits = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    rig.fake.refusals = Array(repeating: Self.failed, count: waits.count)
    let server = rig.radio.serve(Service.application, delegate: Service())
    let status = try await rig.reach(.degraded, "Failed: Failed to register")
    #expect(status.reason.contains("refuses to serve GATT on hci0"))
    for (index, wait) in waits.enumerated() {
      try await rig.settle()
      #expect(rig.fake.calls.all.count == index + 1)
      rig.time.advance(by: .milliseconds(wait - 1))
      try await rig.settle()
      #expect(rig.fake.calls.all.count == index + 1)
      rig.time.advance(by: .milliseconds(1))
      try await rig.fake.until { rig.fake.refusals.count < waits.count - index - 1 || rig.fake.refusals.isEmpty }
    }
    try await rig.reach(.ready)
    // A repeated reason causes no status report.
    #expect(rig.statuses.all.filter { $0.state == .degraded }.count == 1)
    server.close()
  }

  @Test("Each radio status that lasts 10 s gets one journal line with its message ID")
  @LoopActor
  func journal() async throws {
    let rig = try await Rig(adapter: "hci1", prepare: nil)
    defer { rig.close() }
    /// Advances the time by 10 s, after which a fault gets a journal line.
    func last() async throws {
      let count = rig.entries.all.count
      rig.time.advance(by: .milliseconds(9999))
      #expect(rig.entries.all.count == count)
      rig.time.advance(by: .milliseconds(1))
      #expect(rig.entries.all.count == count + 1)
      try await rig.settle()
    }
    try await rig.reach(.waiting, "systemctl start bluetooth")
    try await last()
    rig.fake.addAdapter("hci0")
    try await rig.fake.start()
    try await rig.reach(.waiting, "adapter hci1 does not exist")
    try await last()
    rig.fake.addAdapter("hci1", isPowered: false)
    try await rig.reach(.waiting, "switched off")
    try await last()
    rig.fake.power("hci1", true)
    try await rig.reach(.ready)
    rig.fake.refusals = Array(repeating: Self.failed, count: 5)
    let server = rig.radio.serve(Service.application, delegate: Service())
    try await rig.reach(.degraded)
    try await last()
    for _ in 0..<60 {
      rig.time.advance(by: .milliseconds(500))
      try await rig.settle()
    }
    try await rig.reach(.ready)
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await last()
    try await rig.fake.start()
    try await rig.reach(.ready)
    #expect(
      rig.entries.all.map { $0.id?.name } == [
        "RadioWaiting", "AdapterMissing", "RadioWaiting", "RadioReady", "RadioDegraded", "RadioReady", "RadioLost",
        "RadioReady",
      ])
    // A connection to the bus that Earshot closes itself is not logged.
    rig.connection.close()
    #expect(rig.entries.all.count == 8)
    server.close()
  }

  @Test(
    "A restart of bluetoothd gets one journal line with cause and duration, however often the status changes")
  @LoopActor
  func restartEntry() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    for round in 1...3 {
      rig.fake.vanish()
      try await rig.reach(.waiting, "systemctl start bluetooth")
      rig.time.advance(by: .milliseconds(1250))
      rig.fake.removeAdapter()
      try await rig.fake.start()
      try await rig.reach(.waiting, "There is no Bluetooth adapter")
      rig.fake.addAdapter(isPowered: false)
      try await rig.reach(.waiting, "switched off")
      rig.time.advance(by: .seconds(round))
      rig.fake.power("hci0", true)
      try await rig.reach(.ready)
      #expect(rig.entries.all.count == 1 + round)
      let words = "The radio was unavailable for \(round + 1).2 s (bluetoothd was restarted) and is ready again"
      #expect(rig.entries.all.last?.text == words && rig.entries.all.last?.id?.name == "RadioReady")
      rig.time.advance(by: .seconds(60))
    }
    #expect(rig.entries.all.count == 4)
  }

  @Test("A refused registration that succeeds within 10 s gets no journal line")
  @LoopActor
  func momentaryRefusal() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [Self.failed]
    let server = rig.radio.serve(Service.application, delegate: Service())
    try await rig.reach(.degraded)
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    rig.time.advance(by: .seconds(60))
    #expect(rig.entries.all.map { $0.id?.name } == ["RadioReady"])
    server.close()
  }

  @Test("A restart of bluetoothd on a degraded radio gets one journal line, which does not repeat the limits")
  @LoopActor
  func restartInPart() async throws {
    let rig = try await Rig(doors: KernelChannels(raw: .shut("CAP_NET_RAW is missing")))
    defer { rig.close() }
    try await rig.reach(.ready)
    let server = try await rig.serve(Service(), Service.application(reach: .exact))
    try await rig.reach(.degraded, "CAP_NET_RAW is missing")
    rig.time.advance(by: .seconds(10))
    #expect(rig.entries.all.map { $0.id?.name } == ["RadioReady", "RadioDegraded"])
    rig.fake.vanish()
    try await rig.reach(.waiting)
    rig.time.advance(by: .seconds(2))
    try await rig.fake.start()
    try await rig.reach(.degraded, "CAP_NET_RAW is missing")
    rig.time.advance(by: .seconds(60))
    try await rig.settle()
    #expect(rig.entries.all.count == 3)
    #expect(rig.entries.all.last?.text.hasSuffix("is available again, with the same limitations as before") == true)
    server.close()
  }

  @Test("The error `AlreadyExists` makes the driver unregister and register again, without a report")
  @LoopActor
  func alreadyExists() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [DBusError(name: "org.bluez.Error.AlreadyExists", message: "Already Exists")]
    let server = try await rig.serve(Service())
    #expect(
      rig.fake.calls.all.map { $0.split(separator: " ").first } == [
        "RegisterApplication", "UnregisterApplication", "RegisterApplication",
      ])
    #expect(rig.statuses.all.allSatisfy { $0.state != .degraded })
    server.close()
  }

  @Test("A registration that bluetoothd does not answer is reported after 10 s and repeated")
  @LoopActor
  func slow() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.holdsAnswers = true
    let server = rig.radio.serve(Service.application, delegate: Service())
    try await rig.fake.until { rig.fake.applications.first?[Service.put] != nil }
    rig.time.advance(by: .milliseconds(9999))
    try await rig.settle()
    #expect(rig.radio.status.state == .ready)
    rig.time.advance(by: .milliseconds(1))
    try await rig.reach(.degraded, "did not answer RegisterApplication within 10 s")
    rig.fake.releaseAnswers()
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    #expect(rig.fake.applications.count == 1)
    server.close()
  }

  @Test("A server that is closed while it is being registered is unregistered")
  @LoopActor
  func closedMeanwhile() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.holdsAnswers = true
    let server = rig.radio.serve(Service.application, delegate: Service())
    try await rig.fake.until { rig.fake.applications.first?[Service.put] != nil }
    server.close()
    try await rig.fake.until { rig.fake.applications.isEmpty }
    rig.fake.releaseAnswers()
    try await rig.settle()
    #expect(rig.fake.applications.isEmpty)
    #expect(rig.radio.status.state == .ready)
  }
}
