import Air
import Common
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Phones with an expired code, with a link of the mesh, or with late packets.
@Suite("Expired QR codes, mesh links and slow wallets at a verifier", .serialized)
struct CodeTests {
  init() { EventLoop.shared.runInBackground() }

  /// A hall, and the refusals that its screen shows.
  @LoopActor
  private final class Counter {
    let hall: Hall
    private(set) var refusals: [WalletRefusal] = []

    init(_ hall: Hall) {
      self.hall = hall
      hall.verifier.observe(changed: {}, received: { _ in }, refused: { [weak self] in self?.refusals.append($0) })
    }
  }

  /// A second service of the kiosk, on its adapter.
  @LoopActor
  private final class Mesh: GATTServerDelegate {
    static let characteristic = CharacteristicID(
      service: BluetoothUUID(short: 0x4000), characteristic: BluetoothUUID(short: 0x4001))
    private var server: (any GATTServer)?

    init(on hall: Hall) {
      let characteristic = GATTCharacteristic(
        uuid: Self.characteristic.characteristic, properties: [.write, .writeWithoutResponse])
      let service = GATTService(uuid: Self.characteristic.service, characteristics: [characteristic])
      server = hall.sharedRadio.tenant("mesh", share: LinkShare(needs: 1, may: 8, priority: 2))
        .serve(GATTApplication(services: [service]), delegate: self)
    }

    func close() { server?.close() }

    func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {}
    func linkChanged(_ link: LinkID, mtu: Int) {}
    func written(_ value: [UInt8], to id: CharacteristicID, on link: LinkID) throws(ATTError) {}
    func linkClosed(_ link: LinkID) {}
  }

  @Test("A phone that connected before the QR code was made sends a credential, 5 times in a row", arguments: Seeds.few)
  func linkOfTheMesh(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("a link of the mesh", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let hall = trial.hall
        let phone = Phone(in: hall)
        phone.connect(mtu: 185, subscribing: false)
        hall.time.advance(by: .milliseconds(500))
        // A second service of the kiosk uses the wallet's link.
        let mesh = Mesh(on: hall)
        hall.time.advance(by: .milliseconds(100))
        phone.use(Mesh.characteristic)
        hall.time.advance(by: .seconds(60))
        for number in 1...5 {
          let text = sampleCredential(700, seed: UInt64(number))
          try phone.bring(text, seed: UInt64(number))
          let isTaken = hall.time.run(until: { hall.received.last == text }, limit: .seconds(5))
          trial.check(isTaken, "credential \(number) is not received")
          trial.expectWaiting(within: .seconds(4))
          trial.check(phone.isConnected, "the link of the mesh is cut")
          hall.time.advance(by: .seconds(20))
        }
        trial.check(hall.verifier.counters.refused == 0, "\(hall.verifier.counters)")
        mesh.close()
        hall.time.advance(by: .seconds(1))
        trial.check(!phone.isConnected, "the link that nobody uses is up")
      }
    }
  }

  @Test("A phone with an expired QR code fails with wrongCode, and the screen gives advice", arguments: Seeds.few)
  func wrongCode(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("an old code", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let hall = trial.hall
        let counter = Counter(hall)
        let old = hall.verifier.connectionURI
        try trial.expectOrdinaryVisit()
        hall.time.advance(by: .seconds(30))
        let phone = Phone(in: hall)
        phone.connect(mtu: 185)
        try phone.bring(sampleCredential(700), code: old)
        hall.time.run(until: { phone.values(of: .disconnect) == [[1]] }, limit: .seconds(5))
        let error = hall.incoming?.error as? TuvaliError
        trial.check(error?.code == "TVV_UNK_003" && error?.reason == .wrongCode, "\(error?.sentence ?? "no error")")
        trial.check(
          error?.sentence == "The credential was encrypted for another code. Scan the code that is shown now.",
          "\(error?.sentence ?? "no error")")
        trial.check(counter.refusals.map(\.code) == ["wrongCode"], "\(counter.refusals)")
        trial.check(counter.refusals.allSatisfy { $0.sentence.contains("Scan the code that is shown now") }, "unsaid")
        trial.expectComplaints()
      }
    }
  }

  @Test("At most 12 refusals a minute are signalled for a QR code, without identifying a phone", arguments: Seeds.few)
  func manyRefusals(seed: UInt64) async {
    await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, configure: { $0.waitingLinks = 1 })
      Trial.run("many refusals", hall) { trial in
        let counter = Counter(hall)
        let phones = (0..<40).map { _ in Phone(in: hall) }
        for phone in phones { phone.connect() }
        hall.time.advance(by: .seconds(2))
        trial.check(hall.verifier.counters.refused == 39, "\(hall.verifier.counters)")
        trial.check(counter.refusals.count == 12, "\(counter.refusals.count) are announced")
        let sentences = counter.refusals.map(\.sentence).joined()
        trial.check(!phones.contains { sentences.contains($0.radio.address.description) }, "a phone is named")
        trial.check(Set(counter.refusals.map(\.code)) == ["busy"], "\(counter.refusals)")
      }
    }
  }

  @Test(
    "Four wallets that send 100 s after Identify are served, and so is a fifth",
    arguments: Seeds.few)
  func choosing(seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, configure: { $0.links = 7 })
      try Trial.run("four who choose", hall) { trial in
        var people: [(phone: Phone, keys: SessionKeys)] = []
        for _ in 0..<4 {
          let phone = Phone(in: hall)
          people.append((phone, try phone.identify(mtu: 185)))
          hall.time.advance(by: .seconds(6))
        }
        let other = hall.sharedRadio.tenant("other", share: LinkShare(needs: 1, may: 8, priority: 2))
        trial.check(!other.isQuietWanted, "the mesh is kept quiet for people who choose")
        let (fifth, _) = try trial.send()
        trial.expectEnd(of: fifth, within: .seconds(3))
        trial.check(fifth.state == .accepted, "the fifth is \(fifth.state)")
        hall.time.advance(by: .seconds(100))
        for (number, person) in people.enumerated() {
          let text = sampleCredential(700, seed: UInt64(100 + number))
          try person.phone.send(try Sealing(text: text, keys: person.keys).run().get(), mtu: 185)
          let isTaken = hall.time.run(until: { hall.received.last == text }, limit: .seconds(5))
          trial.check(isTaken, "person \(number) is not served")
        }
        trial.check(
          hall.verifier.counters.failed == 0 && hall.verifier.counters.evictedSessions == 0, "somebody had to go")
      }
    }
  }
}
