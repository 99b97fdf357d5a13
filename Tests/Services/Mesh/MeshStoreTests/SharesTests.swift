import Bitchat
import BitchatWire
import Testing

@testable import MeshStore

@Suite("Fair shares of a limited store")
struct SharesTests {
  private static let (ann, bob, cem) = (PeerID(rawValue: 1), PeerID(rawValue: 2), PeerID(rawValue: 3))

  /// Shares of 100 items with ten bytes each.
  private static func shares(_ counts: [(PeerID?, Int)]) -> Shares {
    var shares = Shares()
    for (peer, count) in counts {
      for _ in 0..<count { shares.add(from: peer, bytes: 10) }
    }
    return shares
  }

  private func expect(_ first: Set<PeerID?>, of counts: [(PeerID?, Int)], trusting trusted: Set<PeerID> = []) {
    let shares = Self.shares(counts)
    let byCount = shares.firstToGo(within: (100, .max)) { trusted.contains($0) }.peers
    #expect(byCount == first, "\(counts), by count")
    let byBytes = shares.firstToGo(within: (.max, 1000)) { trusted.contains($0) }.peers
    #expect(byBytes == first, "\(counts), by bytes")
  }

  @Test("If a shared store is full, peers with over a quarter and the user with over half lose items first")
  func greedy() {
    let (ann, bob) = (Self.ann, Self.bob)
    expect([ann], of: [(ann, 26), (bob, 25), (nil, 50)])
    expect([ann, bob], of: [(ann, 26), (bob, 30), (nil, 50)], trusting: [ann])
    expect([nil, ann], of: [(ann, 26), (nil, 51)])
    let limit: Shares.Limit = (100, 1000)
    let (enough, tooMuch) = (Self.shares([(ann, 25)]), Self.shares([(ann, 26)]))
    #expect(tooMuch.isGreedy(ann, within: limit) && !tooMuch.isGreedy(bob, within: limit))
    #expect(!enough.isGreedy(ann, within: limit))
  }

  @Test(
    "If untrusted peers exceed a quarter of the limit together, those with the most items lose items first"
  )
  func trusted() {
    let (ann, bob, cem) = (Self.ann, Self.bob, Self.cem)
    expect([bob, cem], of: [(ann, 25), (bob, 13), (cem, 13), (nil, 49)], trusting: [ann])
    expect([ann, bob, cem], of: [(ann, 25), (bob, 13), (cem, 12), (nil, 50)], trusting: [ann])
    expect([ann, bob], of: [(ann, 25), (bob, 25), (nil, 50)], trusting: [ann, bob])
    expect([nil], of: [(nil, 50)])
  }

  @Test("Items removed from a shared store no longer count towards their owner's share")
  func removed() {
    var shares = Self.shares([(Self.ann, 30), (Self.bob, 20)])
    for _ in 0..<5 { shares.remove(from: Self.ann, bytes: 10) }
    shares.remove(from: Self.cem, bytes: 10)
    #expect(shares.total.count == 45 && shares.total.bytes == 450)
    let (ann, bob): (Set<PeerID?>, Set<PeerID?>) = ([Self.ann], [Self.bob])
    let first = shares.firstToGo(within: (100, 1000)).peers
    #expect(first == ann)
    for _ in 0..<25 { shares.remove(from: Self.ann, bytes: 10) }
    let last = shares.firstToGo(within: (100, 1000)).peers
    #expect(last == bob)
  }

  @Test("The device that delivered the most items of strangers loses items first, under however many identities")
  func devices() {
    var shares = Shares()
    for number in UInt64(0)..<40 { shares.add(from: PeerID(rawValue: 100 + number), via: 66, bytes: 10) }
    // A sender with more items, over a link of its own.
    for _ in 0..<20 { shares.add(from: Self.ann, via: 1, bytes: 10) }
    shares.add(from: Self.bob, via: 66, bytes: 10)
    let losers = shares.firstToGo(within: (100, 1_000_000))
    #expect(!losers.contains(Self.ann, via: 1) && losers.contains(PeerID(rawValue: 100), via: 66))
    #expect(!losers.contains(PeerID(rawValue: 100), via: 1) && !losers.contains(PeerID(rawValue: 100)))
    // Among the senders of one device, the one with the most items.
    for number in UInt64(0)..<40 { shares.add(from: PeerID(rawValue: 100 + number), via: 66, bytes: 10) }
    let most = shares.firstToGo(within: (100, 1_000_000))
    #expect(!most.contains(Self.bob, via: 66) && most.contains(PeerID(rawValue: 139), via: 66))
  }
}
