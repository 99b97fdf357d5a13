import Crypto
import Glibc
import Noise

/// The cost of a handshake, a sealed message and a signature, compared with the same primitives in C without any of our
/// code: `scripts/bench/primitives.c`, a program beside this one. The two alternate, and the best result of each
/// counts.
enum NoiseBench {
  private static let turns = 5
  private static let roundsPerTurn = 3

  /// Measured durations of operations, in microseconds.
  private struct Costs {
    var handshake = Double.infinity
    var seal = Double.infinity
    var open = Double.infinity
    var verify = Double.infinity

    mutating func take(_ other: Costs) {
      handshake = min(handshake, other.handshake)
      seal = min(seal, other.seal)
      open = min(open, other.open)
      verify = min(verify, other.verify)
    }
  }

  static func run() -> [Figure] {
    var (ours, bare) = (Costs(), Costs())
    for _ in 0..<turns {
      for _ in 0..<roundsPerTurn {
        guard let costs = measure() else { return [] }
        ours.take(costs)
      }
      bare.take(measureBare())
    }
    return [
      .less("Noise XX, both sides", ours.handshake, "us"),
      .less("eight X25519 operations, libsodium alone", bare.handshake, "us"),
      .less("Noise XX, ratio to its X25519 operations", ours.handshake / bare.handshake, "", goal: 1.35),
      .less("transport seal of 512 bytes", ours.seal, "us"),
      .less("ChaCha20-Poly1305 of 512 bytes, libsodium alone", bare.seal, "us"),
      .less("transport seal, ratio to the cipher", ours.seal / bare.seal, "", goal: 1.5),
      .less("transport open of 512 bytes", ours.open, "us"),
      .less("ChaCha20-Poly1305 open, libsodium alone", bare.open, "us"),
      .less("transport open, ratio to the cipher", ours.open / bare.open, "", goal: 1.5),
      .less("Ed25519 verification of 100 bytes", ours.verify, "us"),
      .less("Ed25519 verification, libsodium alone", bare.verify, "us"),
      .less("Ed25519 verification, ratio to libsodium", ours.verify / bare.verify, ""),
    ]
  }

  private static func measure() -> Costs? {
    var random = SystemRandom()
    let (key, other) = (X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random))
    var costs = Costs()
    var sessions: (TransportSession, TransportSession)?
    costs.handshake = microseconds(50) { sessions = try? handshake(key, other, &random) }
    guard var (one, another) = sessions else { return nil }
    let text = [UInt8](repeating: 7, count: 512)
    var last: [UInt8] = []
    costs.seal = microseconds(5000) { last = (try? one.seal(text)) ?? [] }
    // A hundred at a time: a message that is opened has just been received, so it is in the processor's cache.
    var opening = 0.0
    for _ in 0..<50 {
      let messages = (0..<100).map { _ in (try? one.seal(text)) ?? [] }
      let begin = processorTime()
      for message in messages { last = (try? another.open(message)) ?? [] }
      opening += processorTime() - begin
    }
    costs.open = opening / 5000 * 1e6
    guard last == text else { return nil }
    let signing = Ed25519.PrivateKey(randomFrom: &random)
    let signed = [UInt8](repeating: 9, count: 100)
    let signature = signing.sign(signed)
    var isRight = false
    costs.verify = microseconds(200) { isRight = signing.publicKey.verify(signature, of: signed) }
    return isRight ? costs : nil
  }

  /// One handshake by pattern XX, from two static keys to the sessions of both sides.
  private static func handshake(
    _ key: X25519.PrivateKey, _ other: X25519.PrivateKey, _ random: inout SystemRandom
  ) throws -> (TransportSession, TransportSession) {
    var initiator = Handshake(.xxInitiator, key: key)
    var responder = Handshake(.xxResponder, key: other)
    _ = try responder.read(try initiator.write(randomFrom: &random))
    _ = try initiator.read(try responder.write(randomFrom: &random))
    _ = try responder.read(try initiator.write(randomFrom: &random))
    return (try initiator.session(), try responder.session())
  }

  private static func microseconds(_ calls: Int, _ body: () -> Void) -> Double {
    let begin = processorTime()
    for _ in 0..<calls { body() }
    return (processorTime() - begin) / Double(calls) * 1e6
  }

  private static func measureBare() -> Costs {
    let own = Swift.CommandLine.arguments.first ?? ""
    let directory = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
    let said = "/tmp/earshot-bench.\(getpid()).primitives"
    defer { unlink(said) }
    var costs = Costs()
    let arguments = ["\(roundsPerTurn)"]
    guard let program = try? Process("\(directory)/primitives", arguments, output: said) else { return costs }
    program.wait()
    guard let output = fopen(said, "r") else { return costs }
    defer { fclose(output) }
    var line = [CChar](repeating: 0, count: 128)
    guard fgets(&line, 128, output) != nil else { return costs }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let numbers = text.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
    guard numbers.count == 4 else { return costs }
    (costs.handshake, costs.seal, costs.open, costs.verify) = (numbers[0], numbers[1], numbers[2], numbers[3])
    return costs
  }
}
