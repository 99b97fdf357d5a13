import Air
import Common
import Hall
import Loop
import Radio
import Sharing
import TestSupport
import Testing
import Tuvali

@testable import Verifier

@Suite("A verifier and another service on one radio")
struct TenantTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A second application with one write a second for 10 min loses no link and disturbs no transfer")
  @LoopActor
  func secondApplication() async throws {
    let hall = Hall(links: 8)
    let neighbour = Neighbour(on: hall.sharedRadio)
    let writer = Writer(in: hall, to: neighbour)
    let credential = sampleCredential(3000)
    let visits = 10
    for _ in 0..<visits {
      let (outgoing, ended) = try hall.visit(credential, limit: .seconds(50))
      #expect(ended && outgoing.state == .accepted && hall.hasReceived(credential))
      hall.time.advance(by: .seconds(60))
    }
    #expect(hall.time.now.nanoseconds >= 600_000_000_000)
    let seconds = Int(hall.time.now.nanoseconds / 1_000_000_000)
    #expect(writer.written >= seconds - 2 && neighbour.received == writer.written)
    #expect(neighbour.opened == 1 && neighbour.closed == 0 && writer.lost == 0)
    // The verifier's counters do not count the other service's peer.
    let counters = hall.verifier.counters
    #expect(counters.visits == visits && counters.received == visits)
    #expect(counters.refused == 0 && counters.failed == 0 && counters.silentLinks == 0 && counters.ignoredWrites == 0)
    #expect(hall.sharedRadio.tallies.allSatisfy { $0.name != "UnusedLinks" || $0.count == 0 })
    writer.stop()
  }

  @Test("A wallet is served within 5 s although another service uses all its links")
  @LoopActor
  func crowdedRadio() async throws {
    let hall = Hall(links: 4)
    hall.kioskRadio.controller.linkLimit = 4
    let neighbour = Neighbour(on: hall.sharedRadio)
    let writers = (0..<4).map { _ in Writer(in: hall, to: neighbour) }
    hall.time.advance(by: .seconds(10))
    #expect(neighbour.opened - neighbour.closed == 3, "one place is kept free for a visitor")
    let credential = sampleCredential(3000)
    let begin = hall.time.now
    let (outgoing, ended) = try hall.visit(credential, limit: .seconds(30))
    #expect(ended && outgoing.state == .accepted)
    #expect(begin.duration(to: hall.time.now) < .seconds(5))
    for writer in writers { writer.stop() }
  }
}

/// A second service on the kiosk's radio: it serves one characteristic and counts the writes to it.
@LoopActor
private final class Neighbour: GATTServerDelegate {
  static let id = CharacteristicID(service: BluetoothUUID(short: 0xFEED), characteristic: BluetoothUUID(short: 1))

  private(set) var opened = 0
  private(set) var closed = 0
  private(set) var received = 0
  private let tenant: Tenant
  private var server: (any GATTServer)?
  private var advertisement: Registration?

  init(on radio: SharedRadio) {
    tenant = radio.tenant("neighbour", share: LinkShare(needs: 0, may: 8, priority: 1))
    let characteristic = GATTCharacteristic(uuid: Self.id.characteristic, properties: [.write, .writeWithoutResponse])
    server = tenant.serve(
      GATTApplication(services: [GATTService(uuid: Self.id.service, characteristics: [characteristic])]), delegate: self
    )
    advertisement = try? tenant.advertise(
      Advertisement(data: AdvertisingData(flags: 6, serviceUUIDs: [Self.id.service])), AdvertisingTerms(), for: server)
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) { opened += 1 }
  func linkChanged(_ link: LinkID, mtu: Int) {}
  func linkClosed(_ link: LinkID) { closed += 1 }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    received += 1
  }
}

/// A peer of the other service, which writes a value every second.
@LoopActor
private final class Writer {
  private(set) var written = 0
  private(set) var lost = 0
  private let hall: Hall
  private var link: (any Link)?
  private var timer: Registration?

  init(in hall: Hall, to neighbour: Neighbour) {
    self.hall = hall
    link = try? hall.air.addNode().connect(to: hall.kioskRadio.address) { [weak self] event in
      switch event {
      case .connected: self?.write()
      case .written(_, error: nil): self?.written += 1
      case .disconnected: self?.end()
      default: break
      }
    }
  }

  private func write() {
    link?.write([UInt8(truncatingIfNeeded: written)], to: Neighbour.id, as: .request)
    timer = hall.time.schedule(after: .seconds(1)) { [weak self] in self?.write() }
  }

  private func end() {
    lost += 1
    (timer, link) = (nil, nil)
  }

  func stop() { (timer, link) = (nil, nil) }
}
