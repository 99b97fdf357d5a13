import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Signing keys proven inside a Noise session")
struct ProvenKeyTests {
  @Test("A signing key proven in a session replaces an earlier pinned key, also after a restart")
  func stored() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    var random = SeededRandom(seed: 5)
    let (bob, other) = (hall.nodes[1].id, Ed25519.PrivateKey(randomFrom: &random).publicKey)
    let proven = hall.nodes[1].engine.identity.signingKey.publicKey
    hall.handle(.favourite(bob, true), at: 0)
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    hall.nodes[0].engine.restorePin(of: bob, other, isProven: false, at: hall.now)
    #expect(hall.nodes[0].engine.neighbourhood.peers.pin(of: bob) == other)
    hall.nodes[0].kept = []
    // The peer has lost its session, and proves its key in the next one.
    hall.restart(1)
    hall.connect(0, 1)
    try hall.tell("a session", to: 0, as: 1, at: 1)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].engine.neighbourhood.peers.pin(of: bob) == proven)
    hall.restart(0)
    #expect(hall.nodes[0].engine.neighbourhood.peers.pin(of: bob) == proven)
    hall.connect(0, 1)
    hall.pass(.seconds(5))
    #expect(hall.nodes[0].engine.peer(bob) != nil)
  }
}
