import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The table of mesh peers")
struct PeerTableTests {
  private var random = SeededRandom(seed: 7)

  private func second(_ number: Int) -> Instant { .zero.advanced(by: .seconds(number)) }

  private mutating func noiseKey() throws -> X25519.PublicKey { try X25519.PublicKey(random.bytes(32)) }
  private mutating func signingKey() throws -> Ed25519.PublicKey { try Ed25519.PublicKey(random.bytes(32)) }

  private mutating func announcement(_ nickname: String = "ann") throws -> Announcement {
    try Announcement(nickname: nickname, noiseKey: noiseKey(), signingKey: signingKey())
  }

  @Test("A first announce is reported as a new peer, another nickname as a change, and an equal announce as neither")
  mutating func novelty() throws {
    var table = PeerTable()
    let first = try announcement()
    let new = try table.learn(first, at: 1000, hops: 1, now: second(0))
    let same = try table.learn(first, at: 2000, hops: 1, now: second(1))
    let other = try Announcement(nickname: "bea", noiseKey: first.noiseKey, signingKey: first.signingKey)
    let changed = try table.learn(other, at: 3000, hops: 1, now: second(2))
    #expect([new.novelty, same.novelty, changed.novelty] == [.newPeer, .same, .changed])
    #expect(table[first.peerID]?.nickname == "bea")
  }

  @Test("An announce with another signing key than the pinned one is refused, also after the peer was forgotten")
  mutating func pinned() throws {
    var table = PeerTable()
    let first = try announcement()
    _ = try table.learn(first, at: 1000, hops: 1, now: second(0))
    let forged = try Announcement(nickname: "eve", noiseKey: first.noiseKey, signingKey: signingKey())
    #expect(throws: PeerTable.Refusal.otherSigningKey) { try table.learn(forged, at: 2000, hops: 1, now: second(1)) }
    #expect(table[first.peerID]?.nickname == "ann")
    // The pinned key remains after the peer was forgotten.
    table.forget(first.peerID)
    #expect(throws: PeerTable.Refusal.otherSigningKey) { try table.learn(forged, at: 2000, hops: 1, now: second(1)) }
    table.forget(first.peerID, withPin: true)
    _ = try table.learn(forged, at: 2000, hops: 1, now: second(2))
  }

  @Test("A signing key proven in a session replaces the pinned key")
  mutating func proven() throws {
    var table = PeerTable()
    let first = try announcement()
    _ = try table.learn(first, at: 1000, hops: 1, now: second(0))
    let proven = try Announcement(nickname: "ann", noiseKey: first.noiseKey, signingKey: signingKey())
    let wasHere = table.prove(first.peerID, proven.signingKey, at: second(1))
    #expect(wasHere)
    _ = try table.learn(proven, at: 2000, hops: 1, now: second(2))
    #expect(throws: PeerTable.Refusal.otherSigningKey) { try table.learn(first, at: 3000, hops: 1, now: second(3)) }
  }

  @Test("An older announce is refused, and a copy over more hops does not change the peer's distance")
  mutating func order() throws {
    var table = PeerTable()
    let first = try announcement()
    _ = try table.learn(first, at: 2000, hops: 2, now: second(0))
    #expect(throws: PeerTable.Refusal.older) { try table.learn(first, at: 1999, hops: 1, now: second(1)) }
    _ = try table.learn(first, at: 2000, hops: 5, now: second(1))
    #expect(table[first.peerID]?.hops == 2)
    _ = try table.learn(first, at: 3000, hops: 5, now: second(2))
    #expect(table[first.peerID]?.hops == 5)
  }

  @Test("A full peer table forgets the peer that was received least recently, and favourites last")
  mutating func room() throws {
    var table = PeerTable()
    let favourite = try announcement()
    let oldest = try announcement()
    _ = try table.learn(favourite, at: 1, hops: 1, now: second(0))
    table.hold(favourite.peerID, true)
    _ = try table.learn(oldest, at: 1, hops: 1, now: second(1))
    for number in 2..<PeerTable.peerLimit {
      _ = try table.learn(try announcement(), at: 1, hops: 1, now: second(number))
    }
    #expect(table.count == PeerTable.peerLimit)
    let forgotten = try table.learn(try announcement(), at: 1, hops: 1, now: second(5000)).forgotten
    #expect(forgotten == [oldest.peerID])
    #expect(table.count == PeerTable.peerLimit && table[favourite.peerID] != nil)
  }

  @Test("New peer IDs in a full peer table evict other new peers, and no peer known for over a minute")
  mutating func acquaintances() throws {
    var table = PeerTable()
    let (known, shortly) = (try announcement(), try announcement())
    for second in [0, 60] { _ = try table.learn(known, at: UInt64(second), hops: 1, now: self.second(second)) }
    for second in [1, 60] { _ = try table.learn(shortly, at: UInt64(second), hops: 1, now: self.second(second)) }
    var forgotten: [PeerID] = []
    for number in 0..<1100 {
      forgotten += try table.learn(try announcement(), at: 1, hops: 1, now: second(61 + number)).forgotten
    }
    #expect(table[known.peerID] != nil)
    #expect(forgotten.first == shortly.peerID)
    #expect(table.count == PeerTable.peerLimit)
  }

  @Test("At most 4,096 pinned keys are stored, and a favourite's is evicted last")
  mutating func pins() throws {
    var table = PeerTable()
    let favourite = try announcement()
    let oldest = try announcement()
    table.restorePin(favourite.peerID, favourite.signingKey, isProven: true, at: second(0))
    table.hold(favourite.peerID, true)
    table.restorePin(oldest.peerID, oldest.signingKey, isProven: true, at: second(1))
    for number in 0..<PeerTable.pinLimit {
      table.restorePin(PeerID(rawValue: UInt64(number)), oldest.signingKey, isProven: true, at: second(2))
    }
    #expect(table.pinCount == PeerTable.pinLimit)
    #expect(table.pin(of: favourite.peerID) == favourite.signingKey)
    #expect(table.pin(of: oldest.peerID) == nil)
  }

  @Test("New peer IDs evict no pinned key of a peer that was known for over a minute, or in an earlier run")
  mutating func pinsOfAcquaintances() throws {
    var table = PeerTable()
    let (known, earlier) = (try announcement(), try announcement())
    table.restorePin(earlier.peerID, earlier.signingKey, isProven: true, at: second(0))
    for second in [0, 400, 800] {
      _ = try table.learn(known, at: UInt64(second), hops: 1, now: self.second(second))
      // The peer leaves and returns twice: its times of presence add up.
      _ = try table.learn(known, at: UInt64(second + 200), hops: 1, now: self.second(second + 200))
      table.forget(known.peerID)
    }
    for number in 0..<PeerTable.pinLimit + 16 {
      let stranger = try announcement()
      for moment in [2000 + number, 2500 + number] {
        _ = try table.learn(stranger, at: UInt64(moment), hops: 1, now: second(moment))
      }
      table.forget(stranger.peerID)
    }
    #expect(table.pinCount == PeerTable.pinLimit)
    #expect(table.pin(of: known.peerID) == known.signingKey)
    #expect(table.pin(of: earlier.peerID) == earlier.signingKey)
  }

  @Test("Peers that were not received since a given time are removed from the table and returned")
  mutating func silent() throws {
    var table = PeerTable()
    let (early, late) = (try announcement(), try announcement())
    _ = try table.learn(early, at: 1, hops: 1, now: second(0))
    _ = try table.learn(late, at: 1, hops: 1, now: second(10))
    let forgotten = table.forget(notHeardSince: second(10))
    #expect(forgotten == [early.peerID])
    #expect(table[late.peerID] != nil)
  }
}
