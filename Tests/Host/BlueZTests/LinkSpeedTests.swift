import Air
import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Connection parameters for fast links")
struct LinkSpeedTests {
  init() { EventLoop.shared.runInBackground() }

  static let preferences = LinkPreferences(
    intervals: .microseconds(11_250) ... .milliseconds(15), selects2M: true)
  static let fast: [Int?] = [9, 12, 0, 42]
  static let slow: [Int?] = [24, 40, 0, 42]

  static var application: GATTApplication {
    var application = Service.application
    application.wantsFastLinks = true
    return application
  }

  @LoopActor
  private static func rig(_ preferences: LinkPreferences = preferences) async throws -> (Rig, Service) {
    (try await Rig.managed(links: preferences), Service())
  }

  @LoopActor
  private static func isFast(_ rig: Rig, _ index: UInt16 = 0) -> Bool {
    rig.kernel.linkSettings[index].links == fast && rig.kernel.linkSettings[index].selected == 0x1FFF
  }

  @LoopActor
  private static func isSlow(_ rig: Rig, _ index: UInt16 = 0) -> Bool {
    rig.kernel.linkSettings[index].links == slow && rig.kernel.linkSettings[index].selected == 0x07FF
  }

  @Test("Connection parameters are set with the first application that needs them, and restored after the last")
  @LoopActor
  func wholeLife() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let other = rig.radio.serve(Service.application, delegate: service)
    try await rig.settle()
    // No service requests it yet.
    #expect(rig.kernel.linkSettings.written.isEmpty)
    let first = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    #expect(rig.kernel.linkSettings.written == ["0: 17=9 18=12", "0: phy 1fff"])
    let second = rig.radio.serve(Self.application, delegate: service)
    first.close()
    other.close()
    try await rig.settle()
    #expect(Self.isFast(rig))
    second.close()
    try await rig.kernel.until { Self.isSlow(rig) }
    #expect(rig.kernel.linkSettings.written.count == 4)
    #expect(rig.radio.status.state == .ready && rig.radio.status.limits.isEmpty)
  }

  @Test("Connection parameters that are left to the kernel are not changed")
  @LoopActor
  func leftAlone() async throws {
    let cases: [(LinkPreferences, [String])] = [
      (.kernel, []),
      (LinkPreferences(intervals: nil, selects2M: true), ["0: phy 1fff"]),
      (
        LinkPreferences(intervals: .milliseconds(15) ... .milliseconds(15), selects2M: false), ["0: 17=12 18=12"]
      ),
    ]
    for (preferences, written) in cases {
      let (rig, service) = try await Self.rig(preferences)
      defer { rig.close() }
      let server = rig.radio.serve(Self.application, delegate: service)
      try await rig.kernel.until { rig.kernel.linkSettings.written == written }
      try await rig.settle()
      #expect(rig.kernel.linkSettings.written == written)
      server.close()
    }
  }

  @Test("A reload of the configuration applies changed connection parameters at once")
  @LoopActor
  func reload() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    rig.driver.prefer(LinkPreferences(intervals: .milliseconds(15) ... .milliseconds(15), selects2M: true))
    try await rig.kernel.until { rig.kernel.linkSettings[0].links == [12, 12, 0, 42] }
    rig.driver.prefer(.kernel)
    try await rig.kernel.until { Self.isSlow(rig) }
    rig.driver.prefer(Self.preferences)
    try await rig.kernel.until { Self.isFast(rig) }
    server.close()
    try await rig.kernel.until { Self.isSlow(rig) }
  }

  @Test("Connection parameters that a restarted bluetoothd sets are replaced, and restored at the end")
  @LoopActor
  func bluetoothdRestarts() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    rig.fake.vanish()
    try await rig.reach(.waiting)
    rig.kernel.linkSettings[0].parameters[0x17] = [32, 0]
    rig.kernel.linkSettings[0].parameters[0x18] = [64, 0]
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.kernel.until { Self.isFast(rig) }
    server.close()
    try await rig.kernel.until { rig.kernel.linkSettings[0].links == [32, 64, 0, 42] }
  }

  @Test("After power-off LE 2M is selected again, and deselected at the end")
  @LoopActor
  func powerCycle() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
    rig.kernel.linkSettings.powerCycle(0)
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    try await rig.kernel.until { Self.isFast(rig) }
    server.close()
    try await rig.kernel.until { Self.isSlow(rig) }
  }

  @Test("Connection parameters are also set on a replaced adapter, and on another one that bluetoothd prefers")
  @LoopActor
  func replaced() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    rig.fake.removeAdapter()
    rig.kernel.linkSettings.remove(0)
    rig.kernel.tell(.indexRemoved)
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    rig.kernel.linkSettings.fresh.parameters[0x17] = [16, 0]
    rig.kernel.linkSettings.putBack(0)
    rig.fake.addAdapter()
    try await rig.reach(.ready)
    try await rig.kernel.until { Self.isFast(rig) }
    // The first adapter stays plugged in, and bluetoothd prefers another one.
    rig.fake.power("hci0", false)
    rig.fake.addAdapter("hci1")
    try await rig.kernel.until { Self.isFast(rig, 1) && rig.kernel.linkSettings[0].links == [16, 40, 0, 42] }
    server.close()
    try await rig.kernel.until { rig.kernel.linkSettings[1].links == [16, 40, 0, 42] }
  }

  @Test("The connection parameters of a removed adapter are not restored")
  @LoopActor
  func takenOut() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { Self.isFast(rig) }
    try await rig.settle()
    rig.kernel.linkSettings.remove(0)
    rig.kernel.tell(.indexRemoved)
    rig.fake.removeAdapter()
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    try await rig.settle()
    let commands = rig.kernel.commands.all.count
    server.close()
    try await rig.settle()
    #expect(rig.kernel.commands.all.count == commands)
  }

  @Test("At exit the connection parameters are restored within a time limit")
  @LoopActor
  func rest() async throws {
    for isSilent in [false, true] {
      let (rig, service) = try await Self.rig()
      defer { rig.close() }
      let ended = Mailbox<Bool>()
      let server = rig.radio.serve(Self.application, delegate: service)
      try await rig.kernel.until { Self.isFast(rig) }
      try await rig.settle()
      rig.kernel.isSilent = isSilent
      rig.driver.rest(within: .seconds(2)) { ended.put(Self.isSlow(rig)) }
      if isSilent {
        rig.time.advance(by: .milliseconds(1999))
        #expect(ended.all.isEmpty)
        rig.time.advance(by: .milliseconds(1))
      }
      let wasGivenBack = try await ended.next()
      #expect(wasGivenBack == !isSilent)
      try await rig.settle()
      #expect(ended.all.count == 1)
      server.close()
    }
  }

  @Test("If connection parameters were not changed, the exit is not delayed")
  @LoopActor
  func nothingToGiveBack() async throws {
    let (rig, _) = try await Self.rig()
    defer { rig.close() }
    let ended = Mailbox<Bool>()
    rig.driver.rest(within: .seconds(2)) { ended.put(true) }
    #expect(ended.all == [true])
  }

  @Test(
    "If the kernel refuses connection parameters, the radio stays ready, with one journal line and one status limit",
    arguments: [
      (ManagementStatus.unknownCommand, "Unknown Command"), (.permissionDenied, "Permission Denied"),
      (.invalidParameters, "Invalid Parameters"),
    ])
  @LoopActor
  func refused(status: ManagementStatus, words: String) async throws {
    let cases: [(UInt16, String)] = [
      (ReadDefaultSystemConfiguration.opcode, "LinkInterval=kernel"),
      (SetDefaultSystemConfiguration.opcode, "LinkInterval=kernel"),
      (GetPHYConfiguration.opcode, "Link2M=no"), (SetPHYConfiguration.opcode, "Link2M=no"),
    ]
    for (opcode, remedy) in cases {
      let (rig, service) = try await Self.rig()
      defer { rig.close() }
      rig.kernel.refusalsByOpcode[opcode] = [status, status]
      let server = rig.radio.serve(Self.application, delegate: service)
      let told = try await rig.statuses.first { !$0.limits.isEmpty }
      #expect(told.state == .ready)
      #expect(told.limits.count == 1 && told.limits[0].contains(words) && told.limits[0].contains(remedy))
      // The line is written to the journal once, however often adapters change.
      rig.fake.power("hci0", false)
      try await rig.reach(.waiting)
      rig.fake.power("hci0", true)
      _ = try await rig.statuses.first { $0.state == .ready && !$0.limits.isEmpty }
      #expect(rig.kernel.refusalsByOpcode[opcode] == [])
      // The setting that the kernel accepts was written, and no command is pending.
      let other = remedy == "Link2M=no" ? "0x4b 0" : "0x44 0"
      try await rig.kernel.until { rig.kernel.commands.all.count { $0 == other } == 2 }
      try await rig.settle()
      let commands = rig.kernel.commands.all.count
      rig.time.advance(by: .seconds(3600))
      try await rig.settle()
      #expect(rig.kernel.commands.all.count == commands)
      let lines = rig.entries.all.filter { $0.id?.name == "LinksSlow" }
      #expect(lines.count == 1 && lines[0].text.contains(remedy) && lines[0].text.utf8.count <= 200)
      server.close()
      _ = try await rig.statuses.first { $0.limits.isEmpty }
    }
  }

  @Test("If the controller is busy, the PHY setting is sent again after 0.5 s")
  @LoopActor
  func busy() async throws {
    let (rig, service) = try await Self.rig()
    defer { rig.close() }
    rig.kernel.refusalsByOpcode[SetPHYConfiguration.opcode] = [.busy]
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { rig.kernel.refusalsByOpcode[SetPHYConfiguration.opcode] == [] }
    try await rig.settle()
    #expect(rig.kernel.linkSettings[0].selected == 0x07FF)
    rig.time.advance(by: .milliseconds(500))
    try await rig.kernel.until { Self.isFast(rig) }
    #expect(rig.radio.status.limits.isEmpty)
    server.close()
  }

  @Test("A kernel that never confirms a setting is asked 4 times, and the setting is then restored")
  @LoopActor
  func neverAnswered() async throws {
    let (rig, service) = try await Self.rig(
      LinkPreferences(intervals: .microseconds(11_250) ... .milliseconds(15), selects2M: false))
    defer { rig.close() }
    let opcode = SetDefaultSystemConfiguration.opcode
    rig.kernel.silentOpcodes = [opcode]
    let server = rig.radio.serve(Self.application, delegate: service)
    try await rig.kernel.until { rig.kernel.linkSettings[0].links == Self.fast }
    rig.kernel.silentOpcodes = []
    rig.time.advance(by: .seconds(10))
    rig.time.advance(by: .milliseconds(500))
    // The settings are read again, and found as requested.
    try await rig.settle()
    #expect(rig.radio.status.limits.isEmpty)
    server.close()
    try await rig.kernel.until { rig.kernel.linkSettings[0].links == Self.slow }
  }

  @Test("If settings are needed without the management socket, the status names the missing capability")
  @LoopActor
  func shut() async throws {
    let rig = try await Rig(
      version: BlueZVersion(5, 82), doors: KernelChannels(management: .shut("CAP_NET_ADMIN is missing")),
      links: Self.preferences)
    defer { rig.close() }
    try await rig.reach(.ready)
    let service = Service()
    let plain = rig.radio.serve(Service.application, delegate: service)
    try await rig.settle()
    #expect(rig.radio.status.limits.isEmpty)
    let server = rig.radio.serve(Self.application, delegate: service)
    let told = try await rig.statuses.first { !$0.limits.isEmpty }
    for words in ["CAP_NET_ADMIN is missing", "AmbientCapabilities=CAP_NET_ADMIN", "LinkInterval=kernel"] {
      #expect(told.limits[0].contains(words))
    }
    #expect(told.state == .ready)
    let lines = rig.entries.all.filter { $0.id?.name == "LinksSlow" }
    #expect(lines.count == 1 && lines[0].text.utf8.count <= 200)
    plain.close()
    server.close()
  }
}
