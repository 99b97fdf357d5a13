import Common
import Crypto
import Testing

@testable import Noise

/// One engine among any number of peers.
private struct Crowd {
  var engine: Engine
  var now = Instant.zero
  private var random = SeededRandom(seed: 4)
  let own: UInt64 = 1 << 63

  init(_ change: (inout SessionLimits) -> Void = { _ in }) {
    var limits = SessionLimits()
    change(&limits)
    // The claimed identity is accepted for every key.
    engine = Engine(
      key: X25519.PrivateKey(randomFrom: &random), own: own, limits: limits, random: SeededRandom(seed: 5),
      belongs: { _, _ in true })
  }

  mutating func first(from peer: UInt64, over link: UInt64 = 1) -> [Engine.Action] {
    let message = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
    return engine.handle(.handshake(peer, message, from: MessageSource(link)), at: now)
  }

  mutating func garbage(from peer: UInt64, count: Int = 1, over link: UInt64 = 1) -> [Engine.Action] {
    (0..<count).flatMap { _ in engine.handle(.message(peer, random.bytes(60), from: MessageSource(link)), at: now) }
  }

  /// Whether a handshake that this side wants is sent.
  mutating func begins(with peer: UInt64) -> Bool {
    if case .send(peer, _)? = engine.handle(.begin(peer), at: now).first { true } else { false }
  }

  /// A complete handshake that the peer begins.
  mutating func visit(_ peer: UInt64, over link: UInt64 = 1, worth: (UInt64) -> Int = { _ in 0 }) -> [Engine.Action] {
    let source = MessageSource(link)
    var handshake = Handshake(.xxInitiator, key: X25519.PrivateKey(randomFrom: &random))
    guard let first = try? handshake.write(randomFrom: &random),
      case .send(_, let second)? = engine.handle(.handshake(peer, first, from: source), at: now).first,
      (try? handshake.read(second)) != nil, let third = try? handshake.write(randomFrom: &random)
    else { return [] }
    return engine.handle(.handshake(peer, third, from: source), at: now, worth: worth)
  }
}

@Suite("Limits of Noise handshakes and sessions")
struct LimitTests {
  @Test("Up to 10 handshakes a minute from one source under one peer ID are answered")
  func perPeerOfSource() {
    var crowd = Crowd { ($0.perPeerOfSource, $0.handshakes, $0.handshakesOfSource) = (10, 100, 100) }
    for _ in 0..<10 { #expect(crowd.first(from: 2).count == 1) }
    #expect(crowd.first(from: 2) == [])
    #expect(crowd.engine.counters[.peerRate] == 1)
    #expect(crowd.first(from: 3).count == 1)
    #expect(crowd.first(from: 2, over: 2).count == 1)
    crowd.now = crowd.now.advanced(by: .milliseconds(59_999))
    #expect(crowd.first(from: 2) == [])
    crowd.now = crowd.now.advanced(by: .milliseconds(1))
    #expect(crowd.first(from: 2).count == 1)
  }

  @Test(
    "Handshakes that a peer begins and handshakes that we begin with it have separate limits of 10 a minute")
  func perPeerBoth() {
    var crowd = Crowd { ($0.perPeerOfSource, $0.handshakes, $0.handshakesOfSource) = (10, 100, 100) }
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

  @Test("Each source of Noise messages can begin at least its reserve of 10 handshakes a minute, and we can begin 30")
  func sources() {
    var crowd = Crowd {
      ($0.perSource, $0.ofOthers, $0.reserve, $0.halfOpen) = (30, 50, 10, 1000)
    }
    for peer: UInt64 in 1...30 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.first(from: 31) == [])
    // The second source uses up the shared quota, and then its own ten.
    for peer: UInt64 in 101...130 { #expect(crowd.first(from: peer, over: 2).count == 1) }
    #expect(crowd.first(from: 131, over: 2) == [])
    for peer: UInt64 in 201...210 { #expect(crowd.first(from: peer, over: 3).count == 1) }
    #expect(crowd.first(from: 211, over: 3) == [])
    #expect(crowd.engine.counters[.rate] == 3)
    let begun = (1001...1030).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 30)
    #expect(crowd.engine.handle(.begin(1031), at: crowd.now) == [.failed(1031, .refused(.rate))])
    crowd.now = crowd.now.advanced(by: .seconds(60))
    #expect(crowd.first(from: 31).count == 1)
    let isBegun = crowd.begins(with: 1031)
    #expect(isBegun)
  }

  @Test("Only a limited number of sources have a reserve of handshakes")
  func manySources() {
    var crowd = Crowd { ($0.ofOthers, $0.reserve, $0.reserves, $0.halfOpen) = (5, 2, 3, 1000) }
    var answered = 0
    for link: UInt64 in 1...100 {
      for peer: UInt64 in 1...9 { answered += crowd.first(from: link * 100 + peer, over: link).count }
    }
    #expect(answered == 5 + 3 * 2)
    crowd.now = crowd.now.advanced(by: .seconds(60))
    #expect(crowd.first(from: 1, over: 500).count == 1)
  }

  @Test(
    "The session of a known peer recovers during a flood of handshakes under invented peer IDs",
    arguments: [false, true])
  func recoveryInFlood(isUnanswered: Bool) {
    var crowd = Crowd()
    #expect(crowd.visit(2).count == 1)
    crowd.engine.limits.perSource = 30
    for peer: UInt64 in 101...129 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.first(from: 130) == [])
    let actions =
      isUnanswered ? crowd.engine.handle(.unanswered(2), at: crowd.now) : crowd.garbage(from: 2, count: 3)
    #expect(actions.count == 1)
    #expect(crowd.engine.counters.recoveries == 1)
  }

  @Test("Undecryptable messages cause up to 10 handshakes a minute per source, and use up no other limit")
  func recoveries() {
    var crowd = Crowd { $0.halfOpen = 1000 }
    for peer: UInt64 in 1...40 { #expect(crowd.visit(peer).count == 1) }
    crowd.now = crowd.now.advanced(by: .seconds(60))
    for peer: UInt64 in 1...10 { #expect(crowd.garbage(from: peer, count: 3).count == 1) }
    #expect(crowd.garbage(from: 11, count: 3) == [])
    #expect(crowd.engine.counters[.rate] == 1)
    for peer: UInt64 in 12...21 { #expect(crowd.garbage(from: peer, count: 3, over: peer / 5 + 10).count == 1) }
    // 20 in total, and one more for each source.
    #expect(crowd.garbage(from: 22, count: 3, over: 99).count == 1)
    #expect(crowd.garbage(from: 23, count: 3, over: 99) == [])
    #expect(crowd.engine.handle(.unanswered(40), at: crowd.now).count == 1)
    for peer: UInt64 in 101...130 { #expect(crowd.first(from: peer).count == 1) }
    let begun = (201...229).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 29)
  }

  @Test("A recovery handshake refused by the rate limit begins with the next bad message once the limit allows it")
  func refusedRecovery() {
    var crowd = Crowd { ($0.perSource, $0.recoveriesOfSource) = (30, 1) }
    for peer: UInt64 in 1...30 { #expect(crowd.first(from: peer).count == 1) }
    #expect(crowd.garbage(from: 32).count == 1)
    crowd.now = crowd.now.advanced(by: .seconds(30))
    #expect(crowd.garbage(from: 31, count: 3) == [])
    #expect(crowd.engine.counters.recoveries == 1)
    crowd.now = crowd.now.advanced(by: .seconds(30))
    #expect(crowd.garbage(from: 31).count == 1)
    #expect(crowd.engine.counters.recoveries == 2)
    // No peer answers.
    crowd.now = crowd.now.advanced(by: .milliseconds(59_999))
    _ = crowd.engine.handle(.timer, at: crowd.now)
    #expect(crowd.garbage(from: 31, count: 3) == [])
    crowd.now = crowd.now.advanced(by: .milliseconds(1))
    #expect(crowd.garbage(from: 31).count == 1)
    #expect(crowd.engine.counters.recoveries == 3)
  }

  @Test("At most 64 Noise handshakes are half-open at one time")
  func halfOpen() {
    var crowd = Crowd { $0.inAll = 1000 }
    for peer: UInt64 in 1...60 { #expect(crowd.first(from: peer).count == 1) }
    let begun = (61...64).filter { crowd.begins(with: UInt64($0)) }.count
    #expect(begun == 4)
    #expect(crowd.engine.halfOpen == 64)
    #expect(crowd.first(from: 65) == [])
    // A handshake that this side wants replaces one that a peer has begun.
    #expect(crowd.engine.handle(.begin(66), at: crowd.now).count == 1)
    #expect(crowd.engine.counters[.halfOpenLimit] == 1 && crowd.engine.counters[.pushedOut] == 1)
    #expect(crowd.engine.halfOpen == 64)
    // A peer with a handshake under way may begin again: this still counts as one handshake.
    #expect(crowd.first(from: 5).count == 1)
    crowd.now = crowd.now.advanced(by: .seconds(20))
    _ = crowd.engine.handle(.timer, at: crowd.now)
    #expect(crowd.engine.halfOpen == 5)
    #expect(crowd.first(from: 65).count == 1)
  }

  @Test("At a limit of 5 Noise sessions, a new session evicts the least recently used one")
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
    // A replacement of a session needs no further capacity.
    #expect(crowd.visit(3).count == 1)
    #expect(crowd.engine.peers.count == 5)
  }

  @Test("A new Noise session evicts the session of the peer with the least worth, even if it was used most recently")
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

  @Test("Invalid messages under 500 peer IDs leave at most 64 records of unknown peers")
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

  @Test("The record of the unknown peer that was received least recently is evicted first")
  func oldestStranger() {
    // The first message of a stranger begins a handshake. After its timeout, the second message is only counted.
    var crowd = Crowd { ($0.strangers, $0.attempts) = (2, 1) }
    for peer: UInt64 in 1...3 {
      _ = crowd.garbage(from: peer)
      crowd.now = crowd.now.advanced(by: crowd.engine.limits.initiatorTimeout)
      _ = crowd.engine.handle(.timer, at: crowd.now)
      _ = crowd.garbage(from: peer)
    }
    #expect(crowd.engine.records[1] == nil)
    #expect(crowd.engine.records[2]?.undecryptable == 1)
    #expect(crowd.engine.records[3]?.undecryptable == 1)
  }

  @Test("A half-open handshake processes at most 32 invalid messages of each source")
  func badMessages() {
    var crowd = Crowd()
    _ = crowd.engine.handle(.begin(2), at: crowd.now)
    let bad = [UInt8](repeating: 9, count: 96)
    for link: UInt64 in 1...2 {
      for _ in 0..<33 { _ = crowd.engine.handle(.handshake(2, bad, from: MessageSource(link)), at: crowd.now) }
    }
    #expect(crowd.engine.counters[.badHandshake] == 64)
    #expect(crowd.engine.counters[.tooManyBad] == 2)
    crowd.now = crowd.now.advanced(by: .seconds(10))
    #expect(crowd.engine.handle(.timer, at: crowd.now).count == 1)
    #expect(crowd.engine.records[2]?.handshake?.bad.count(of: MessageSource(1)) == 0)
  }

  @Test("A handshake counts invalid messages separately for 16 sources, and together for all further sources")
  func badSources() {
    var crowd = Crowd()
    _ = crowd.engine.handle(.begin(2), at: crowd.now)
    let bad = [UInt8](repeating: 9, count: 96)
    for link: UInt64 in 1...100 {
      for _ in 0..<32 { _ = crowd.engine.handle(.handshake(2, bad, from: MessageSource(link)), at: crowd.now) }
    }
    #expect(crowd.engine.counters[.badHandshake] == 17 * 32)
  }

  @Test("The source with the most sessions of unknown peers loses a session first at the session limit")
  func sessionsOfSources() {
    var crowd = Crowd { $0.sessions = 6 }
    #expect(crowd.visit(1, over: 7).count == 1)
    var ended: [Engine.Action] = []
    for peer: UInt64 in 11...30 {
      crowd.now = crowd.now.advanced(by: .seconds(1))
      ended += crowd.visit(peer, over: 8).dropFirst()
    }
    #expect(ended.count == 15 && !ended.contains(.ended(1)))
    #expect(crowd.engine.hasSession(with: 1))
  }
}
