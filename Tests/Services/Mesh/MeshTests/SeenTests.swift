import Air
import Bitchat
import Loop
import MeshStore
import TestSupport
import Testing

@testable import Mesh

@Suite("When a mesh peer was last seen")
struct SeenTests {
  init() { EventLoop.shared.runInBackground() }

  /// Ann, and Bob, who has marked her as favourite.
  @LoopActor
  private static func favourite() throws -> (village: Village, ann: Village.House, bob: Village.House) {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 3))
    #expect(village.wait { village.isAcquainted })
    try bob.mesh.peers.favourite(ann.id, true)
    return (village, ann, bob)
  }

  /// Makes calls with a step of virtual time between them, and returns the number of writes about the peer.
  @LoopActor
  private static func kept(
    _ bob: Village.House, _ ann: Village.House, in village: Village, calls: Int, each step: Duration,
    _ change: (Int) -> Void
  ) -> Int {
    var seen: Set<UInt64> = []
    for number in 0..<calls {
      village.time.advance(by: step)
      change(number)
      bob.mesh.peers.met(ann.id)
      if let seenAt = bob.mesh.peers.marks[ann.id]?.seenAt { seen.insert(seenAt) }
    }
    return seen.count
  }

  @Test("Changes of a mesh peer are stored at most once a second, and its presence once a minute")
  @LoopActor
  func kept() async throws {
    let (village, ann, bob) = try Self.favourite()
    let news = Self.kept(bob, ann, in: village, calls: 100, each: .milliseconds(100)) {
      let name = "name \($0)"
      bob.mesh.peers.edit(ann.id) { $0.nickname = name }
    }
    #expect((9...12).contains(news), "\(news) in ten seconds")
    let same = Self.kept(bob, ann, in: village, calls: 180, each: .seconds(1)) { _ in }
    #expect((3...5).contains(same), "\(same) in three minutes")
    #expect(bob.mesh.peers.marks[ann.id]?.nickname == "ann")
  }

  @Test("The last change of a mesh peer within a second is stored at the end of the second")
  @LoopActor
  func lastNews() async throws {
    let (village, ann, bob) = try Self.favourite()
    bob.mesh.peers.edit(ann.id) { $0.nickname = "before" }
    bob.mesh.peers.met(ann.id)
    #expect(bob.mesh.peers.marks[ann.id]?.nickname == "before" && bob.mesh.peers.unkeptNews == [ann.id])
    village.time.advance(by: .seconds(1))
    #expect(bob.mesh.peers.marks[ann.id]?.nickname == "ann" && bob.mesh.peers.unkeptNews.isEmpty)
  }

  @Test("For a mesh peer that disappeared, the time of its last packet is stored")
  @LoopActor
  func silent() async throws {
    let (village, ann, bob) = try Self.favourite()
    village.time.advance(by: .seconds(600))
    let time = bob.mesh.node.time
    ann.radio.position = AirPosition(x: 5000)
    #expect(village.wait(.seconds(500)) { bob.mesh.node.engine?.peer(ann.id) == nil })
    let seenAt = try #require(bob.mesh.peers.view(of: ann.id)?.seenAt)
    #expect((time - 40_000...time + 1000).contains(seenAt) && bob.mesh.node.time > time + 300_000)
  }

  @Test("For a mesh peer that leaves after hours, the time of its leave is stored")
  @LoopActor
  func left() async throws {
    let (village, ann, bob) = try Self.favourite()
    village.time.advance(by: .seconds(2 * 3600))
    let time = bob.mesh.node.time
    ann.mesh.stop()
    #expect(village.wait(.seconds(10)) { bob.mesh.node.engine?.peer(ann.id) == nil })
    let seenAt = try #require(bob.mesh.peers.view(of: ann.id)?.seenAt)
    #expect((time...time + 10_000).contains(seenAt))
  }
}
