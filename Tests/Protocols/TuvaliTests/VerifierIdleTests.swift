import Common
import Crypto
import Testing

@testable import Tuvali

/// Wallets that have sent an Identify and no size: a person chooses a card, or an attacker occupies every link.
@Suite("Idle wallets at the verifier engine")
struct VerifierIdleTests {
  /// A verifier whose wallets may have this number of links.
  private static func bench(links: Int) -> VerifierBench {
    VerifierBench {
      $0.links = links
      $0.visitors = 4
    }
  }

  @Test("Four wallets that are idle for 4 min after Identify use no session slot, and a fifth is served at once")
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
    #expect(bench.engine.counters.evictedSessions == 0 && bench.engine.counters.failed == 0)
  }

  @Test("A wallet that sends its credential 299 s after its Identify is served")
  func thinking() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    _ = bench.pass(.seconds(299))
    try bench.send(keys.seal(VerifierBench.text))
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("tell 1 received"))
  }

  @Test(
    "If a link is needed, the wallet that is idle longest is disconnected, at least 2 s after Identify")
  func idlest() throws {
    var bench = Self.bench(links: 5)
    for number in UInt64(1)...3 {
      _ = try bench.admit(LinkID(number))
      _ = bench.pass(.milliseconds(500))
    }
    // Two of five links stay free for new wallets while a wallet is silent.
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
    #expect(bench.engine.counters.evictedSessions == 1)
  }

  @Test("A wallet that is sending data is not disconnected in favour of another wallet")
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
    "A new link replaces one without Identify, then an idle one; a peer that failed recently replaces none"
  )
  func newLinks() throws {
    var bench = Self.bench(links: 4)
    for number in UInt64(1)...2 { _ = try bench.admit(LinkID(number)) }
    _ = bench.pass(.seconds(6))
    _ = bench.open(LinkID(3))
    #expect(bench.handle(.linkOpened(LinkID(4), at: bench.now, isDistrusted: true)) == [])
    #expect(
      bench.handle(.linkOpened(LinkID(5), at: bench.now, isDistrusted: true)) == ["tell 5 refused busy", "cut 5"])
    // A distrusted peer loses its link at once.
    #expect(bench.open(LinkID(6)) == ["tell 4 refused busy", "cut 4"])
    #expect(bench.open(LinkID(7)) == ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    _ = bench.pass(.seconds(4))
    #expect(bench.open(LinkID(8)) == ["tell 3 silent", "cut 3"])
  }

  @Test("Idle wallets whose sessions failed recently are disconnected first")
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

  @Test("With 40 idle wallets on 1 to 8 links the next wallet is served")
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
