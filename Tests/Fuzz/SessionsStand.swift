import Common
import Crypto
import Noise

/// Two engines and the simulated radio between them, driven by a script.
struct SessionsStand {
  private struct Flight {
    let to: Int
    let isHandshake: Bool
    let bytes: [UInt8]
  }

  private(set) var reached: Set<String> = []
  private var engines: [Sessions<Int>]
  private var now = Instant.zero
  private var air: [Flight] = []
  /// Messages that arrived before, for replays.
  private var past: [Flight] = []
  private var said = [0, 0]
  /// Numbers of the messages that each side has opened.
  private var opened: [Set<Int>] = [[], []]

  static let goals: Set = [
    "a session", "a message", "a collision", "a replacement", "a recovery", "a renewal", "a replay", "an early message",
    "a failure",
  ]

  /// In each step the low four bits are the kind, the high four the side; arguments of the kind follow.
  static let seeds: [[UInt8]] = [
    // Begin, settle, send.
    [0, 2, 4, 0x14, 2, 3, 3, 3, 4],
    // Both begin.
    [0, 0x10, 2, 4, 0x14, 2],
    // Later messages overtake the third message.
    [0, 1, 0, 1, 0, 4, 1, 1, 2],
    // One side loses its state, and three messages arrive.
    [0, 2, 0x18, 0, 4, 4, 4, 2, 4, 0x14, 2],
    // One side loses its state, and begins again.
    [0, 2, 0x14, 2, 8, 0, 0, 2, 4, 0x14, 2],
    // An hour later.
    [0, 2, 4, 2, 7, 255, 255, 2, 9, 2, 4, 0x14, 2],
    // Nothing arrives.
    [0, 6, 0, 9, 6, 0, 9, 6, 0, 9],
    // Malformed messages.
    [0, 5, 40, 1, 2, 3, 4, 5, 6, 7, 8, 2],
  ]

  init() {
    var random = SeededRandom(seed: 8)
    let keys = [X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random)]
    let names = [keys[0].publicKey, keys[1].publicKey]
    engines = keys.enumerated().map { number, key in
      Sessions(
        key: key, own: number, random: SeededRandom(seed: UInt64(number)),
        belongs: { key, peer in key == names[peer] })
    }
  }

  mutating func step(_ script: inout Script) {
    let control = script.byte()
    let side = Int(control >> 4) % 2
    switch control & 0xF {
    case 0: handle(side, .begin(1 - side))
    case 1: deliver(Int(script.byte()))
    case 2: while !air.isEmpty { deliver(0) }
    case 3: if !past.isEmpty { arrive(past[Int(script.byte()) % past.count], isAgain: true) }
    case 4: say(side)
    case 5: handle(side, script.flag() ? .handshake(1 - side, script.value()) : .message(1 - side, script.value()))
    case 6: if !air.isEmpty { air.remove(at: Int(script.byte()) % air.count) }
    case 7: pass(.milliseconds(script.u16() * 100))
    case 8: handle(side, script.flag() ? .forgetAll : .forget(1 - side))
    case 9: if let deadline = engines.compactMap(\.deadline).min() { pass(now.duration(to: deadline)) }
    case 10: handle(side, .handshake(1 - side, script.bytes(32)))
    default: alter(Int(script.byte()), script.byte())
    }
    for engine in engines {
      promise(engine.halfOpen <= 64, "handshakes under way have a limit")
      promise(engine.counters.established <= engine.counters.begun + engine.counters.answered, "a session was begun")
    }
  }

  /// Sends a message that contains its sender and its number.
  private mutating func say(_ side: Int) {
    let text = [UInt8(side), UInt8(truncatingIfNeeded: said[side] >> 8), UInt8(truncatingIfNeeded: said[side])]
    guard let message = taken({ try engines[side].seal(text, for: 1 - side, at: now) }) else { return }
    said[side] += 1
    air.append(Flight(to: 1 - side, isHandshake: false, bytes: message))
  }

  private mutating func deliver(_ index: Int) {
    guard !air.isEmpty else { return }
    let flight = air.remove(at: index % air.count)
    past.append(flight)
    arrive(flight, isAgain: false)
  }

  private mutating func arrive(_ flight: Flight, isAgain: Bool) {
    let from = 1 - flight.to
    handle(flight.to, flight.isHandshake ? .handshake(from, flight.bytes) : .message(from, flight.bytes))
  }

  private mutating func alter(_ index: Int, _ place: UInt8) {
    guard !air.isEmpty else { return }
    let flight = air[index % air.count]
    var bytes = flight.bytes
    guard !bytes.isEmpty else { return }
    bytes[Int(place) % bytes.count] ^= 1 << (place % 8)
    air[index % air.count] = Flight(to: flight.to, isHandshake: flight.isHandshake, bytes: bytes)
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: max(duration, .zero))
    for side in 0...1 {
      handle(side, .timer)
      if let deadline = engines[side].deadline { promise(deadline > now, "what was due is done") }
    }
  }

  private mutating func handle(_ side: Int, _ event: Sessions<Int>.Event) {
    let before = engines[side].counters
    for action in engines[side].handle(event, at: now) {
      switch action {
      case .send(let peer, let bytes):
        promise(peer == 1 - side, "a message goes to the peer")
        promise([32, 96, 64].contains(bytes.count), "a message of a handshake has one of three lengths")
        air.append(Flight(to: peer, isHandshake: true, bytes: bytes))
      case .opened(let peer, let text):
        promise(text.count == 3 && text.first == UInt8(peer), "what is opened was said by the peer")
        let number = text.dropFirst().reduce(0) { $0 << 8 | Int($1) }
        promise(number < said[peer], "what is opened was said")
        promise(opened[side].insert(number).inserted, "what is said is opened once")
        reached.insert("a message")
        if case .handshake = event { reached.insert("an early message") }
      case .established: reached.insert("a session")
      case .failed: reached.insert("a failure")
      case .ended: break
      }
    }
    note(before, engines[side].counters)
  }

  private mutating func note(_ before: Sessions<Int>.Counters, _ after: Sessions<Int>.Counters) {
    if after[.collision] > before[.collision] { reached.insert("a collision") }
    if after.replaced > before.replaced { reached.insert("a replacement") }
    if after.recoveries > before.recoveries { reached.insert("a recovery") }
    if after.rekeys > before.rekeys { reached.insert("a renewal") }
    if after[.replayed] > before[.replayed] { reached.insert("a replay") }
  }
}
