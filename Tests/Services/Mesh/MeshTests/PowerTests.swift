import Air
import BitchatWire
import Common
import Loop
import Radio
import Sharing
import TestSupport
import Testing

@testable import Mesh

@Suite("Energy use of a mesh node")
struct PowerTests {
  init() { EventLoop.shared.runInBackground() }

  private static func second(_ seconds: Double) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }

  @Test("On battery a node scans for 2 s of every 30 s, and for 10 s after messages")
  func duty() {
    var duty = ScanDuty()
    func look(_ seconds: Double) -> (Bool, Double) {
      let (isListening, next) = duty.look(at: Self.second(seconds))
      // Rounded to a hundredth of a second.
      let hundredths = (Double(Instant.zero.duration(to: next) / .milliseconds(1)) / 10).rounded()
      return (isListening, hundredths / 100)
    }
    for (at, listens, next) in [
      (5, true, 7), (6.9, true, 7), (7, false, 35), (20, false, 35), (35, true, 37), (37, false, 65),
      (3605, true, 3607),
    ] as [(Double, Bool, Double)] {
      let found = look(at)
      #expect(found.0 == listens && found.1 == next, "\(at)")
    }
    duty.traffic(at: Self.second(3615))
    #expect(look(3615).0 && look(3624.9).0 && look(3624.9).1 == 3625)
    #expect(!look(3625).0 && look(3625).1 == 3635)
    // Traffic within a window keeps the radio on beyond the window's end.
    duty.traffic(at: Self.second(3636))
    #expect(look(3636).1 == 3646 && look(3640).0 && !look(3646).0)
  }

  @Test("The seconds of scanning and advertising are counted, and those of links for each link")
  func meters() {
    var use = RadioUse()
    use.scan(true, at: Self.second(1))
    use.advertise(true, at: Self.second(1))
    use.connect(2, at: Self.second(2))
    use.scan(true, at: Self.second(3))
    use.scan(false, at: Self.second(5))
    use.connect(1, at: Self.second(6))
    let tallies = Dictionary(uniqueKeysWithValues: use.tallies(at: Self.second(10)).map { ($0.name, $0.count) })
    #expect(tallies == ["ScanSeconds": 4, "AdvertiseSeconds": 9, "LinkSeconds": 12])
  }

  /// Counts the timers of the programs on the machines, without those of the simulated radio.
  @LoopActor
  final class CountingScheduler: Scheduler {
    private let time: VirtualTime
    private(set) var fired = 0

    init(_ time: VirtualTime) { self.time = time }

    var now: Instant { time.now }

    func schedule(at instant: Instant, _ body: @escaping @LoopActor () -> Void) -> Registration {
      time.schedule(at: instant) { [weak self] in
        self?.fired += 1
        body()
      }
    }

    func soon(_ body: @escaping @LoopActor () -> Void) { time.soon(body) }

    func offload<Value: Sendable>(
      _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
    ) { time.offload(work, then: then) }
  }

  /// Receives the driver's events in place of the shared radio, and counts reported advertisers: each wakes a
  /// program.
  @LoopActor
  final class CountingEar: RadioDriverDelegate {
    private let radio: AirRadio
    private let shared: SharedRadio
    private(set) var heard = 0

    init(_ radio: AirRadio, before shared: SharedRadio) {
      (self.radio, self.shared) = (radio, shared)
      radio.delegate = self
    }

    func heard(_ scanResult: ScanResult) {
      heard += 1
      shared.heard(scanResult)
    }

    func heard(_ packet: AdvertisingPacket) {
      heard += 1
      shared.heard(packet)
    }

    func statusChanged(_ status: RadioStatus) { shared.statusChanged(status) }
    func advertisingSlotsChanged() { shared.advertisingSlotsChanged() }
    func onAir(_ advertisement: Advertisement?, in slot: Int) { shared.onAir(advertisement, in: slot) }
    func applicationChanged(_ application: ApplicationID, isServed: Bool) {
      shared.applicationChanged(application, isServed: isServed)
    }
    func linkUp(_ link: DriverLink) { shared.linkUp(link) }
    func linkChanged(_ link: LinkID, mtu: Int) { shared.linkChanged(link, mtu: mtu) }
    func linkDown(_ link: LinkID) { shared.linkDown(link) }
    func used(_ application: ApplicationID, by link: LinkID, _ use: Use) { shared.used(application, by: link, use) }
    func written(
      _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
    ) throws(ATTError) {
      try shared.written(value, to: characteristic, of: application, on: link)
    }
    func hasRoom(_ link: LinkID) { shared.hasRoom(link) }
    func forgot(_ address: BluetoothAddress) { shared.forgot(address) }
  }

  /// The work of a node during a period, per second.
  struct Spent {
    var scanned: Double
    /// Timers that fired.
    var timers: Double
    var frames: Double
    /// Scan results that were reported to it.
    var scanResults: Double
    var sent: Double

    var wakeUps: Double { timers + frames + scanResults }
  }

  /// A node with idle Earshot peers as neighbours, for a period that begins after five minutes of setup.
  @LoopActor
  private static func spend(
    _ power: MeshSettings.Power, neighbours: Int, for duration: Duration, seed: UInt64 = 1
  ) -> Spent {
    let village = Village(seed: seed)
    let counting = CountingScheduler(village.time)
    let house = village.add("node", scheduler: counting) { $0.power = power }
    let ear = CountingEar(house.radio, before: house.shared)
    for number in 0..<neighbours { village.add("quiet \(number)", at: Double(number) + 1) { $0.power = power } }
    village.time.advance(by: .seconds(300))
    #expect(house.mesh.neighbours == neighbours)
    let mesh = house.mesh
    func values() -> [Double] {
      let scanned = mesh.links.use.scanned(at: village.time.now) / .milliseconds(1)
      return [
        Double(scanned) / 1000, Double(counting.fired), Double(mesh.node.engine?.counters.frames ?? 0),
        Double(ear.heard),
        Double(mesh.links.sender.sent),
      ]
    }
    let before = values()
    village.time.advance(by: duration)
    let seconds = Double(duration.components.seconds)
    let spent = zip(values(), before).map { ($0 - $1) / seconds }
    return Spent(scanned: spent[0], timers: spent[1], frames: spent[2], scanResults: spent[3], sent: spent[4])
  }

  @Test(
    "On battery a node scans at most 8% of a day, or 7% with two neighbours, with one wake-up a second"
  )
  @LoopActor
  func day() async {
    for (neighbours, share) in [(0, 0.08), (2, 0.07)] {
      // With neighbours four hours, or a day with `ALL=1`.
      let hours: Int64 = neighbours == 0 ? 24 : Extent.of(4, all: 24)
      let spent = Self.spend(.battery, neighbours: neighbours, for: .seconds(hours * 3600))
      #expect(spent.scanned <= share && spent.scanned > 0.06, "\(spent)")
      #expect(spent.wakeUps <= 1 && spent.timers > 0, "\(spent)")
      #expect(neighbours == 0 || spent.scanResults > 0, "\(spent)")
      if Extent.isWhole { print("battery, \(neighbours) neighbours: \(spent)") }
    }
    let mains = Self.spend(.mains, neighbours: 2, for: Extent.of(.seconds(1800), all: .seconds(86_400)))
    #expect(mains.scanned == 1 && mains.sent > 0.3, "\(mains)")
    guard Extent.isWhole else { return }
    // The table of docs/mesh-operating.md has these figures, too.
    print("mains, 2 neighbours: \(mains)")
    print("mains, 0 neighbours: \(Self.spend(.mains, neighbours: 0, for: .seconds(86_400)))")
  }

  @Test("A new node and a node on battery are linked within 60 s in 19 of 20 cases")
  @LoopActor
  func found() async {
    for power in [MeshSettings.Power.battery, .mains] {
      var waits: [Double] = []
      for seed in 1...60 as ClosedRange<UInt64> {
        let village = Village(seed: seed)
        let one = village.add("one") { $0.power = .battery }
        village.time.advance(by: .milliseconds(Int64(seed) * 7919 % 30_000 + 40_000))
        // The other node advertises, and does not initiate links.
        let other = village.add("other", at: 5) { $0.power = power }
        other.mesh.links.search.avoid(one.radio.address, for: .seconds(3600))
        let start = village.time.now
        _ = village.wait(.seconds(600)) { one.mesh.neighbours == 1 && other.mesh.neighbours == 1 }
        waits.append(Double(start.duration(to: village.time.now) / .milliseconds(1)) / 1000)
      }
      waits.sort()
      #expect(waits[56] <= 60 && waits[30] > 2, "\(power): \(waits[30]), \(waits[56]), \(waits[59])")
    }
  }

  @Test("Between scan windows an unreachable neighbour is tried once until it is received again")
  @LoopActor
  func tried() {
    let village = Village()
    let both = [0, 1000].map { metres in village.add("at \(metres)", at: metres) { $0.power = .battery } }
    #expect(
      village.wait(.seconds(60)) { both.allSatisfy { $0.mesh.node.engine != nil && $0.mesh.links.search.scan == nil } })
    // The node with the larger ID lets the other one connect, for longer than a window lasts.
    let (bob, ann) = both[0].id < both[1].id ? (both[0], both[1]) : (both[1], both[0])
    bob.mesh.links.search.avoid(ann.radio.address, for: .seconds(3600))
    let (near, far) = (ann.radio.position, bob.radio.position)
    bob.radio.position = near
    #expect(
      village.wait(.seconds(60)) {
        ann.mesh.links.search.scan == nil && ann.mesh.links.search.remembered.advertisers == 1
      })
    bob.radio.position = far
    #expect(village.wait(.seconds(10)) { ann.mesh.links.search.attempt != nil } && ann.mesh.links.search.scan == nil)
    #expect(village.wait(.seconds(25)) { ann.mesh.links.search.attempt == nil })
    #expect(ann.mesh.links.search.remembered.advertisers == 0)
    #expect(!village.wait(.seconds(120)) { ann.mesh.links.search.attempt != nil })
    bob.radio.position = near
    #expect(village.wait(.seconds(90)) { ann.mesh.neighbours == 1 })
  }

  @Test("Messages make a node on battery scan longer, and sync requests do not")
  @LoopActor
  func traffic() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann") { $0.power = .battery }, village.add("bob", at: 5) { $0.power = .battery })
    #expect(village.wait(.seconds(120)) { village.isAcquainted })
    #expect(village.wait(.seconds(60)) { ann.mesh.links.search.scan == nil && bob.mesh.links.search.scan == nil })
    _ = try ann.mesh.messages.say("good morning")
    #expect(village.wait(.seconds(2)) { bob.texts == ["good morning"] })
    village.time.advance(by: .seconds(1))
    #expect(ann.mesh.links.search.scan != nil && bob.mesh.links.search.scan != nil)
    village.time.advance(by: .seconds(12))
    #expect(village.wait(.seconds(10)) { ann.mesh.links.search.scan == nil && bob.mesh.links.search.scan == nil })
    // One packet, once as a sync answer and once as a sender's own.
    let packet = [1, MessageType.message.rawValue] + [UInt8](repeating: 0, count: 20)
    ann.mesh.links.search.note(sent: packet, .syncAnswer)
    #expect(ann.mesh.links.search.scan == nil)
    ann.mesh.links.search.note(sent: packet, .own)
    #expect(ann.mesh.links.search.scan != nil)
  }

  @Test("A changed power setting applies at once: off mains power a node scans and advertises less")
  @LoopActor
  func reload() async throws {
    let village = Village()
    let ann = village.add("ann")
    let listener = SharedRadio(driver: village.air.addNode(), scheduler: village.time)
    var packets = 0
    let ear = try listener.tenant("ear", share: .nothing).listen(for: []) { _ in packets += 1 }
    func packetsInTwentySeconds() -> Int {
      packets = 0
      village.time.advance(by: .seconds(20))
      return packets
    }
    village.time.advance(by: .seconds(60))
    #expect(ann.mesh.links.search.scan != nil)
    let onMains = packetsInTwentySeconds()
    var settings = ann.mesh.settings
    settings.power = .battery
    ann.mesh.apply(settings)
    village.time.advance(by: .seconds(5))
    #expect(ann.mesh.links.search.scan == nil && ann.mesh.links.advertisement != nil)
    let onBattery = packetsInTwentySeconds()
    #expect(onBattery >= 10 && onBattery * 4 < onMains, "\(onBattery) packets, and \(onMains) on the mains")
    settings.power = .mains
    ann.mesh.apply(settings)
    #expect(ann.mesh.links.search.scan != nil)
    village.time.advance(by: .seconds(60))
    #expect(ann.mesh.links.search.scan != nil)
    ear.cancel()
  }
}
