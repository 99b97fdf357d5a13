import Air
import Bitchat
import Common
import Crypto
import Hall
import Loop
import MeshStore
import Radio
import Sharing
import TestSupport
import Testing
import Transfers

@testable import Mesh

/// A kiosk whose machine is also a node of the mesh.
@Suite("Verifier and mesh on one adapter")
struct SharedRadioTests {
  init() { EventLoop.shared.runInBackground() }

  /// The mesh on the kiosk's radio, and its neighbours, each of which sends this number of public messages a second.
  @LoopActor
  final class Company {
    let hall: Hall
    let mesh: MeshService
    let neighbours: [MeshService]
    private var isTalking = true

    init(_ hall: Hall, neighbours count: Int) {
      self.hall = hall
      mesh = Self.node("kiosk", on: hall.sharedRadio, hall)
      neighbours = (1...count).map { number in
        let radio = SharedRadio(driver: hall.air.addNode(), scheduler: hall.time)
        return Self.node("n\(number)", on: radio, hall) {
          $0.links = 1
        }
      }
      mesh.start()
      // The nodes start one after the other, so that each gets a link with the kiosk's node.
      for (number, node) in neighbours.enumerated() {
        node.start()
        _ = hall.time.run(until: { self.mesh.neighbours == number + 1 }, limit: .seconds(120))
      }
    }

    private static func node(
      _ name: String, on radio: SharedRadio, _ hall: Hall, _ adjust: (inout MeshSettings) -> Void = { _ in }
    ) -> MeshService {
      var settings = MeshSettings()
      settings.nickname = name
      adjust(&settings)
      var made = UInt64(name.utf8.reduce(0) { $0 * 31 + Int($1) })
      return MeshService(
        radio: radio.tenant("mesh", share: MeshService.linkShare), scheduler: hall.time, settings: settings,
        keeper: NodeStore(directory: nil, scheduler: hall.time, disk: hall.time),
        clock: VirtualWallClock(hall.time),
        random: {
          made += 1
          return SeededRandom(seed: made)
        })
    }

    /// From now on each neighbour sends 20 public messages a second.
    func talk() {
      for (index, node) in neighbours.enumerated() { talk(node, index, line: 0) }
    }

    private func talk(_ node: MeshService, _ index: Int, line: Int) {
      guard isTalking else { return }
      _ = try? node.messages.say("line \(line) of neighbour \(index), which is as long as lines are")
      let next = hall.time.schedule(after: .milliseconds(50)) { [weak self] in
        self?.talk(node, index, line: line + 1)
      }
      timers[index] = next
    }

    private var timers: [Int: Registration] = [:]
  }

  @Test(
    "With four busy mesh neighbours a 100 KB transfer takes at most 25% longer, and no link is lost")
  @LoopActor
  func credentialBesideTalk() async throws {
    let credential = sampleCredential(100_000)
    let alone = try Self.visit(Hall(links: 8), credential)

    let hall = Hall(links: 8)
    let company = Company(hall, neighbours: 4)
    let isTogether = hall.time.run(
      until: { company.mesh.neighbours == 4 }, limit: .seconds(120))
    try #require(isTogether)
    #expect(!company.mesh.statusLine.contains { $0.isNumber }, "every user can read the status line")
    company.talk()
    hall.time.advance(by: .seconds(5))
    let links = Set(company.mesh.links.ports.keys)
    let heard = company.mesh.node.engine?.counters.frames ?? 0
    let beside = try Self.visit(hall, credential)
    #expect(beside <= alone * 5 / 4, "\(beside) beside the mesh, \(alone) alone")
    #expect(Set(company.mesh.links.ports.keys) == links && links.count == 4)
    let during = (company.mesh.node.engine?.counters.frames ?? 0) - heard
    #expect(during > 40, "the neighbours went on talking: \(during) frames")
  }

  @LoopActor
  private static func visit(_ hall: Hall, _ credential: [UInt8]) throws -> Duration {
    let begin = hall.time.now
    let (outgoing, ended) = try hall.visit(credential, limit: .seconds(100))
    #expect(ended && outgoing.state == .accepted && hall.hasReceived(credential))
    return begin.duration(to: hall.time.now)
  }

  @Test("A wallet is served within 5 s even if the mesh uses all its links")
  @LoopActor
  func crowdedRadio() async throws {
    let hall = Hall(links: 8)
    hall.kioskRadio.controller.linkLimit = 8
    let company = Company(hall, neighbours: 9)
    hall.time.advance(by: .seconds(120))
    #expect(company.mesh.neighbours == 7, "one place is kept free for a visitor")
    let begin = hall.time.now
    let (outgoing, ended) = try hall.visit(sampleCredential(3000), limit: .seconds(30))
    #expect(ended && outgoing.state == .accepted)
    #expect(begin.duration(to: hall.time.now) < .seconds(5))
  }

  @Test("During a credential transfer the mesh neither scans nor connects")
  @LoopActor
  func quiet() async throws {
    let hall = Hall(links: 8)
    let company = Company(hall, neighbours: 1)
    _ = hall.time.run(until: { company.mesh.neighbours == 1 }, limit: .seconds(60))
    #expect(company.mesh.links.search.scan != nil)
    let transfer = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(100_000))
    #expect(hall.time.run(until: { hall.verifier.visitors == 1 }, limit: .seconds(10)))
    hall.time.advance(by: .milliseconds(100))
    #expect(company.mesh.links.search.scan == nil && company.mesh.links.search.attempt == nil)
    #expect(company.mesh.links.search.remembered.advertisers == 0, "nobody tells who goes meanwhile")
    #expect(hall.finish(transfer))
    hall.time.advance(by: .milliseconds(100))
    #expect(company.mesh.links.search.scan != nil)
  }
}
