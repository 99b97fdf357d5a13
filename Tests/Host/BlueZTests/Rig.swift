import Air
import BlueZ
import DBus
import HCI
import Journal
import Loop
import Radio
import Sharing
import TestSupport
import Testing

/// A radio and its bluetoothd on a private bus. The radio's time is virtual: retries and timeouts
/// happen only when the test advances time.
@LoopActor
final class Rig {
  let bus: PrivateBus
  let fake: FakeBlueZ
  let time: VirtualTime
  let connection: BusConnection
  let driver: BlueZRadio
  /// The test's access to the driver.
  let radio: DriverRig
  /// The kernel behind the management socket, where the radio has one.
  let kernel: FakeKernel
  let statuses = Mailbox<RadioStatus>()
  /// The radio's journal entries.
  let entries = Entries()
  var watch: Registration?
  /// The `SharedRadio` of the services; nil before the first tenant is created.
  var shared: SharedRadio?
  var passing: Passing?

  /// - Parameters:
  ///   - pace: intervals of the pings to bluetoothd; nil for none, so that time may advance in large steps.
  ///   - prepare: sets up bluetoothd before it starts; nil for no bluetoothd.
  init(
    adapter: String? = nil, version: BlueZVersion? = nil,
    configuration: @escaping @LoopActor () -> DaemonConfiguration = { DaemonConfiguration() },
    doors: KernelChannels = KernelChannels(), links: LinkPreferences = .kernel,
    isDegradable: Bool = false, kernel: FakeKernel? = nil, time: VirtualTime = VirtualTime(),
    repair: KernelRepair = .known(.running), classic: any ClassicSockets = KernelClassicSockets(),
    safety: ClassicSafety = .off, pace: DaemonPulse.Pace? = nil,
    block: @escaping BlockWatch.Read = { _ in nil },
    prepare: (@LoopActor (FakeBlueZ) -> Void)? = { $0.addAdapter() }
  ) async throws {
    bus = try PrivateBus()
    self.time = time
    self.kernel = kernel ?? FakeKernel()
    fake = FakeBlueZ(bus, keepsClientsApart: version.map { $0 >= BlueZVersion(5, 76) } ?? false)
    if let prepare {
      prepare(fake)
      try await fake.start()
    }
    connection = BusConnection(address: .address(bus.address), scheduler: time)
    driver = BlueZRadio(
      bus: connection, adapter: adapter, scheduler: time, knownVersion: version, configuration: configuration,
      doors: doors,
      links: links, isDegradable: isDegradable, repair: repair, classic: classic, safety: safety, pace: pace,
      block: block,
      log: Log(destination: .capture { [entries] in entries.add($0) }, level: .info))
    radio = DriverRig(driver)
    watch = radio.onStatus { [statuses] in statuses.put($0) }
    connection.connect()
    try await connection.ready()
  }

  /// A rig whose radio is ready.
  static func ready(
    version: BlueZVersion? = nil, isDegradable: Bool = false,
    _ prepare: @escaping @LoopActor (FakeBlueZ) -> Void = { $0.addAdapter() }
  ) async throws -> Rig {
    let rig = try await Rig(version: version, isDegradable: isDegradable, prepare: prepare)
    try await rig.reach(.ready)
    return rig
  }

  /// A rig whose radio has a management socket, and is ready.
  static func managed(
    version: BlueZVersion? = nil, links: LinkPreferences = .kernel, kernel: FakeKernel = FakeKernel()
  ) async throws -> Rig {
    // The radio's time; no query is sent before the radio exists.
    let time = VirtualTime()
    let doors = KernelChannels(management: .open(ManagementSocket(kernel.socket, scheduler: time)))
    let rig = try await Rig(version: version, doors: doors, links: links, kernel: kernel, time: time)
    try await rig.reach(.ready)
    return rig
  }

  /// Ends the processes that `init` started. No test has a value that is visible to every program on the bus.
  func close() {
    #expect(fake.broadcasts.isEmpty)
    (watch, passing, shared) = (nil, nil, nil)
    connection.close()
    fake.vanish()
    kernel.close()
    bus.stop()
  }

  /// Waits for a status after the last one that was waited for.
  @discardableResult
  func reach(_ state: RadioStatus.State, _ words: String = "") async throws -> RadioStatus {
    try await statuses.first { $0.state == state && (words.isEmpty || $0.reason.contains(words)) }
  }

  /// Waits until all messages of bluetoothd so far were handled, by an answer that follows them.
  func settle() async throws {
    guard let name = connection.uniqueName else { return }
    let other = BusConnection(address: .address(bus.address))
    other.connect()
    try await other.ready()
    _ = try await other.call(name, .root, "org.freedesktop.DBus.Peer", "Ping")
    other.close()
  }

  /// Serves the sample application, and waits until bluetoothd has it.
  func serve(_ service: Service, _ application: GATTApplication = Service.application) async throws -> DriverRig.Server
  {
    let count = fake.applications.count
    let server = radio.serve(application, delegate: service)
    try await fake.until {
      self.fake.applications.count == count + 1 && self.fake.applications.last?[Service.put] != nil
    }
    try await registered("RegisterApplication")
    return server
  }

  /// Advertises, and waits until the advertisement is being sent.
  func advertise(_ advertisement: Advertisement = .sample) async throws -> Registration {
    let count = fake.advertisements.count
    let registration = try radio.advertise(advertisement)
    try await fake.until {
      self.fake.advertisements.count == count + 1 && self.fake.advertisements.last?.isOnAir == true
    }
    try await registered("RegisterAdvertisement")
    return registration
  }

  /// Waits until the answer of bluetoothd has arrived.
  private func registered(_: String) async throws { try await settle() }
}
