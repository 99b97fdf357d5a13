import Air
import Common
import Config
import Crypto
import Hosting
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh

@Suite("Rules of the mesh service that users rely on")
struct PromiseTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A blocked peer stays blocked after a restart, and none of its messages is shown or stored")
  @LoopActor
  func blockedAfterRestart() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    try bob.mesh.block(ann.id, true)
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.messages.say("in public")
    let number = try ann.mesh.messages.tell(bob.id.description, "in private")
    village.time.advance(by: .seconds(60))
    #expect(bob.mesh.messages.log.messages.isEmpty && bob.waiting == [])
    #expect(bob.mesh.node.engine?.publicPackets == [] && ann.mesh.messages.log[number]?.state != .delivered)
    #expect(bob.mesh.peers.view(of: ann.id)?.marks.isBlocked == true)
  }

  @Test("A text, file or ping to a name of two peers is sent to neither of them")
  @LoopActor
  func sameNames() throws {
    let village = Village()
    let ann = village.add("ann")
    let twins = [village.add("bob", at: 5), village.add("bob", at: 5, off: 3)]
    #expect(village.wait { village.isAcquainted })
    var refusals: [String] = []
    for call in [
      { try ann.mesh.messages.tell("bob", "for one of them") },
      { try ann.mesh.files.send(file: [1], name: "a", mime: "", to: "bob") },
    ] as [@LoopActor () throws -> UInt32] {
      do { _ = try call() } catch { refusals.append((error as? MeshRefusal)?.code ?? "\(error)") }
    }
    do throws(MeshRefusal) {
      try ann.mesh.pings.ping("bob") { _ in }
    } catch {
      refusals.append(error.code)
    }
    #expect(refusals == ["AmbiguousPeer", "AmbiguousPeer", "AmbiguousPeer"])
    village.time.advance(by: .seconds(30))
    #expect(twins.allSatisfy { $0.texts.isEmpty && $0.mesh.files.log.numbers.isEmpty })
  }

  @Test("`Say` is answered only after the disk has stored the message")
  @LoopActor
  func sayBeforeCommit() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let disk = HeldWorker()
    _ = village.add("bob", at: 5)
    let ann = village.add("ann", directory: folder.path("state"), disk: disk)
    for _ in 0..<3 {
      disk.release()
      village.time.advance(by: .seconds(10))
    }
    #expect(ann.mesh.state == .connected)
    var answers: [String] = []
    _ = try ann.mesh.messages.say("public") { answers.append("said") }
    _ = try ann.mesh.messages.tell("bob", "private") { answers.append("told") }
    village.time.advance(by: .seconds(5))
    #expect(answers == [] && !disk.held.isEmpty)
    for _ in 0..<5 {
      disk.release()
      village.time.advance(by: .seconds(1))
    }
    #expect(answers.sorted() == ["said", "told"])
  }

  @Test("A stored public message is not reported again after a restart")
  @LoopActor
  func reportedOnce() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.messages.say("once")
    #expect(village.wait(.seconds(5)) { bob.texts == ["once"] })
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait { bob.mesh.node.engine?.peer(ann.id) != nil })
    village.time.advance(by: .seconds(60))
    #expect(bob.texts == ["once"] && bob.waiting == [])
    let kept = try #require(bob.mesh.messages.log.messages.first)
    let packet = try #require(kept.packet)
    // The log recognizes the message after the archive of packets has dropped it.
    bob.mesh.messages.heard(
      PublicMessage(
        sender: ann.id, nickname: "ann", text: "once", timestamp: kept.time, packet: packet, isLate: true, via: 1))
    village.time.advance(by: .seconds(5))
    #expect(bob.texts == ["once"] && bob.waiting == [])
  }

  @Test("A clock set back by 1 s makes no waiting message fail; after one set back by 1 h packets have the new time")
  @LoopActor
  func clockSetBack() throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    let (ann, bob) = (village.add("ann", clock: clock), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.radio.power = false
    village.time.advance(by: .seconds(400))
    let number = try ann.mesh.messages.tell(bob.id.description, "wait for it")
    clock.set(by: -1000)
    village.time.advance(by: .seconds(1300))
    #expect(ann.mesh.messages.log[number]?.state == .waiting)
    bob.radio.power = true
    #expect(village.wait(.seconds(120)) { ann.progress[number]?.last == .delivered })
    clock.set(by: -3_600_000)
    let said = try ann.mesh.messages.say("an hour earlier")
    let time = try #require(ann.mesh.messages.log[said]?.time)
    #expect(Int64(time) == clock.milliseconds)
    let newest = try #require(ann.mesh.node.engine?.clock.last)
    #expect(abs(Int64(newest) - clock.milliseconds) <= 1000, "packets have the new time")
  }

  @Test("A reload of the configuration does not change the node's role", arguments: NodeRole.allCases)
  @LoopActor
  func reloadedRole(role: NodeRole) throws {
    for before in NodeRole.allCases {
      let village = Village()
      let ann = village.add("ann") { $0.role = before }
      #expect(village.wait(.seconds(5)) { ann.mesh.node.engine != nil })
      let configuration = try #require(ann.mesh.node.engine?.configuration)
      var settings = ann.mesh.settings
      settings.role = role
      settings.relayPolicy = .apps
      ann.mesh.apply(settings)
      #expect(ann.mesh.settings.role == before)
      let after = try #require(ann.mesh.node.engine?.configuration)
      #expect(after.role == configuration.role && after.carries == configuration.carries)
      #expect(after.relayPolicy == .apps, "the rest is taken on")
    }
  }

  @Test(
    "One link of the adapter stays free for other services, whatever the value of `Peers=`",
    arguments: [(7, 8, 7), (8, 8, 7), (64, 8, 7), (7, 4, 3), (3, 2, 1), (7, 1, 1), (1, 8, 1)])
  func lastLink(peers: Int, adapter: Int, expected: Int) throws {
    var configuration = Configuration(of: "the test", [MeshSettings.self, RadioSettings.self])
    var (mesh, radio) = (MeshSettings(), RadioSettings())
    (mesh.links, radio.links) = (peers, adapter)
    configuration[MeshSettings.self] = mesh
    configuration[RadioSettings.self] = radio
    #expect(MeshSettings(configuration).links == expected)
  }

  @Test(
    "A clock is trusted if synchronised, or with `TrustClock=yes`, but never before 2026",
    arguments: [
      (false, false, false, false), (false, true, false, true), (true, false, false, true), (true, true, false, true),
      (true, false, true, false), (true, true, true, false), (false, true, true, false),
    ])
  @LoopActor
  func trustedClock(trusts: Bool, isSynchronised: Bool, isOf1970: Bool, expected: Bool) {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    clock.isSynchronised = isSynchronised
    if isOf1970 { clock.set(by: 86_400_000 - clock.milliseconds) }
    let ann = village.add("ann", clock: clock) { $0.trustsClock = trusts }
    village.time.advance(by: .seconds(30))
    #expect(ann.mesh.clockWatch.isTrusted == expected && (ann.mesh.state != .waitingForClock) == expected)
  }
}
