import Common
import Crypto
import Testing

@testable import Noise

/// One engine among as many peers as there have to be.
private struct Crowd {
  var engine: Engine
  var now = Instant.zero
  private var random = SeededRandom(seed: 4)
  let own: UInt64 = 1 << 63

  init(_ change: (inout SessionLimits) -> Void = { _ in }) {
    var limits = SessionLimits()
    change(&limits)
    // Whoever the crowd says it is, it is.
    engine = Engine(
      key: X25519.PrivateKey(randomFrom: &random), own: own, limits: limits, random: SeededRandom(seed: 5),
      belongs: { _, _ in true })
  }

  mutating func first(from peer: UInt64, by way: HandshakeWay = .far) -> [Engine.Action] {
    let message = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
    return engine.handle(.handshake(peer, message, by: way), at: now)
  }

  mutating func garbage(from peer: UInt64, count: Int = 1) -> [Engine.Action] {
    (0..<count).flatMap { _ in engine.handle(.message(peer, random.bytes(60)), at: now) }
  }

  /// Whether a handshake that this side wants goes out.
  mutating func begins(with peer: UInt64) -> Bool {
    if case .send(peer, _)? = engine.handle(.begin(peer), at: now).first { true } else { false }
  }

  /// A whole handshake that the peer begins.
  mutating func visit(_ peer: UInt64, worth: (UInt64) -> Int = { _ in 0 }) -> [Engine.Action] {
    var handshake = Handshake(.xxInitiator, key: X25519.PrivateKey(randomFrom: &random))
    guard let first = try? handshake.write(randomFrom: &random),
      case .send(_, let second)? = engine.handle(.handshake(peer, first), at: now).first,
      (try? handshake.read(second)) != nil, let third = try? handshake.write(randomFrom: &random)
    else { return [] }
    return engine.handle(.handshake(peer, third), at: now, worth: worth)
  }
}

@Suite("Floods end at the bounds of the sessions")
struct LimitTests {
  @Test("Ten handshakes a minute with one peer, and the eleventh a minute after the first")
  func perPeer() {
    var crowd = Crowd()
    for _ in 0..<10 { #expect(crowd.first(from: 2).count == 1) }
    #expect(crowd.first(from: 2) == [])
    #expect(crowd.engine.counters[.peerRate] == 1)
    #expect(crowd.first(from: 3).count == 1)
    crowd.now = crowd.now.advanced(by: .milliseconds(59_999))
    #expect(crowd.first(from: 2) == [])
    crowd.now = crowd.now.advanced(by: .milliseconds(1))
    #expect(crowd.first(from: 2).count == 1)
  }

  @Test("First messages in a peer's name leave us ten handshakes a minute of our own with it, and ours leave it ten")
  func perPeerBoth() {
    var crowd = Crowd()
    for _ in 0..<10 { #expect(crowd.first(from: 2).count == 1) }
    #expect(crowd.first(from: 2) == [])
    for _ in 0..<10 {
      _ = crowd.engine.handle(.forget(2), at: crowd.now)
      let isBegun = crowd.begins(with: 2)
      #expect(isBegun)
    }
    _ = crowd.engine.handle(.forget(2), at: crowd.now)
    #expect(crowd.engine.handle(.begin(2), at: crowd.now) == [.failed(2, .refused(.peerRate))])
    #expect(crowd.engine.counters.begun == 10)
    for _ in 0..<10 {
      let isBegun = crowd.begins(with: 3)
      #expect(isBegun)
      _ = crowd.engine.handle(.forget(3), at: crowd.now)
    }
    for _ in 0..<10 { #expect(crowd.first(from: 3).count == 1) }
    #expect(crowd.first(from: 3) == [])
    #expect(crowd.engine.counters[.peerRate] == 3)
  }

  @Test("Thirty handshakes a minute that others cause, and a flood of them leaves us thirty of our own")
  func inAll() {
    var crowd = Crowd()
    for peer: UInt64 in 1...30 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.first(from: 31) == [])
    #expect(crowd.engine.counters[.rate] == 1)
    #expect(crowd.garbage(from: 32, count: 3) == [])
    #expect(crowd.engine.counters[.rate] == 2)
    let begun = (101...130).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 30)
    #expect(crowd.engine.handle(.begin(131), at: crowd.now) == [.failed(131, .refused(.rate))])
    crowd.now = crowd.now.advanced(by: .seconds(60))
    #expect(crowd.first(from: 31).count == 1)
    let isBegun = crowd.begins(with: 131)
    #expect(isBegun)
  }

  @Test(
    "A peer on its own link has ten handshakes a minute, whoever writes its name elsewhere; all such peers a hundred")
  func near() {
    var crowd = Crowd { $0.halfOpen = 1000 }
    for peer: UInt64 in 1...2 { for _ in 0..<10 { #expect(crowd.first(from: peer).count == 1) } }
    for peer: UInt64 in 11...20 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.first(from: 21) == [])
    #expect(crowd.engine.counters[.rate] == 1)
    for _ in 0..<10 { #expect(crowd.first(from: 1, by: .near).count == 1) }
    #expect(crowd.first(from: 1, by: .near) == [])
    #expect(crowd.engine.counters[.peerRate] == 1)
    for peer: UInt64 in 101...190 { #expect(crowd.first(from: peer, by: .near).count == 1) }
    #expect(crowd.first(from: 191, by: .near) == [])
    #expect(crowd.engine.counters[.rate] == 2)
    crowd.now = crowd.now.advanced(by: .seconds(60))
    #expect(crowd.first(from: 191, by: .near).count == 1)
  }

  @Test(
    "A peer that there is a session with is recovered, however many first messages come under invented names",
    arguments: [false, true])
  func recoveryInFlood(isUnanswered: Bool) {
    var crowd = Crowd()
    #expect(crowd.visit(2).count == 1)
    for peer: UInt64 in 101...129 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.first(from: 130) == [])
    let actions =
      isUnanswered ? crowd.engine.handle(.unanswered(2), at: crowd.now) : crowd.garbage(from: 2, count: 3)
    #expect(actions.count == 1)
    #expect(crowd.engine.counters.recoveries == 1)
  }

  @Test("What no key opens causes ten handshakes a minute, and refuses none that we want or others begin")
  func recoveries() {
    var crowd = Crowd()
    for peer: UInt64 in 1...12 { #expect(crowd.visit(peer).count == 1) }
    crowd.now = crowd.now.advanced(by: .seconds(60))
    for peer: UInt64 in 1...10 { #expect(crowd.garbage(from: peer, count: 3).count == 1) }
    #expect(crowd.garbage(from: 11, count: 3) == [])
    #expect(crowd.engine.counters[.rate] == 1)
    #expect(crowd.engine.handle(.unanswered(12), at: crowd.now).count == 1)
    #expect(crowd.engine.counters.recoveries == 11)
    for peer: UInt64 in 101...130 { #expect(crowd.first(from: peer).count == 1) }
    // As many as can be under way.
    let begun = (201...223).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 23)
    #expect(crowd.engine.halfOpen == 64)
  }

  @Test("A recovery that was refused is tried again when there is room for it; the minute begins when it goes out")
  func refusedRecovery() {
    var crowd = Crowd()
    for peer: UInt64 in 1...30 { #expect(crowd.first(from: peer).count == 1) }
    crowd.now = crowd.now.advanced(by: .seconds(30))
    #expect(crowd.garbage(from: 31, count: 3) == [])
    #expect(crowd.engine.counters.recoveries == 0)
    crowd.now = crowd.now.advanced(by: .seconds(30))
    #expect(crowd.garbage(from: 31).count == 1)
    #expect(crowd.engine.counters.recoveries == 1)
    // Nobody answers.
    crowd.now = crowd.now.advanced(by: .milliseconds(59_999))
    _ = crowd.engine.handle(.timer, at: crowd.now)
    #expect(crowd.garbage(from: 31, count: 3) == [])
    crowd.now = crowd.now.advanced(by: .milliseconds(1))
    #expect(crowd.garbage(from: 31).count == 1)
    #expect(crowd.engine.counters.recoveries == 2)
  }

  @Test("Sixty-four handshakes are under way at most, whoever began them")
  func halfOpen() {
    var crowd = Crowd { $0.inAll = 1000 }
    for peer: UInt64 in 1...60 { #expect(crowd.first(from: peer).count == 1) }
    let begun = (61...64).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 4)
    #expect(crowd.engine.halfOpen == 64)
    #expect(crowd.first(from: 65) == [])
    #expect(crowd.engine.handle(.begin(66), at: crowd.now) == [.failed(66, .refused(.halfOpenLimit))])
    #expect(crowd.engine.counters[.halfOpenLimit] == 2)
    #expect(crowd.engine.halfOpen == 64)
    // Who is under way already may begin again: that is one handshake still.
    #expect(crowd.first(from: 5).count == 1)
    crowd.now = crowd.now.advanced(by: .seconds(20))
    _ = crowd.engine.handle(.timer, at: crowd.now)
    #expect(crowd.engine.halfOpen == 4)
    #expect(crowd.first(from: 65).count == 1)
  }

  @Test("Sessions have a limit, and the one that was not used for the longest time ends")
  func sessions() {
    var crowd = Crowd {
      $0.sessions = 5
      $0.inAll = 1000
    }
    for peer: UInt64 in 1...5 {
      crowd.now = crowd.now.advanced(by: .seconds(1))
      #expect(crowd.visit(peer).count == 1)
    }
    crowd.now = crowd.now.advanced(by: .seconds(1))
    _ = try? crowd.engine.seal([1], for: 1, at: crowd.now)
    let actions = crowd.visit(6)
    #expect(actions.count == 2)
    #expect(actions.last == .ended(2))
    #expect(crowd.engine.peers.sorted() == [1, 3, 4, 5, 6])
    #expect(crowd.engine.counters.evicted == 1)
    // A session that is replaced needs no room.
    #expect(crowd.visit(3).count == 1)
    #expect(crowd.engine.peers.count == 5)
  }

  @Test("The session of the peer that is worth the least makes room, however lately it was used")
  func worthLeast() {
    var crowd = Crowd { $0.sessions = 2 }
    // A favourite, an acquaintance, and strangers.
    func rank(_ peer: UInt64) -> Int { peer == 1 ? 2 : peer == 2 ? 1 : 0 }
    var ended: [Engine.Action] = []
    for peer: UInt64 in 1...5 {
      crowd.now = crowd.now.advanced(by: .seconds(1))
      ended += crowd.visit(peer, worth: rank).dropFirst()
    }
    #expect(ended == [.ended(2), .ended(3), .ended(4)])
    #expect(crowd.engine.peers.sorted() == [1, 5])
  }

  @Test("Whoever sends garbage under however many names, no more is remembered than the limits say")
  func strangers() {
    var crowd = Crowd()
    for peer: UInt64 in 1...500 {
      crowd.now = crowd.now.advanced(by: .milliseconds(700))
      _ = crowd.garbage(from: peer, count: Int(peer % 5))
      _ = crowd.first(from: 1000 + peer)
      _ = crowd.engine.handle(.timer, at: crowd.now)
      #expect(crowd.engine.records.count <= 64 + 64)
    }
    #expect(crowd.engine.halfOpen <= 64)
    #expect(crowd.engine.counters.recoveries > 10)
    crowd.now = crowd.now.advanced(by: .seconds(3600))
    _ = crowd.engine.handle(.timer, at: crowd.now)
    #expect(crowd.engine.halfOpen == 0)
    #expect(crowd.engine.records.count <= 64)
  }

  @Test("A stranger that is silent for the longest time is forgotten first")
  func oldestStranger() {
    var crowd = Crowd { $0.strangers = 2 }
    for peer: UInt64 in 1...3 {
      crowd.now = crowd.now.advanced(by: .seconds(1))
      _ = crowd.garbage(from: peer)
    }
    #expect(crowd.engine.records[1] == nil)
    #expect(crowd.engine.records[2]?.undecryptable == 1)
    #expect(crowd.engine.records[3]?.undecryptable == 1)
  }

  @Test("Of one handshake sixteen bad messages are looked at, and sixteen that come near; the seventeenth is not")
  func badMessages() {
    var crowd = Crowd()
    _ = crowd.engine.handle(.begin(2), at: crowd.now)
    let bad = [UInt8](repeating: 9, count: 96)
    for way in [HandshakeWay.far, .near] {
      for _ in 0..<17 { _ = crowd.engine.handle(.handshake(2, bad, by: way), at: crowd.now) }
    }
    #expect(crowd.engine.counters[.badHandshake] == 32)
    #expect(crowd.engine.counters[.tooManyBad] == 2)
    crowd.now = crowd.now.advanced(by: .seconds(10))
    #expect(crowd.engine.handle(.timer, at: crowd.now).count == 1)
    #expect(crowd.engine.records[2]?.handshake?.bad == 0)
  }
}
