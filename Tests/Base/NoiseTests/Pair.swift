import Bytes
import Common
import Crypto
import Testing

@testable import Noise

typealias Engine = Sessions<UInt64>

/// The identity that goes with a key: the first eight bytes of its hash.
func identity(of key: X25519.PublicKey) -> UInt64 {
  SHA256.hash(key.bytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
}

/// Two engines, the messages between them, and virtual time. Side 0 has the smaller identity.
struct Pair {
  /// Something on its way to a side.
  struct Flight {
    enum Kind { case handshake, message }
    let to: Int
    let kind: Kind
    let bytes: [UInt8]
  }

  private(set) var engines: [Engine]
  let keys: [X25519.PrivateKey]
  let names: [UInt64]
  var air: [Flight] = []
  var now = Instant.zero
  /// What each side opened.
  var heard: [[[UInt8]]] = [[], []]
  var failures: [[Engine.Failure]] = [[], []]
  /// The hashes of the sessions of each side, in their order.
  var hashes: [[[UInt8]]] = [[], []]
  /// Handshake messages that were put on the air, and those of them, by their number from 1 on, that are lost there.
  private(set) var sent = 0
  var lost: Set<Int> = []
  /// Where messages come from, and where forged first messages do.
  var source = MessageSource(1)
  var forger = MessageSource(1)
  private var forgeries: UInt64 = 0
  /// Sides that nothing reaches.
  private var isDeaf = [false, false]

  init(_ change: (inout SessionLimits) -> Void = { _ in }, seed: UInt64 = 1) {
    var random = SeededRandom(seed: seed)
    let pair = [X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random)]
    keys = pair.sorted { identity(of: $0.publicKey) < identity(of: $1.publicKey) }
    let sorted = keys.map { identity(of: $0.publicKey) }
    names = sorted
    var limits = SessionLimits()
    change(&limits)
    engines = zip(keys, sorted).enumerated().map { number, pair in
      Engine(
        key: pair.0, own: pair.1, limits: limits, random: SeededRandom(seed: seed << 8 + UInt64(number)),
        belongs: { key, name in identity(of: key) == name })
    }
  }

  mutating func handle(_ side: Int, _ event: Engine.Event) {
    for action in engines[side].handle(event, at: now) {
      switch action {
      case .send(_, let bytes):
        sent += 1
        if !lost.contains(sent) { air.append(Flight(to: 1 - side, kind: .handshake, bytes: bytes)) }
      case .opened(_, let text): heard[side].append(text)
      case .established(_, _, let hash): hashes[side].append(hash)
      case .failed(_, let failure): failures[side].append(failure)
      case .ended: break
      }
    }
  }

  /// A side hears a first message in the other's name that the other has not written, another one each time. What answers it goes to
  /// whoever has.
  mutating func forge(to side: Int) {
    forgeries += 1
    var random = SeededRandom(seed: 0xF063_0000 + forgeries)
    let before = air.count
    handle(side, .handshake(names[1 - side], X25519.PrivateKey(randomFrom: &random).publicKey.bytes, from: forger))
    air.removeLast(air.count - before)
  }

  mutating func begin(_ side: Int) { handle(side, .begin(names[1 - side])) }

  /// Puts a sealed text on the air; false if there is no session.
  @discardableResult
  mutating func say(_ text: [UInt8], from side: Int) -> Bool {
    guard let message = try? engines[side].seal(text, for: names[1 - side], at: now) else { return false }
    air.append(Flight(to: 1 - side, kind: .message, bytes: message))
    return true
  }

  /// Hands over what was on the air for the nth longest time.
  mutating func deliver(_ index: Int = 0) {
    let flight = air.remove(at: index)
    guard !isDeaf[flight.to] else { return }
    let from = names[1 - flight.to]
    switch flight.kind {
    case .handshake: handle(flight.to, .handshake(from, flight.bytes, from: source))
    case .message: handle(flight.to, .message(from, flight.bytes, from: source))
    }
  }

  /// Hands over all that is on the air, and what is sent because of it, in order.
  mutating func settle() {
    while !air.isEmpty { deliver() }
  }

  mutating func pass(_ duration: Duration) { now = now.advanced(by: duration) }

  /// Lets time pass up to an instant, with every deadline on the way; what is on the air arrives at once.
  mutating func run(for duration: Duration) {
    let end = now.advanced(by: duration)
    settle()
    while let next = engines.compactMap(\.deadline).min(), next <= end {
      now = max(now, next)
      for side in 0...1 where engines[side].deadline.map({ $0 <= now }) ?? false { handle(side, .timer) }
      settle()
    }
    now = end
  }

  /// Both sides with a session, each message of it delivered.
  static func established(_ change: (inout SessionLimits) -> Void = { _ in }, by side: Int = 0) -> Pair {
    var pair = Pair(change)
    pair.begin(side)
    pair.settle()
    return pair
  }

  /// A session in which both sides have heard each other.
  static func proven(_ change: (inout SessionLimits) -> Void = { _ in }, by side: Int = 0) -> Pair {
    var pair = established(change, by: side)
    pair.say([0], from: 0)
    pair.say([1], from: 1)
    pair.settle()
    pair.heard = [[], []]
    return pair
  }

  func record(_ side: Int) -> PeerRecord? { engines[side].records[names[1 - side]] }
  func counters(_ side: Int) -> Engine.Counters { engines[side].counters }
  func hasSession(_ side: Int) -> Bool { engines[side].hasSession(with: names[1 - side]) }

  /// Whether what each side says now reaches the other.
  mutating func canTalk() -> Bool {
    heard = [[], []]
    guard say([7], from: 0), say([8], from: 1) else { return false }
    settle()
    return heard == [[[8]], [[7]]]
  }

  /// A side's new handshake on the live session, as a renewal is, and what follows.
  mutating func renew(by side: Int) {
    let limits = engines[side].limits
    engines[side].limits.rekeyMessages = 0
    engines[side].limits.rekeyAge = .zero
    engines[side].limits.rekeyIdle = .zero
    engines[side].limits.rekeyGrace = .zero
    engines[side].limits.pause = .zero
    engines[side].limits.replacementPause = .zero
    handle(side, .timer)
    engines[side].limits = limits
    settle()
  }

  /// A side that has lost all it knew, with the same key.
  mutating func restart(_ side: Int) { handle(side, .forgetAll) }
}

extension PeerRecord {
  /// The newest one that is under way.
  var handshake: HalfOpen? { handshakes.last }
}

extension Pair {
  /// From now on a side hears and says nothing.
  mutating func restartDeaf(_ side: Int) {
    restart(side)
    isDeaf[side] = true
  }

  /// A side's session with every nonce used.
  mutating func exhaust(_ side: Int) throws {
    let keys = try #require(record(side)?.live?.transport.keys)
    engines[side].records[names[1 - side]]?.live?.transport = try TransportSession(
      keys: keys, isInitiator: side == 0, sealed: .max)
  }
}
