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
@testable import Mesh

@Suite("What the service of the mesh promises")
struct PromiseTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A peer that is blocked stays so after a restart: nothing of it is shown or stored")
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
    _ = try ann.mesh.say("in public")
    let number = try ann.mesh.tell(bob.id.description, "in private")
    village.time.advance(by: .seconds(60))
    #expect(bob.mesh.log.messages.isEmpty && bob.waiting == [])
    #expect(bob.mesh.engine?.publicPackets == [] && ann.mesh.log[number]?.state != .delivered)
    #expect(bob.mesh.view(of: ann.id)?.marks.isBlocked == true)
  }

  @Test("Of two peers with one name neither gets what is for the name: text, file or ping")
  @LoopActor
  func sameNames() throws {
    let village = Village()
    let ann = village.add("ann")
    let twins = [village.add("bob", at: 5), village.add("bob", at: 5, off: 3)]
    #expect(village.wait { village.isAcquainted })
    var refusals: [String] = []
    for call in [
      { try ann.mesh.tell("bob", "for one of them") }, { try ann.mesh.send(file: [1], name: "a", mime: "", to: "bob") },
    ] as [@LoopActor () throws -> UInt32] {
      do { _ = try call() } catch { refusals.append((error as? MeshService.Refusal)?.code ?? "\(error)") }
    }
    do throws(MeshService.Refusal) {
      try ann.mesh.ping("bob") { _ in }
    } catch {
      refusals.append(error.code)
    }
    #expect(refusals == ["AmbiguousPeer", "AmbiguousPeer", "AmbiguousPeer"])
    village.time.advance(by: .seconds(30))
    #expect(twins.allSatisfy { $0.texts.isEmpty && $0.mesh.files.numbers.isEmpty })
  }

  @Test("A public message is answered for when the disk has it, and not while the disk is held")
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
    _ = try ann.mesh.say("public") { answers.append("said") }
    _ = try ann.mesh.tell("bob", "private") { answers.append("told") }
    village.time.advance(by: .seconds(5))
    #expect(answers == [] && !disk.held.isEmpty)
    for _ in 0..<5 {
      disk.release()
      village.time.advance(by: .seconds(1))
    }
    #expect(answers.sorted() == ["said", "told"])
  }

  @Test("A public message that is in the log is not reported again after a restart, wherever it comes from")
  @LoopActor
  func reportedOnce() throws {
    let folder = try ScratchFolder()
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, directory: folder.path("state")))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.say("once")
    #expect(village.wait(.seconds(5)) { bob.texts == ["once"] })
    village.time.advance(by: .seconds(5))
    village.restart(bob, "bob", directory: folder.path("state"))
    #expect(village.wait { bob.mesh.engine?.peer(ann.id) != nil })
    village.time.advance(by: .seconds(60))
    #expect(bob.texts == ["once"] && bob.waiting == [])
    let kept = try #require(bob.mesh.log.messages.first)
    let packet = try #require(kept.packet)
    // The log knows it by itself, where the archive of packets has forgotten it.
    bob.mesh.heard(
      PublicMessage(
        sender: ann.id, nickname: "ann", text: "once", timestamp: kept.time, packet: packet, isLate: true, via: 1))
    village.time.advance(by: .seconds(5))
    #expect(bob.texts == ["once"] && bob.waiting == [])
  }

  @Test("A clock that was set back by a second fails nothing that waits, and one set back by an hour is followed")
  @LoopActor
  func clockSetBack() throws {
    let village = Village()
    let clock = Village.Clock(village.time)
    let (ann, bob) = (village.add("ann", clock: clock), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    bob.radio.power = false
    village.time.advance(by: .seconds(400))
    let number = try ann.mesh.tell(bob.id.description, "wait for it")
    clock.set(by: -1000)
    village.time.advance(by: .seconds(1300))
    #expect(ann.mesh.log[number]?.state == .waiting)
    bob.radio.power = true
    #expect(village.wait(.seconds(120)) { ann.progress[number]?.last == .delivered })
    clock.set(by: -3_600_000)
    let said = try ann.mesh.say("an hour earlier")
    let time = try #require(ann.mesh.log[said]?.time)
    #expect(Int64(time) == clock.milliseconds)
    let newest = try #require(ann.mesh.engine?.lastTimestamp)
    #expect(abs(Int64(newest) - clock.milliseconds) <= 1000, "packets have the new time")
  }

  @Test("At a reload nothing of the role changes", arguments: MeshService.Settings.Role.allCases)
  @LoopActor
  func reloadedRole(role: MeshService.Settings.Role) throws {
    for before in MeshService.Settings.Role.allCases {
      let village = Village()
      let ann = village.add("ann") { $0.role = before }
      #expect(village.wait(.seconds(5)) { ann.mesh.engine != nil })
      let configuration = try #require(ann.mesh.engine?.configuration)
      var settings = ann.mesh.settings
      settings.role = role
      settings.relayPolicy = .apps
      ann.mesh.apply(settings)
      #expect(ann.mesh.settings.role == before && ann.mesh.isRelay == (before == .relay))
      let after = try #require(ann.mesh.engine?.configuration)
      #expect(after.isRelayOnly == configuration.isRelayOnly && after.carries == configuration.carries)
      #expect(after.relayPolicy == .apps, "the rest is taken on")
    }
  }

  @Test(
    "One link of the adapter stays free for other services, whatever Peers= says",
    arguments: [(7, 8, 7), (8, 8, 7), (64, 8, 7), (7, 4, 3), (3, 2, 1), (7, 1, 1), (1, 8, 1)])
  func lastLink(peers: Int, adapter: Int, expected: Int) throws {
    var configuration = Configuration(of: "the test", [MeshService.Settings.self, RadioSettings.self])
    var (mesh, radio) = (MeshService.Settings(), RadioSettings())
    (mesh.links, radio.links) = (peers, adapter)
    configuration[MeshService.Settings.self] = mesh
    configuration[RadioSettings.self] = radio
    #expect(MeshService.Settings(configuration).links == expected)
  }

  @Test(
    "A clock is trusted that is synchronised, or by TrustClock=yes, and never before 2026",
    arguments: [
      (false, false, false, false), (false, true, false, true), (true, false, false, true), (true, true, false, true),
      (true, false, true, false), (true, true, true, false), (false, true, true, false),
    ])
  @LoopActor
  func trustedClock(trusts: Bool, isSynchronised: Bool, isOf1970: Bool, expected: Bool) {
    let village = Village()
    let clock = Village.Clock(village.time)
    clock.isSynchronised = isSynchronised
    if isOf1970 { clock.set(by: 86_400_000 - clock.milliseconds) }
    let ann = village.add("ann", clock: clock) { $0.trustsClock = trusts }
    village.time.advance(by: .seconds(30))
    #expect(ann.mesh.isClockTrusted == expected && (ann.mesh.state != .waitingForClock) == expected)
  }
}
