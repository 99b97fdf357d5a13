import Air
import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Advertising through the management socket")
struct ManagementTests {
  init() { EventLoop.shared.runInBackground() }

  static let data: [UInt8] = [2, 1, 2, 3, 3, 0x29, 0xAB, 23, 0x16, 0x29, 0xAB] + (0..<20)
  static let scanResponse: [UInt8] = [30, 0x16, 0x2A, 0xAB] + (0..<27)

  @Test("Advertising data and scan response are sent unchanged, at their interval, in the highest instance")
  @LoopActor
  func exact() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    #expect(
      rig.kernel.onAir() == [
        3: FakeKernel.Instance(
          flags: [.connectable, .intervals, .scanResponse], interval: 160, data: Self.data,
          scanResponse: Self.scanResponse, isOnAir: true)
      ])
    try await rig.settle()
    #expect(rig.fake.advertisements.isEmpty)
    #expect(rig.radio.status.state == .ready)
    registration.cancel()
    try await rig.kernel.until { rig.kernel.instances[0]?.isEmpty != false }
  }

  @Test("Two advertisements use the two highest instance numbers, and a free number is used again")
  @LoopActor
  func two() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let first = try rig.radio.advertise(.sample)
    let second = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2, 3] }
    first.cancel()
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2] }
    let third = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2, 3] }
    second.cancel()
    third.cancel()
    try await rig.kernel.until { rig.kernel.onAir().isEmpty }
  }

  @Test("An application's registration is reported, and advertisements through the kernel do not wait for it")
  @LoopActor
  func servedIsTold() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let delegate = Service()
    rig.fake.holdsAnswers = true
    let server = rig.radio.serve(Service.application, delegate: delegate)
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.fake.until { rig.fake.held.count == 1 }
    #expect(!rig.driver.isServed(server.number))
    rig.fake.releaseAnswers()
    _ = try await rig.radio.told.first { $0 == .served(server.number, true) }
    #expect(rig.driver.isServed(server.number))
    rig.fake.power("hci0", false)
    _ = try await rig.radio.told.first { $0 == .served(server.number, false) }
    #expect(!rig.driver.isServed(server.number))
    try await rig.kernel.until { rig.kernel.onAir().isEmpty }
    rig.fake.power("hci0", true)
    _ = try await rig.radio.told.first { $0 == .served(server.number, true) }
    // The driver does not report the end of this link, because the server was closed.
    server.close()
    try await rig.settle()
    #expect(rig.radio.told.all.count { if case .served = $0 { true } else { false } } == 3)
    registration.cancel()
  }

  @Test("New advertising data replaces the old data in one command, without a gap or a new address")
  @LoopActor
  func exchanged() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    let (commands, made) = (rig.kernel.commands.all.count, rig.kernel.made[3])
    var other = Advertisement.sample
    for byte in 1...3 as ClosedRange<UInt8> {
      other.data.structures[2] = .serviceData(BluetoothUUID(short: 0xAB29), [byte])
      rig.driver.advertise(other, in: 0)
    }
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data.last == 3 }
    try await rig.settle()
    // Requests that arrived during the first exchange cause one more exchange.
    #expect(rig.kernel.commands.all.dropFirst(commands) == ["0x55 0", "0x55 0"])
    #expect(rig.kernel.made[3] == made)
    // The controller ends the instance, so setting its data is not enough.
    rig.kernel.silence()
    rig.fake.addDevice()
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    #expect(rig.kernel.made[3] == (made ?? 0) + 1)
    registration.cancel()
  }

  @Test(
    "A changed scan response is set before the changed advertising data"
  )
  @LoopActor
  func responseFirst() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    func advertisement(_ byte: UInt8) -> Advertisement {
      var made = Advertisement.sample
      made.data.structures[2] = .serviceData(BluetoothUUID(short: 0xAB29), [byte])
      made.kind = .connectable(
        scanResponse: AdvertisingData([.serviceData(BluetoothUUID(short: 0xAB2A), [byte])]))
      return made
    }
    let registration = try rig.radio.advertise(advertisement(1))
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    var seen: [[UInt8?]] = []
    rig.kernel.onData = { seen.append([$0.data.last, $0.scanResponse.last]) }
    for byte in [2, 3] as [UInt8] {
      rig.driver.advertise(advertisement(byte), in: 0)
      try await rig.kernel.until { rig.kernel.onAir()[3]?.data.last == byte }
    }
    #expect(seen == [[1, 2], [2, 2], [2, 3], [3, 3]])
    #expect(rig.kernel.made[3] == 1)
    registration.cancel()
  }

  @Test(
    "A change of interval, of connectability or in the presence of a scan response makes a new instance",
    arguments: 0..<3)
  @LoopActor
  func otherParameters(change: Int) async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    let made = rig.kernel.made[3] ?? 0
    var other = Advertisement.sample
    switch change {
    case 0: other.interval = .milliseconds(200)
    case 1: other.kind = .nonConnectable(AdvertisingSetID(1))
    default: other.kind = .connectable(scanResponse: AdvertisingData())
    }
    rig.driver.advertise(other, in: 0)
    try await rig.kernel.until { rig.kernel.made[3] == made + 1 && !rig.kernel.onAir().isEmpty }
    let instance = try #require(rig.kernel.onAir()[3])
    #expect(instance.flags.contains(.connectable) == (change != 1))
    #expect(instance.scanResponse.isEmpty == (change != 0))
    #expect(instance.interval == (change == 0 ? 320 : 160))
    registration.cancel()
  }

  @Test("If the kernel refuses new advertising data, the instance is made anew at once")
  @LoopActor
  func refusedExchange() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    rig.kernel.refusals = [.invalidParameters]
    var other = Advertisement.sample
    other.data.structures[2] = .serviceData(BluetoothUUID(short: 0xAB29), [9])
    rig.driver.advertise(other, in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data.last == 9 }
    #expect(rig.radio.status.state == .ready)
    registration.cancel()
  }

  @Test("An instance number that bluetoothd takes is given up for a free one")
  @LoopActor
  func taken() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registrations = [try rig.radio.advertise(.sample), try rig.radio.advertise(.sample)]
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2, 3] }
    registrations[0].cancel()
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2] }
    try await rig.settle()
    // bluetoothd now owns instances 1 and 2, which are not changed any more.
    rig.kernel.take(2)
    rig.fake.setActiveInstances(2)
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2, 3] }
    #expect(rig.kernel.onAir()[3]?.data == Self.data)
    #expect(rig.kernel.onAir()[2]?.data == FakeKernel.foreignData)
    _ = try await rig.radio.told.first { $0 == .slots(1) }
    registrations[1].cancel()
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [2] }
  }

  @Test("An instance number that another program takes is given up, and used again when it is free")
  @LoopActor
  func addedByAnother() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    _ = try await rig.radio.told.first { $0 == .slots(3) }
    rig.kernel.take(3)
    rig.kernel.tell(.advertisingAdded(instance: 3))
    try await rig.kernel.until { rig.kernel.onAir()[2]?.data == Self.data }
    #expect(rig.kernel.onAir()[3]?.data == FakeKernel.foreignData)
    _ = try await rig.radio.told.first { $0 == .slots(2) }
    rig.kernel.tell(.advertisingRemoved(instance: 3))
    _ = try await rig.radio.told.first { $0 == .slots(3) }
    registration.cancel()
  }

  @Test("A controller with one advertising set has one slot")
  @LoopActor
  func oneSet() async throws {
    let kernel = FakeKernel()
    kernel.features.flags = [.connectable, .intervals, .scanResponse]
    kernel.features.instanceLimit = 5
    let time = VirtualTime()
    let doors = KernelChannels(management: .open(ManagementSocket(kernel.socket, scheduler: time)))
    let rig = try await Rig(doors: doors, kernel: kernel, time: time)
    defer { rig.close() }
    try await rig.reach(.ready)
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.onAir().keys.sorted() == [5] }
    try await rig.settle()
    #expect(rig.driver.advertisingSlots == 1)
    registration.cancel()
  }

  @Test("A kernel that cannot set intervals gets the advertisement in one older command")
  @LoopActor
  func oldKernel() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.features.flags = [.connectable]
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    let instance = try #require(rig.kernel.onAir()[3])
    #expect(instance.interval == nil && instance.flags == .connectable)
    #expect(instance.data == Self.data && instance.scanResponse == Self.scanResponse)
    registration.cancel()
  }

  @Test("When a peer connects or disconnects, the advertising instance is enabled again")
  @LoopActor
  func afterConnecting() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    rig.kernel.silence()
    let device = rig.fake.addDevice()
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    rig.kernel.silence()
    rig.fake.setConnected(device, false)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    #expect(rig.kernel.instances[0]?.count == 1)
    registration.cancel()
  }

  @Test("An instance that ended by a connection before its data was set is added again")
  @LoopActor
  func connectingMeanwhile() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.heldOpcode = AddExtendedAdvertisingData.opcode
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.commands.all.contains("0x55 0") }
    rig.fake.addDevice()
    try await rig.settle()
    rig.kernel.release()
    try await rig.kernel.until { rig.kernel.made[3] == 2 && !rig.kernel.onAir().isEmpty }
    registration.cancel()
  }

  @Test("An advertising instance that a starting bluetoothd removed is added again")
  @LoopActor
  func restart() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    try await rig.settle()
    rig.fake.vanish()
    try await rig.reach(.waiting)
    // Without bluetoothd no client could be served.
    try await rig.kernel.until { rig.kernel.onAir().isEmpty }
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    // The test removes the instances now, as bluetoothd may do during its start.
    rig.kernel.clear()
    try await rig.settle()
    rig.time.advance(by: .milliseconds(500))
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    registration.cancel()
  }

  @Test("A kernel command without an answer is reported and repeated once")
  @LoopActor
  func unanswered() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    // The controller's features and capacity are read first.
    _ = try await rig.radio.told.first { $0 == .slots(3) }
    #expect(rig.kernel.commands.all == ["0x4 0", "0x3d 0"])
    rig.kernel.isSilent = true
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.commands.all.count == 3 }
    rig.kernel.isSilent = false
    rig.time.advance(by: .seconds(10))
    try await rig.reach(.degraded, "no answer within 10 s")
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    #expect(rig.kernel.onAir().count == 1)
    registration.cancel()
  }

  @Test("After power-off or removal of the adapter, the advertising instance is added again")
  @LoopActor
  func adapterReturns() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    rig.fake.power("hci0", false)
    rig.kernel.silence()
    try await rig.reach(.waiting, "switched off")
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    rig.fake.removeAdapter()
    rig.kernel.clear()
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    rig.fake.addAdapter("hci1")
    try await rig.kernel.until { !rig.kernel.onAir(1).isEmpty }
    #expect(rig.kernel.onAir(0).isEmpty)
    registration.cancel()
  }

  @Test("Instance numbers that bluetoothd may need are not used, and the lack of free ones is reported")
  @LoopActor
  func noRoom() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.fake.setActiveInstances(2)
    try await rig.settle()
    let first = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    let second = try rig.radio.advertise(.sample)
    try await rig.reach(.degraded, "no capacity for another advertisement")
    #expect(rig.kernel.onAir().keys.sorted() == [3])
    rig.fake.setActiveInstances(1)
    try await rig.settle()
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    #expect(rig.kernel.onAir().keys.sorted() == [2, 3])
    first.cancel()
    second.cancel()
  }

  @Test("A controller without free advertising sets is reported, and the command is repeated later")
  @LoopActor
  func noSetLeft() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.refusals = [.noResources]
    let registration = try rig.radio.advertise(.sample)
    try await rig.reach(.degraded, "no capacity for another advertisement")
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    #expect(rig.kernel.onAir().count == 1)
    registration.cancel()
  }

  @Test("A kernel error is quoted in the status and the command repeated; a busy kernel is not reported")
  @LoopActor
  func refusals() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.refusals = [.busy, .rejected, .rejected]
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { rig.kernel.refusals.count == 2 }
    try await rig.settle()
    #expect(rig.radio.status.state == .ready)
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.degraded, "The kernel refuses to advertise on hci0 (Rejected)")
    rig.time.advance(by: .seconds(1))
    try await rig.kernel.until { rig.kernel.refusals.isEmpty }
    try await rig.settle()
    rig.time.advance(by: .seconds(2))
    try await rig.reach(.ready)
    #expect(rig.kernel.onAir().count == 1)
    #expect(rig.entries.all.compactMap(\.id?.name) == ["RadioReady"])
    registration.cancel()
  }

  @Test("A broken management socket is reported with advice")
  @LoopActor
  func brokenSocket() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let registration = try rig.radio.advertise(.sample)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    rig.kernel.close()
    rig.fake.addDevice()
    try await rig.reach(.degraded, "systemctl restart earshotd")
    registration.cancel()
  }

  @Test("Without the management socket an old bluetoothd makes the radio degraded, and the reason has all remedies")
  @LoopActor
  func shut() async throws {
    let rig = try await Rig(
      version: BlueZVersion(5, 66), doors: KernelChannels(management: .shut("CAP_NET_ADMIN is missing")))
    defer { rig.close() }
    try await rig.reach(.ready)
    let registration = try await rig.advertise()
    let reason = rig.radio.status.reason
    #expect(rig.radio.status.state == .degraded)
    for word in ["5.66", "CAP_NET_ADMIN is missing", "AmbientCapabilities=", "setcap", "BlueZ 5.80"] {
      #expect(reason.contains(word), "\(word)")
    }
    registration.cancel()
  }

  @Test("A local name stays at its given position among the AD structures")
  @LoopActor
  func name() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    var advertisement = Advertisement.sample
    advertisement.data.structures = [.manufacturerData(0xFFFF, [7]), .shortenedName("a"), .flags(2)]
    let registration = try rig.radio.advertise(advertisement)
    try await rig.kernel.until { !rig.kernel.onAir().isEmpty }
    #expect(rig.kernel.onAir()[3]?.data == [4, 0xFF, 0xFF, 0xFF, 7, 2, 8, 0x61, 2, 1, 2])
    registration.cancel()
  }
}
