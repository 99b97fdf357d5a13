import Common
import Crypto
import Testing

@testable import Tuvali

/// Simultaneous sessions, and the choice of the session to preempt when no slot is free.
@Suite("Session slots of the verifier engine")
struct VerifierPlacesTests {
  private static func bench(places: Int = 4) -> VerifierBench { VerifierBench { $0.visitors = places } }

  /// Connects one more wallet, which identifies itself and announces its frame.
  ///
  /// - Returns: the result of the announcement.
  private static func knock(_ link: LinkID, _ bench: inout VerifierBench) throws -> [String] {
    _ = try bench.admit(link)
    return bench.announce(1000, on: link)
  }

  private static func refusal(_ link: Int, _ reason: String = "busy") -> [String] {
    ["refuse \(reason)", "tell \(link) TVV_UNK_001 \(reason == "full" ? "noCapacity" : reason)"]
  }

  @Test("After each Identify a new key is advertised, and each session uses its own key")
  func ownKeys() throws {
    var bench = Self.bench()
    var frames: [LinkID: [UInt8]] = [:]
    for number in UInt64(1)...4 {
      let shown = bench.engine.invitation
      let keys = try bench.admit(LinkID(number))
      #expect(bench.engine.invitation != nil && bench.engine.invitation != shown)
      frames[LinkID(number)] = try keys.seal(Array("{\"number\":\(number)}".utf8))
    }
    #expect(Set(bench.invitations.map(\.key)).count == 5)
    #expect(bench.engine.visitors == (1...4).map { LinkID($0) })
    for (link, frame) in frames { try bench.send(frame, on: link) }
    for link in bench.engine.visitors {
      _ = bench.write([1], to: .transferReportRequest, on: link)
      #expect(bench.pass(.milliseconds(40)) == ["unseal \(link.number)"])
      let result = try #require(bench.unsealing).run()
      #expect(bench.handle(.unsealed(link, result)) == ["deliver \(link.number)"])
      let words = bench.handle(.kept(link, nil))
      #expect(words == ["notify \(link.number) transferReportResponse 010000", "tell \(link.number) received"])
      #expect(bench.delivered.last == Array("{\"number\":\(link.number)}".utf8))
    }
    let words = bench.handle(.decided(LinkID(3), accepted: false))
    #expect(words == ["notify 3 verificationStatus 01", "tell 3 status sent: rejected"])
    #expect(bench.handle(.linkClosed(LinkID(2))) == ["tell 2 ended"])
    #expect(bench.engine.visitors.map(\.number) == [1, 3, 4])
  }

  @Test("Sessions that time out at the same moment end one after the other")
  func together() throws {
    var bench = Self.bench()
    for number in UInt64(1)...3 { _ = try bench.admit(LinkID(number)) }
    let words = bench.pass(.seconds(300) + .nanoseconds(2))
    #expect(words == (1...3).flatMap { ["tell \($0) TVV_UNK_001 timeout", "notify \($0) disconnect 01"] })
    #expect(bench.pass(.milliseconds(500)) == (1...3).flatMap { ["cut \($0)", "tell \($0) ended"] })
    #expect(bench.engine.deadline == nil)
  }

  @Test("A session without progress loses its slot after 5 s and not before")
  func silent() throws {
    var bench = Self.bench(places: 1)
    #expect(try Self.knock(LinkID(1), &bench) == ["tell 1 announced"])
    _ = bench.pass(.seconds(5) - .nanoseconds(2))
    #expect(try Self.knock(LinkID(2), &bench) == Self.refusal(2))
    _ = bench.pass(.nanoseconds(1))
    #expect(
      try Self.knock(LinkID(3), &bench) == [
        "tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01", "tell 3 announced",
      ])
    #expect(bench.engine.counters.evictedSessions == 1)
    #expect(bench.engine.slotsInUse == 1)
    _ = bench.handle(.linkClosed(LinkID(2)))
    #expect(bench.pass(.milliseconds(500)).suffix(2) == ["cut 1", "tell 1 ended"])
    #expect(bench.engine.visitors == [LinkID(3)])
  }

  @Test("A session slower than 2 kB/s may be preempted after 5 s, and a faster one after 30 s")
  func slowAndOld() throws {
    for (bytes, isSlow) in [(1900, true), (2100, false)] {
      var bench = Self.bench(places: 1)
      _ = try bench.admit()
      _ = bench.announce(200_000)
      let payload = [UInt8](repeating: 1, count: 178)
      var sent = 0
      for second in 1...30 {
        while sent < second * bytes / 178 {
          sent += 1
          _ = bench.write(AssemblerTests.chunk(sent, payload), to: .submitResponse)
        }
        _ = bench.pass(.seconds(1))
        let words = try Self.knock(LinkID(UInt64(second + 1)), &bench)
        let isLate = isSlow ? second >= 5 : second >= 30
        #expect((words.first == "refuse busy") == !isLate, "\(bytes) B/s, after \(second) s: \(words)")
        if isLate { break }
      }
    }
  }

  @Test("A complete frame is never preempted, and a wallet that waits for a verdict only after 30 s")
  func complete() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping] {
      var bench = try VerifierBench(at: stage)
      _ = bench.pass(.seconds(50))
      #expect(try Self.knock(LinkID(2), &bench) == Self.refusal(2))
    }
    var bench = Self.bench(places: 1)
    let keys = try bench.admit()
    bench.engine.configuration.quietTime = .seconds(50)
    try bench.send(keys.seal(VerifierBench.text))
    #expect(try Self.knock(LinkID(2), &bench) == Self.refusal(2))
    bench = VerifierBench { $0.decisionTimeout = .seconds(100) }
    try bench.receive()
    _ = bench.pass(.seconds(29))
    #expect(try Self.knock(LinkID(2), &bench) == Self.refusal(2))
    _ = bench.pass(.seconds(1))
    #expect(
      try Self.knock(LinkID(3), &bench) == ["notify 1 disconnect 01", "tell 3 announced"])
    // The refused wallet, and not the one that waited for its verdict.
    #expect(bench.engine.counters.failed == 1)
  }

  @Test(
    "A peer whose session failed recently preempts no session, but may use a free slot")
  func distrusted() throws {
    var bench = Self.bench(places: 1)
    #expect(try Self.knock(LinkID(1), &bench) == ["tell 1 announced"])
    _ = bench.pass(.seconds(10))
    _ = bench.handle(.linkOpened(LinkID(2), at: bench.now, isDistrusted: true))
    #expect(try Self.knock(LinkID(2), &bench) == Self.refusal(2))
    _ = bench.handle(.linkClosed(LinkID(1)))
    _ = bench.handle(.linkOpened(LinkID(3), at: bench.now, isDistrusted: true))
    #expect(try Self.knock(LinkID(3), &bench) == ["advertise OVPMOSIP", "tell 3 announced"])
  }

  @Test("A malformed Identify preempts no session")
  func junk() throws {
    var bench = Self.bench(places: 1)
    _ = try bench.admit()
    _ = bench.pass(.seconds(10))
    _ = bench.open(LinkID(2))
    #expect(bench.write([1, 2, 3], to: .identify, on: LinkID(2)) == [])
    let weak = [UInt8](repeating: 0, count: 44)
    #expect(bench.write(weak, to: .identify, on: LinkID(2)).first == "tell 2 TVV_UNK_002 protocolViolation")
    #expect(bench.engine.visitors == [VerifierBench.wallet])
  }

  @Test("A new link replaces the link that has been silent longest, if for at least 4 s")
  func waitingRoom() throws {
    var bench = VerifierBench { $0.waitingLinks = 2 }
    for number in UInt64(1)...2 {
      _ = bench.open(LinkID(number))
      _ = bench.pass(.seconds(1))
    }
    _ = bench.pass(.seconds(2) - .nanoseconds(1))
    #expect(bench.handle(.linkOpened(LinkID(3), at: bench.now)) == ["tell 3 refused busy", "cut 3"])
    _ = bench.pass(.nanoseconds(1))
    #expect(bench.handle(.linkOpened(LinkID(4), at: bench.now)) == ["tell 1 silent", "cut 1"])
    #expect(bench.handle(.linkOpened(LinkID(5), at: bench.now)) == ["tell 5 refused busy", "cut 5"])
    #expect(bench.engine.waitingLinks == 2)
  }

  // MARK: Room

  @Test("Without capacity no invitation is advertised, and with capacity again there is one with a new key")
  func noRoom() throws {
    var bench = Self.bench()
    let first = bench.engine.invitation
    #expect(bench.handle(.room(.init(credentials: 3, bytes: 1000))) == [])
    #expect(bench.handle(.room(.init(credentials: 0, bytes: 1000))) == ["stop advertising"])
    #expect(bench.engine.invitation == nil)
    #expect(bench.handle(.room(.init(credentials: 0, bytes: 500))) == [])
    #expect(bench.open(LinkID(1)) == [])
    #expect(bench.write([1], to: .transferReportRequest, on: LinkID(1)) == ["refuse full"])
    #expect(bench.handle(.room(.init(credentials: 1, bytes: 1))) == ["advertise OVPMOSIP"])
    #expect(bench.engine.invitation != nil && bench.engine.invitation != first)
    #expect(bench.handle(.room(.init(credentials: 1, bytes: 0))) == ["stop advertising"])
    #expect(bench.handle(.stop) == ["cut 1"])
    #expect(bench.handle(.start) == [])
    #expect(bench.handle(.room(.boundless)) == ["advertise OVPMOSIP"])
  }

  @Test("A wallet is refused at its size if the capacity minus all announced sizes is too small")
  func roomAtSize() throws {
    var bench = Self.bench()
    for number in UInt64(1)...4 { _ = try bench.admit(LinkID(number)) }
    _ = bench.handle(.room(.init(credentials: 2, bytes: 1000)))
    #expect(bench.announce(1001, on: LinkID(1)) == Self.refusal(1, "full"))
    #expect(bench.announce(600, on: LinkID(2)) == ["tell 2 announced"])
    #expect(bench.announce(401, on: LinkID(3)) == Self.refusal(3, "full"))
    #expect(bench.announce(400, on: LinkID(4)) == ["tell 4 announced"])
    // A second size replaces the first.
    #expect(bench.announce(500, on: LinkID(2)) == ["tell 2 announced"])
    #expect(bench.handle(.linkClosed(LinkID(1))).last == "tell 1 ended")
    _ = try bench.admit(LinkID(5))
    #expect(bench.announce(100, on: LinkID(5)) == Self.refusal(5, "full"))
    #expect(bench.engine.counters.noRoom == 3)
    #expect(bench.engine.counters.failedByLimit == 3)
  }
}
