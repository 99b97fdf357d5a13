import Bitchat
import BitchatWire
import Common
import TestSupport
import Testing

@testable import MeshField

@Suite("Parts of the mesh simulator")
struct FieldPartsTests {
  @Test("The simulator orders events by time, node and sequence number, in whatever order they were added")
  func queue() {
    let wanted: [(Int64, Int32, UInt64)] = [(1, 5, 9), (2, 1, 3), (2, 1, 4), (2, 7, 1), (3, 0, 1), (3, 0, 2)]
    for turn in 0..<wanted.count {
      var queue = FieldQueue()
      for (time, node, order) in wanted[turn...] + wanted[..<turn] {
        queue.add(FieldEvent(time: time, node: node, order: order, what: .arrive))
      }
      queue.addTimer(at: 2, of: 1)
      var got: [(Int64, Int32, UInt64)] = []
      while let (key, _) = queue.popFirst(before: 100) { got.append((key.time, key.node, key.order)) }
      // A timer fires before packets that arrive at the node at that moment.
      let expected = [wanted[0], (2, 1, 0)] + wanted[1...]
      #expect(got.map { "\($0)" } == expected.map { "\($0)" })
    }
  }

  @Test("A simulator event that is due exactly at the end of a period stays queued")
  func end() {
    var queue = FieldQueue()
    queue.addTimer(at: 5, of: 0)
    let early = queue.popFirst(before: 5)
    let due = queue.popFirst(before: 6)
    #expect(early == nil)
    #expect(due?.key.time == 5)
    #expect(queue.count == 0)
  }

  private func identities() -> (MeshEngine.Identity, MeshEngine.Identity) {
    var random = FieldRandom(seed: 1)
    return (MeshEngine.Identity(randomFrom: &random), MeshEngine.Identity(randomFrom: &random))
  }

  @Test("The simulator reuses a signature check only for the same signature, bytes and key")
  func signatures() throws {
    let shared = SharedSignatures()
    let (identity, other) = identities()
    let message: [UInt8] = [1, 2, 3]
    let signature = identity.signingKey.sign(message)[...]
    let key = identity.signingKey.publicKey
    for _ in 0..<3 { #expect(shared.holds(signature, of: message, by: key)) }
    let counts = shared.counts
    #expect(counts.0 == 3 && counts.1 == 1)
    #expect(!shared.holds(signature, of: [1, 2, 4], by: key))
    #expect(!shared.holds(signature, of: message, by: other.signingKey.publicKey))
    var forged = Array(signature)
    forged[5] ^= 1
    for _ in 0..<2 { #expect(!shared.holds(forged[...], of: message, by: key)) }
    let later = shared.counts
    #expect(later.0 == 7 && later.1 == 4)
  }

  @Test("The simulator accepts a signature made by one of its nodes without a check, for its bytes and key only")
  func madeHere() throws {
    let shared = SharedSignatures()
    let (identity, other) = identities()
    let packet = Packet(type: .message, timestamp: 1, sender: identity.id, payload: [1, 2, 3])
    let signed = try packet.signed(with: identity.signingKey, telling: shared)
    let untold = try packet.signed(with: identity.signingKey)
    #expect(signed.signature == untold.signature)
    let made = try #require(signed.signature)
    let signature = made[...]
    let preimage = try packet.signingPreimage()
    #expect(shared.holds(signature, of: preimage, by: identity.signingKey.publicKey))
    #expect(shared.counts.computed == 0)
    #expect(!shared.holds(signature, of: preimage, by: other.signingKey.publicKey))
    #expect(!shared.holds(signature, of: preimage + [0], by: identity.signingKey.publicKey))
    #expect(shared.counts.computed == 2)
  }

  @Test("The simulator counts hops along the shortest path")
  func hops() {
    let ground = FieldGround(nodes: 5, given: [(0, 1), (1, 2), (2, 3), (0, 2)])
    #expect(ground.hops(from: 0) == [0, 1, 1, 2, -1])
  }

  @Test("Simulated links respect the range and the maximum per node, and moving nodes lose links out of range")
  func ground() {
    var scenario = Scenario()
    (scenario.field.nodes, scenario.people.walkers, scenario.people.speed) = (200, 50, 100)
    (scenario.field.width, scenario.field.height) = (450, 450)
    var ground = FieldGround(scenario, seed: 3)
    for node in 0..<Int32(200) { ground.arrive(node) }
    var (opened, closed) = (0, 0)
    for _ in 0..<20 {
      for change in ground.mend() {
        if case .opened = change { opened += 1 } else { closed += 1 }
      }
      for (node, links) in ground.links.enumerated() {
        #expect(links.count <= 8)
        for link in links {
          let other = link.other(than: Int32(node))
          #expect(ground.places[node].distance(to: ground.places[Int(other)]) <= 1.1 * 65)
        }
      }
      ground.walk(seconds: 1)
    }
    #expect(opened > 500 && closed > 50)
    let ended = ground.leave(7)
    #expect(!ended.isEmpty && ground.links[7].isEmpty)
    #expect(ground.links.joined().allSatisfy { $0.ends.0 != 7 && $0.ends.1 != 7 })
  }

  @Test("The simulator computes airtime for the LE 1M PHY with data length extension")
  func airtime() {
    // 7 + 100 bytes in one packet: (107 + 10 + 10) · 8 µs, and twice 150 µs.
    #expect(FieldTally.airtime(100) == (127 * 8 + 300) * 1000)
    // 7 + 509 bytes in three.
    #expect(FieldTally.airtime(509) == ((516 + 60) * 8 + 900) * 1000)
  }

  @Test("A simulated message text contains its number and has the requested length")
  func texts() {
    #expect(FieldText.text("#", 12, bytes: 20).utf8.count == 20)
    #expect(FieldText.number(of: FieldText.text("#", 12, bytes: 20), "#") == 12)
    #expect(FieldText.number(of: FieldText.text("$", 12, bytes: 20), "#") == nil)
    #expect(FieldText.number(of: "anything", "#") == nil)
  }
}
