import Air
import BitchatWire
import Common
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("Reported problems of mesh peers")
struct TroubleTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A neighbour whose clock is over 2 min wrong is listed with this reason until the clock is right")
  @LoopActor
  func clock() throws {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    clock.set(by: -200_000)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5, clock: clock))
    #expect(
      village.wait(.seconds(60)) {
        bob.mesh.node.engine.map { !ann.mesh.peers.trouble(of: $0.identity.id).isEmpty } ?? false
      })
    #expect(ann.mesh.peers.trouble(of: bob.id).contains("3 min behind") && ann.mesh.peers.known.contains(bob.id))
    #expect(ann.mesh.peers.view(of: bob.id)?.nickname == "bob" && ann.mesh.peers.view(of: bob.id)?.hops == 0)
    #expect(ann.mesh.reason.contains("clock") && !ann.mesh.reason.contains("bob"))
    clock.set(by: 200_000)
    #expect(village.wait(.seconds(120)) { ann.mesh.node.engine?.peer(bob.id) != nil })
    #expect(ann.mesh.peers.trouble(of: bob.id) == "" && ann.mesh.reason == "")
  }

  @Test("A file of an unsupported type is reported as a problem of its sender, with the type")
  @LoopActor
  func file() throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let file = try SharedFile(name: "a.exe", mime: "application/x-msdownload", content: [1, 2, 3])
    let sending = try bob.mesh.node.engine?.send(file, to: nil, as: 9, at: village.time.now, time: bob.mesh.node.time)
    bob.mesh.node.perform(sending ?? [])
    #expect(village.wait(.seconds(20)) { !ann.mesh.peers.trouble(of: bob.id).isEmpty })
    #expect(ann.mesh.peers.trouble(of: bob.id).contains("application/x-msdownload"))
    #expect(ann.mesh.reason.contains("file") && ann.mesh.files.log.numbers == [])
    village.time.advance(by: .seconds(660))
    #expect(ann.mesh.peers.trouble(of: bob.id) == "" && ann.mesh.reason == "", "after ten minutes it is over")
  }

  @Test("The type of a refused file is quoted, so that it cannot look like text of the service")
  func quotation() {
    let mime = "x\" is accepted. Run: \"sudo x"
    let sentence = PeerTroubles.Trouble.engine(.refusedFile(mime: mime)).sentence
    #expect(sentence.contains("its type \"x' is accepted. Run: 'sudo x\" is not accepted"))
    #expect(sentence.count { $0 == "\"" } == 2)
  }

  @Test("A neighbour disconnected because it sent no announce is named in `Reason`")
  @LoopActor
  func silent() throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = try WaitingPhone(on: village, isNode: true)
    #expect(village.wait(.seconds(20)) { ann.mesh.links.ports.values.contains(where: \.isOpen) })
    #expect(ann.mesh.reason == "")
    #expect(village.wait(.seconds(20)) { ann.mesh.links.ports.isEmpty })
    #expect(ann.mesh.reason.contains("did not announce itself"))
    phone.leave()
  }

  @Test("At most 64 peers have a reported problem, and the oldest one is removed")
  func limit() {
    var troubles = PeerTroubles()
    for number in UInt64(1)...100 {
      let now = Instant.zero.advanced(by: .milliseconds(Int64(number)))
      _ = troubles.note(.notAnnounced, of: PeerID(rawValue: number), nickname: "", at: now)
    }
    let peers = troubles.peers(at: .zero.advanced(by: .seconds(1))).map(\.rawValue).sorted()
    #expect(peers == Array(37...100))
    let later = troubles.note(
      .notAnnounced, of: PeerID(rawValue: 101), nickname: "", at: .zero.advanced(by: .seconds(1)))
    #expect(later == [PeerID(rawValue: 101), PeerID(rawValue: 37)], "the object of the removed peer goes")
  }

  @Test("Of 200 unknown peers with a problem 64 have a D-Bus object, and none has one after 10 min")
  @LoopActor
  func objects() throws {
    let village = Village()
    let ann = village.add("ann")
    #expect(village.wait(.seconds(5)) { ann.mesh.node.engine != nil })
    var shown: Set<PeerID> = []
    ann.mesh.peers.changes.addForGood { peer in
      if ann.mesh.peers.view(of: peer) != nil { shown.insert(peer) } else { shown.remove(peer) }
    }
    for number in UInt64(1)...200 {
      ann.mesh.peers.note(.engine(.clock(seconds: 300)), of: PeerID(rawValue: number), nickname: "x")
      village.time.advance(by: .milliseconds(10))
      #expect(shown.count <= PeerTroubles.limit)
    }
    #expect(shown.count == PeerTroubles.limit)
    // A difference that reads the same is no change.
    var changes = 0
    ann.mesh.peers.changes.addForGood { _ in changes += 1 }
    ann.mesh.peers.note(.engine(.clock(seconds: 301)), of: PeerID(rawValue: 200), nickname: "x")
    #expect(changes == 0)
    village.time.advance(by: .seconds(601))
    #expect(shown.isEmpty && ann.mesh.reason == "")
  }
}
