import Common
import Crypto
import Noise

extension Target {
  /// Handshakes and sessions: malformed messages at each step, and two engines with every fault of their messages.
  static let noise = [
    Target(
      name: "noise-handshake",
      seeds: {
        let bench = HandshakeBench.shared
        let weak = [3] + [UInt8](repeating: 0, count: 96)
        return bench.messages.enumerated().map { [UInt8($0.offset)] + $0.element } + [weak]
      },
      goals: ["a true message is read", "a message is refused"],
      play: { bytes in
        guard let step = bytes.first else { return [] }
        return HandshakeBench.shared.read(Array(bytes.dropFirst()), at: Int(step % 5))
      }),
    Target(
      name: "noise-sessions", seeds: { SessionsStand.seeds }, goals: SessionsStand.goals,
      play: { bytes in
        var stand = SessionsStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
  ]
}

/// A deterministic handshake and session, at each of their steps.
private struct HandshakeBench: Sendable {
  static let shared = HandshakeBench()

  private let key: X25519.PrivateKey
  private var readers: [Handshake] = []
  private var session: TransportSession?
  /// The expected messages: three of XX, one of X, one of a session.
  private(set) var messages: [[UInt8]] = []

  init() {
    var random = SeededRandom(seed: 3)
    let other = X25519.PrivateKey(randomFrom: &random)
    key = X25519.PrivateKey(randomFrom: &random)
    var sides = [Handshake(.xxInitiator, key: other), Handshake(.xxResponder, key: key)]
    for index in 0..<3 {
      let message = taken { try sides[index % 2].write(randomFrom: &random) } ?? []
      readers.append(sides[1 - index % 2])
      messages.append(message)
      promise(taken { try sides[1 - index % 2].read(message) } == [], "a true message is read")
    }
    messages.append(
      taken { try OneWayMessage.seal([1], to: key.publicKey, from: other, prologue: [], randomFrom: &random) } ?? [])
    session = taken { try sides[1].session() }
    if var sender = taken({ try sides[0].session() }) {
      messages.append(taken { try sender.seal([1, 2, 3]) } ?? [])
    }
  }

  /// The result of reading a message. Only the first message of XX, which anyone can write, is accepted in more than
  /// one form.
  func read(_ bytes: [UInt8], at step: Int) -> Set<String> {
    let isTrue = bytes == messages[step]
    let isRead: Bool
    switch step {
    case 0...2:
      var reader = readers[step]
      let before = reader.hash
      isRead = taken { try reader.read(bytes) } != nil
      promise(isRead || reader.hash == before, "a message that is refused changes nothing")
    case 3: isRead = taken { try OneWayMessage.open(bytes, with: key, prologue: []) } != nil
    default:
      guard var session else { return [] }
      isRead = taken { try session.open(bytes) } != nil
    }
    promise(step == 0 || isRead == isTrue, "what was sealed is read, and nothing else")
    return [isRead ? "a true message is read" : "a message is refused"]
  }
}
