import Common
import Crypto
import Loop
import Tuvali

/// The verifier's engine alone, on one core: what a chunk and what a credential cost.
@LoopActor
enum EngineBench {
  static func run() -> [Figure] {
    let frame = SystemRandomBytes.make(4 << 20)
    return [chunks(frame), credential()]
  }

  /// Chunks through `VerifierEngine.handle`: decoded, checked, put in their place.
  private static func chunks(_ frame: [UInt8]) -> Figure {
    guard let chunker = try? Chunker(frame: frame, layout: ChunkLayout(mtu: 517), firstSequence: 1) else {
      return Figure(name: "chunk decode + assemble, MTU 517", value: 0, unit: "1/s", goal: 1e6, better: .higher)
    }
    let chunks = chunker.sequences.compactMap { chunker.chunk($0) }
    let rate = best(of: 5) {
      var session = Session(limit: 8 << 20)
      session.announce(frame.count)
      let elapsed = ContinuousClock().measure {
        for chunk in chunks { session.write(.submitResponse, chunk) }
      }
      return Double(chunks.count) / seconds(elapsed)
    }
    return Figure(
      name: "chunk decode + assemble, MTU 517", value: rate, unit: "1/s", goal: 1_000_000, better: .higher)
  }

  /// A credential of 4 MiB, from its first chunk to its text.
  private static func credential() -> Figure {
    let text = SystemRandomBytes.text(4 << 20)
    let rate = best(of: 5) {
      var session = Session(limit: 8 << 20)
      guard let frame = session.seal(text),
        let chunker = try? Chunker(frame: frame, layout: ChunkLayout(mtu: 517), firstSequence: 1)
      else { return 0 }
      let chunks = chunker.sequences.compactMap { chunker.chunk($0) }
      session.announce(frame.count)
      var whole = false
      let elapsed = ContinuousClock().measure {
        for chunk in chunks { session.write(.submitResponse, chunk) }
        whole = session.finish() == text.count
      }
      return whole ? Double(frame.count) / seconds(elapsed) / 1e6 : 0
    }
    return Figure(
      name: "assemble + CRC + decrypt + inflate, encrypted bytes", value: rate, unit: "MB/s", goal: 100,
      better: .higher)
  }

  private static func best(of rounds: Int, _ body: () -> Double) -> Double {
    (0..<rounds).map { _ in body() }.max() ?? 0
  }

  private static func seconds(_ duration: Duration) -> Double {
    duration / .seconds(1)
  }
}

/// A verifier's engine with a wallet that has just said who it is.
private struct Session {
  private let link = LinkID(1)
  private let now = Instant.zero.advanced(by: .seconds(1))
  private var engine: VerifierEngine
  private let keys: SessionKeys?

  init(limit: Int) {
    var configuration = VerifierEngine.Configuration(name: "BENCH")
    configuration.credentialLimit = limit
    configuration.reportDelay = .zero
    engine = VerifierEngine(configuration: configuration, random: SystemRandom())
    _ = engine.handle(.start, at: .zero)
    _ = engine.handle(.linkOpened(link, at: now), at: now)
    var random = SystemRandom()
    let own = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    keys = engine.invitation.flatMap { try? SessionKeys(own: own, peer: $0.key, nonce: nonce) }
    write(.identify, Identify(nonce: nonce, walletKey: own.publicKey).bytes)
  }

  @discardableResult
  mutating func write(_ characteristic: Characteristic, _ value: [UInt8]) -> [VerifierEngine.Action] {
    engine.write(value, to: characteristic, of: .v05, on: link, at: now).actions
  }

  mutating func announce(_ size: Int) {
    write(.responseSize, ResponseSize(size).bytes(as: .bigEndian))
  }

  func seal(_ text: [UInt8]) -> [UInt8]? {
    keys.flatMap { try? Sealing(text: text, keys: $0).run().get() }
  }

  /// Asks for the report, and carries out the unsealing that follows.
  ///
  /// - Returns: the bytes of the credential.
  mutating func finish() -> Int {
    for action in write(.transferReportRequest, [1]) {
      if case .unseal(_, let job) = action { return (try? job.run().get().count) ?? 0 }
    }
    return 0
  }
}

enum SystemRandomBytes {
  static func make(_ count: Int) -> [UInt8] {
    var random = SystemRandom()
    return random.bytes(count)
  }

  /// Text of 64 different letters: it compresses to three quarters, as base64 does.
  static func text(_ count: Int) -> [UInt8] {
    make(count).map { 0x30 + $0 % 64 }
  }
}
