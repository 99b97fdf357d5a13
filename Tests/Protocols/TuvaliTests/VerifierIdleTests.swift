import Common
import Crypto
import Testing

@testable import Tuvali

/// Wallets that have identified themselves and announce nothing: a person chooses a card, or somebody wants every link.
@Suite("The verifier and silent wallets")
struct VerifierIdleTests {
  /// A verifier whose wallets may have so many links.
  private static func bench(links: Int) -> VerifierBench {
    VerifierBench {
      $0.links = links
      $0.visitors = 4
    }
  }

  @Test("Four people who choose a card for four minutes take no slot, and a fifth is served at once")
  func choosing() throws {
    var bench = Self.bench(links: 7)
    var keys: [SessionKeys] = []
    for number in UInt64(1)...4 { keys.append(try bench.admit(LinkID(number))) }
    #expect(bench.engine.slotsInUse == 0)
    _ = bench.pass(.seconds(240))
    _ = try bench.admit(LinkID(5))
    #expect(bench.announce(1000, on: LinkID(5)) == ["tell 5 announced"])
    for number in UInt64(1)...3 {
      #expect(bench.announce(1000, on: LinkID(number)) == ["tell \(number) announced"])
    }
    #expect(bench.engine.slotsInUse == 4 && bench.engine.visitors.count == 5)
    #expect(bench.engine.counters.gaveWay == 0 && bench.engine.counters.failed == 0)
  }

  @Test("A wallet that thinks for 299 seconds and then sends is served as one that sends at once")
  func thinking() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    _ = bench.pass(.seconds(299))
    try bench.send(keys.seal(VerifierBench.text))
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("tell 1 received"))
  }

  @Test(
    "When a link is needed, the wallet that has been silent longest has to leave, after two seconds at the earliest")
  func idlest() throws {
    var bench = Self.bench(links: 5)
    for number in UInt64(1)...3 {
      _ = try bench.admit(LinkID(number))
      _ = bench.pass(.milliseconds(500))
    }
    // Two of five links are left for whoever comes, while a wallet is silent.
    _ = bench.open(LinkID(4))
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify, on: LinkID(4)) == ["refuse busy", "tell 4 refused busy"])
    _ = bench.pass(.milliseconds(500))
    _ = bench.open(LinkID(5))
    let (other, _) = try bench.identification()
    #expect(
      bench.write(other.bytes, to: .identify, on: LinkID(5)) == [
        "tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01", "advertise OVPMOSIP", "tell 5 secured v05",
      ])
    #expect(bench.engine.counters.gaveWay == 1)
  }

  @Test("A wallet that sends is never asked to leave for its link")
  func sendersStay() throws {
    var bench = Self.bench(links: 3)
    for number in UInt64(1)...2 {
      _ = try bench.admit(LinkID(number))
      _ = bench.announce(1000, on: LinkID(number))
    }
    _ = bench.pass(.seconds(20))
    _ = try bench.admit(LinkID(3))
    // All three links are in use, and only the third wallet is silent.
    _ = bench.open(LinkID(4))
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify, on: LinkID(4)) == ["refuse busy", "tell 4 refused busy"])
    _ = bench.pass(.seconds(5))
    _ = bench.open(LinkID(5))
    let (other, _) = try bench.identification()
    #expect(
      bench.write(other.bytes, to: .identify, on: LinkID(5)).prefix(2) == [
        "tell 3 TVV_UNK_001 timeout", "notify 3 disconnect 01",
      ])
    #expect(bench.engine.visitors.prefix(2) == [LinkID(1), LinkID(2)])
  }

  @Test(
    "A new link is let in at the cost of a silent wallet, of a link that says nothing first, and not for a distrusted peer"
  )
  func newLinks() throws {
    var bench = Self.bench(links: 4)
    for number in UInt64(1)...2 { _ = try bench.admit(LinkID(number)) }
    _ = bench.pass(.seconds(6))
    _ = bench.open(LinkID(3))
    #expect(bench.handle(.linkOpened(LinkID(4), at: bench.now, isDistrusted: true)) == [])
    #expect(
      bench.handle(.linkOpened(LinkID(5), at: bench.now, isDistrusted: true)) == ["tell 5 refused busy", "cut 5"])
    // A distrusted peer has to make room at once.
    #expect(bench.open(LinkID(6)) == ["tell 4 refused busy", "cut 4"])
    #expect(bench.open(LinkID(7)) == ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    _ = bench.pass(.seconds(4))
    #expect(bench.open(LinkID(8)) == ["tell 3 silent", "cut 3"])
  }

  @Test("Wallets whose sessions failed lately are the first that have to leave")
  func distrustedFirst() throws {
    var bench = Self.bench(links: 5)
    for number in UInt64(1)...3 {
      _ = bench.handle(.linkOpened(LinkID(number), at: bench.now, isDistrusted: number == 3))
      _ = try bench.admit(LinkID(number))
    }
    _ = bench.pass(.seconds(5))
    _ = bench.open(LinkID(4))
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify, on: LinkID(4)).first == "tell 3 TVV_UNK_001 timeout")
  }

  @Test("However many wallets identify themselves and are silent, the next one that comes is served")
  func everyLink() throws {
    for links in 1...8 {
      var bench = Self.bench(links: links)
      for number in UInt64(1)...40 {
        _ = try? bench.admit(LinkID(number))
        _ = bench.pass(.seconds(1))
      }
      let honest = LinkID(100)
      var isServed = false
      for _ in 1...6 where !isServed {
        _ = try? bench.admit(honest)
        isServed = bench.announce(1000, on: honest).last == "tell 100 announced"
        _ = bench.handle(.linkClosed(honest))
        _ = bench.pass(.seconds(1))
      }
      #expect(isServed, "\(links) links")
    }
  }
}
