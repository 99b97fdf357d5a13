import Common
import Compression
import Crypto
import Loop
import Tuvali

/// The verifier's engine on one core: the cost of a chunk and of a credential, compared with C. The two alternate, and
/// the best result of each counts.
@LoopActor
enum EngineBench {
  private static let turns = 5
  private static let roundsPerTurn = 3

  static func run() -> [Figure] {
    // The text compresses to three quarters of its size.
    let text = SystemRandomBytes.text(4 << 20)
    let (key, nonce) = (SystemRandomBytes.make(AESGCM.keySize), SystemRandomBytes.make(AESGCM.nonceSize))
    guard let zipped = try? Gzip.compress(text),
      let frame = try? AESGCM.seal(zipped, key: SecretBytes(copying: key), nonce: nonce),
      let chunks = chunks(of: frame),
      var bare = BareC(key: key, nonce: nonce, frame: frame, chunks: chunks, text: text)
    else { return [] }
    defer { bare.remove() }
    var (rate, bytes) = (0.0, 0.0)
    for _ in 0..<turns {
      for _ in 0..<roundsPerTurn {
        rate = max(rate, chunksPerSecond(chunks, frame.count))
        bytes = max(bytes, bytesPerSecond(text))
      }
      bare.run(rounds: roundsPerTurn)
    }
    return [
      .more("chunk decode + assemble, MTU 517", rate, "1/s", goal: 1_000_000),
      .more("chunk decode + assemble in C, CRC-16 by eight bytes", bare.chunks, "1/s"),
      .more("chunk decode + assemble in C, CRC-16 byte by byte", bare.chunksByteByByte, "1/s"),
      .more("chunk decode + assemble, share of C's speed", share(rate, bare.chunks), "", goal: 0.8),
      .more("assemble + CRC + decrypt + inflate, encrypted bytes", bytes / 1e6, "MB/s", goal: 100),
      .more("assemble + CRC + decrypt + inflate in C", bare.bytes / 1e6, "MB/s"),
      .more("assemble + CRC + decrypt + inflate, share of C", share(bytes, bare.bytes), "", goal: 0.85),
    ]
  }

  private static func share(_ ours: Double, _ bare: Double) -> Double { bare > 0 ? ours / bare : 0 }

  private static func chunks(of frame: [UInt8]) -> [[UInt8]]? {
    guard let chunker = try? Chunker(frame: frame, layout: ChunkLayout(mtu: 517), firstSequence: 1) else { return nil }
    return chunker.sequences.compactMap { chunker.chunk($0) }
  }

  /// Chunks per second through `VerifierEngine.write`: decoded, checked, and stored.
  private static func chunksPerSecond(_ chunks: [[UInt8]], _ size: Int) -> Double {
    var session = Session(limit: 8 << 20)
    session.announce(size)
    let begin = processorTime()
    for chunk in chunks { session.write(.submitResponse, chunk) }
    return Double(chunks.count) / (processorTime() - begin)
  }

  /// Bytes of a credential per second, from its first chunk to its text.
  private static func bytesPerSecond(_ text: [UInt8]) -> Double {
    var session = Session(limit: 8 << 20)
    guard let frame = session.seal(text), let chunks = chunks(of: frame) else { return 0 }
    session.announce(frame.count)
    let begin = processorTime()
    for chunk in chunks { session.write(.submitResponse, chunk) }
    let isWhole = session.finish() == text.count
    return isWhole ? Double(frame.count) / (processorTime() - begin) : 0
  }
}

/// A verifier's engine with a wallet that has just sent Identify.
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

  /// Requests the transfer report, and performs the unsealing that follows.
  ///
  /// - Returns: number of bytes of the credential.
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

  /// Text of 64 different letters, which compresses to three quarters of its size, like base64.
  static func text(_ count: Int) -> [UInt8] {
    make(count).map { 0x30 + $0 % 64 }
  }
}
