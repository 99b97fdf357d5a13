import Bytes
import Common
import Crypto
import Testing

@testable import Noise

typealias Engine = Sessions<UInt64>

/// The identity of a key: the first eight bytes of its hash.
func identity(of key: X25519.PublicKey) -> UInt64 {
  SHA256.hash(key.bytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
}

/// Two engines, the messages between them, and virtual time. Side 0 has the smaller identity.
struct Pair {
  /// A message under way to a side.
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
  /// The plaintexts that each side opened.
  var heard: [[[UInt8]]] = [[], []]
  var failures: [[Engine.Failure]] = [[], []]
  /// The handshake hashes of each side's sessions, in order.
  var hashes: [[[UInt8]]] = [[], []]
  /// Number of handshake messages sent, and the numbers, from 1 on, of those that are lost.
  private(set) var sent = 0
  var lost: Set<Int> = []
  /// The source of messages, and the source of forged first messages.
  var source = MessageSource(1)
  var forger = MessageSource(1)
  private var forgeries: UInt64 = 0
  /// Sides that receive nothing.
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

  /// Delivers a forged first message, different each time, in the other side's name, and drops the answer, which goes
  /// to the forger.
  mutating func forge(to side: Int) {
    forgeries += 1
    var random = SeededRandom(seed: 0xF063_0000 + forgeries)
    let before = air.count
    handle(side, .handshake(names[1 - side], X25519.PrivateKey(randomFrom: &random).publicKey.bytes, from: forger))
    air.removeLast(air.count - before)
  }

  mutating func begin(_ side: Int) { handle(side, .begin(names[1 - side])) }

  /// Sends a sealed text; returns false without a session.
  @discardableResult
  mutating func say(_ text: [UInt8], from side: Int) -> Bool {
    guard let message = try? engines[side].seal(text, for: names[1 - side], at: now) else { return false }
    air.append(Flight(to: 1 - side, kind: .message, bytes: message))
    return true
  }

  /// Delivers the message with this index, the oldest first.
  mutating func deliver(_ index: Int = 0) {
    let flight = air.remove(at: index)
    guard !isDeaf[flight.to] else { return }
    let from = names[1 - flight.to]
    switch flight.kind {
    case .handshake: handle(flight.to, .handshake(from, flight.bytes, from: source))
    case .message: handle(flight.to, .message(from, flight.bytes, from: source))
    }
  }

  /// Delivers all messages under way, and those sent in answer, in order.
  mutating func settle() {
    while !air.isEmpty { deliver() }
  }

  mutating func pass(_ duration: Duration) { now = now.advanced(by: duration) }

  /// Advances time to an instant, handling every deadline on the way. Messages arrive at once.
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

  /// Both sides with a session after all messages were delivered.
  static func established(_ change: (inout SessionLimits) -> Void = { _ in }, by side: Int = 0) -> Pair {
    var pair = Pair(change)
    pair.begin(side)
    pair.settle()
    return pair
  }

  /// A session in which both sides have received a message.
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

  /// Whether a text of each side now reaches the other.
  mutating func canTalk() -> Bool {
    heard = [[], []]
    guard say([7], from: 0), say([8], from: 1) else { return false }
    settle()
    return heard == [[[8]], [[7]]]
  }

  /// Makes a side begin a handshake during the live session, as a renewal does, and settles it.
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

  /// Makes a side lose all its state except its key.
  mutating func restart(_ side: Int) { handle(side, .forgetAll) }
}

extension PeerRecord {
  /// The latest handshake under way.
  var handshake: HalfOpen? { handshakes.last }
}

extension Pair {
  /// Restarts a side, which receives and sends nothing from now on.
  mutating func restartDeaf(_ side: Int) {
    restart(side)
    isDeaf[side] = true
  }

  /// Uses up every nonce of a side's session.
  mutating func exhaust(_ side: Int) throws {
    let keys = try #require(record(side)?.live?.transport.keys)
    engines[side].records[names[1 - side]]?.live?.transport = try TransportSession(
      keys: keys, isInitiator: side == 0, sealed: .max)
  }
}
