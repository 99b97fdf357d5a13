import Bytes
import Common
import Crypto
import TestSupport

@testable import Tuvali

/// A verifier, its wallets and its service, driven by a script. Each link has a wallet of its own: a dialect, keys, a
/// credential, and the missing chunks of the last report.
struct VerifierStand {
  private struct Wallet {
    var dialect: Dialect
    var text: [UInt8]
    var frame: [UInt8]
    /// Chunks that the verifier's last report listed and the wallet has not sent again.
    var missing: [Int] = []
    var unsealing: Unsealing?
    var hasResent = false
  }

  private(set) var reached: Set<String> = []

  private var engine: VerifierEngine
  private var now = Instant.zero
  private var random = SeededRandom(seed: 1)
  private var wallets: [LinkID: Wallet] = [:]

  private static let dialects = [Dialect.v05, .v04, .v03]
  /// Texts of some thousand bytes that hardly compress: a frame has a dozen chunks or more at small MTUs.
  private static let texts: [[UInt8]] = (1...4).map { number in
    var random = SeededRandom(seed: UInt64(number))
    return Array(Hex.encode(random.bytes(600 * number)).utf8)
  }

  static let goals: Set<String> = {
    var goals: Set<String> = ["three visits at a time", "a visit gives way"]
    for dialect in dialects {
      let name = dialect.name.rawValue
      goals.formUnion(["\(name): a report names chunks", "\(name): a chunk is sent again"])
      goals.insert("\(name): a frame is whole after that")
    }
    return goals
  }()

  init() {
    var configuration = VerifierEngine.Configuration(name: "OVPMOSIP")
    configuration.credentialLimit = 1 << 16
    configuration.visitors = 3
    engine = VerifierEngine(configuration: configuration, random: SeededRandom(seed: 42))
    handle(.start)
  }

  // MARK: Seeds

  /// Steps of one session, from its link to its end. Some chunks are lost, and sent again when the report lists them.
  private static func visit(_ link: UInt8, _ dialect: UInt8, lost: UInt8, mtu: UInt8 = 100) -> [[UInt8]] {
    var steps: [[UInt8]] = [[0], [1, 0, mtu], [4, dialect], [5]]
    if lost != 0 { steps += [[9, lost], [7], [13, 1]] }
    steps += [[6, 0], [7], [13, 1]]
    steps += [[8], [10, 0], [11, 1], [13, 255], [2]]
    for index in steps.indices { steps[index][0] |= link << 4 }
    return steps
  }

  /// Sessions whose steps alternate.
  private static func together(_ visits: [[[UInt8]]]) -> [UInt8] {
    let longest = visits.map(\.count).max() ?? 0
    return (0..<longest).flatMap { step in visits.flatMap { $0.indices.contains(step) ? $0[step] : [] } }
  }

  static var seeds: [[UInt8]] {
    let numbers: Range<UInt8> = 0..<3
    var seeds: [[UInt8]] = numbers.map { number in
      let steps = visit(number, number, lost: 0) + visit(number + 3, number, lost: 0x22)
      return steps.flatMap(\.self)
    }
    let three = together(numbers.map { visit($0, $0, lost: 2 | 2 << $0) })
    let silent: [[UInt8]] = (0..<4 as Range<UInt8>).map { [$0 << 4, 4 | $0 << 4, 0, 5 | $0 << 4, 13, 60, 13, 60] }
    let junk: [UInt8] = [0, 3, 2, 0, 44] + [UInt8](repeating: 9, count: 44)
    seeds += [three, three + three, silent.flatMap(\.self), junk + [14, 14, 12]]
    seeds += [[0, 1, 0, 23, 4, 0, 13, 255], [0, 4, 2, 5, 9, 3, 4, 2, 1, 0, 7]]
    return seeds
  }

  // MARK: Steps

  /// The lower four bits of a byte are the event, the upper ones the link.
  mutating func step(_ script: inout Script) {
    let byte = script.byte()
    let link = LinkID(UInt64(byte >> 4))
    switch byte & 0xF {
    // The radio reports half of the links as they come up, and the others later.
    case 0:
      let openedAt = byte & 0x80 == 0 ? now : now.advanced(by: .seconds(-5))
      handle(.linkOpened(link, at: openedAt, isDistrusted: link.number % 8 == 7))
    case 1: handle(.linkChanged(link, mtu: script.u16()))
    case 2: handle(.linkClosed(link))
    case 3:
      let characteristic = script.choice(of: Characteristic.allCases)
      let dialect = script.choice(of: Self.dialects)
      write(script.value(), to: characteristic, of: dialect, on: link)
    case 4: identify(link, script.choice(of: Self.dialects))
    case 5: announce(link)
    case 6: if script.flag() { send(link) } else { sendMissing(link) }
    case 7: request(link)
    case 8: if let unsealing = wallets[link]?.unsealing { handle(.unsealed(link, unsealing.run())) }
    case 9: send(link, without: script.byte())
    case 10: handle(.kept(link, script.flag() ? TuvaliError(.unknown, .stopped, "It cannot be kept.") : nil))
    case 11: handle(.decided(link, accepted: script.flag()))
    case 12:
      handle(script.flag() ? .room(.init(credentials: Int(script.byte() % 4), bytes: 1 << 20)) : .dismissed(link))
    case 13: pass(.milliseconds(Int(script.byte()) * 50))
    case 14: handle(engine.isStarted ? .stop : .start)
    default: if let deadline = engine.deadline { pass(now.duration(to: deadline)) }
    }
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: max(duration, .zero))
    handle(.timer)
    if let deadline = engine.deadline { promise(deadline > now, "what was due is done") }
  }

  // MARK: Wallets

  private mutating func identify(_ link: LinkID, _ dialect: Dialect) {
    guard let invitation = engine.invitation else { return }
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    let text = Self.texts[Int(link.number) % Self.texts.count]
    let keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce)
    let frame = keys.flatMap { keys in taken { try keys.seal(text) } } ?? []
    wallets[link] = Wallet(dialect: dialect, text: text, frame: frame)
    write(Identify(nonce: nonce, walletKey: key.publicKey).bytes, to: .identify, of: dialect, on: link)
  }

  private mutating func announce(_ link: LinkID) {
    guard let wallet = wallets[link] else { return }
    let size = ResponseSize(wallet.frame.count).bytes(as: wallet.dialect.sizeEncoding)
    write(size, to: .responseSize, of: wallet.dialect, on: link)
  }

  private mutating func request(_ link: LinkID) {
    let dialect = wallets[link]?.dialect ?? .v05
    write(TransferReportRequest.report.bytes, to: .transferReportRequest, of: dialect, on: link)
  }

  private func chunker(_ link: LinkID) -> Chunker? {
    guard let wallet = wallets[link] else { return nil }
    let layout = ChunkLayout(mtu: max(engine.progress(of: link)?.mtu ?? 185, Limits.minimumMTU))
    return taken { try Chunker(frame: wallet.frame, layout: layout, firstSequence: wallet.dialect.firstSequence) }
  }

  /// Sends the frame from its beginning; the bits that are set select lost chunks among each eight.
  private mutating func send(_ link: LinkID, without lost: UInt8 = 0) {
    guard let wallet = wallets[link], let chunker = chunker(link) else { return }
    for sequence in chunker.sequences where lost >> UInt8(sequence % 8) & 1 == 0 {
      if let chunk = chunker.chunk(sequence) { write(chunk, to: .submitResponse, of: wallet.dialect, on: link) }
    }
  }

  /// Sends the chunks of the last report; the whole frame where there was none.
  private mutating func sendMissing(_ link: LinkID) {
    guard let wallet = wallets[link], let chunker = chunker(link) else { return }
    guard !wallet.missing.isEmpty else { return send(link) }
    wallets[link]?.missing = []
    for sequence in wallet.missing {
      guard let chunk = chunker.chunk(sequence) else { continue }
      let before = engine.progress(of: link)?.chunksMissing ?? 0
      write(chunk, to: .submitResponse, of: wallet.dialect, on: link)
      guard let after = engine.progress(of: link)?.chunksMissing, after < before else { continue }
      wallets[link]?.hasResent = true
      reached.insert("\(wallet.dialect.name.rawValue): a chunk is sent again")
    }
  }

  private mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, on link: LinkID
  ) {
    let (answer, actions) = engine.write(value, to: characteristic, of: dialect, on: link, at: now)
    let isRefused = answer != .accepted
    if isRefused, characteristic == .submitResponse {
      promise(!engine.visitors.contains(link), "the chunks of a session are accepted")
    }
    perform(actions)
  }

  // MARK: The verifier

  private mutating func handle(_ event: VerifierEngine.Event) { perform(engine.handle(event, at: now)) }

  private mutating func perform(_ actions: [VerifierEngine.Action]) {
    for action in actions {
      switch action {
      // A wallet reads the invitation later than the engine requested it.
      case .advertise: now = now.advanced(by: .nanoseconds(1))
      case .unseal(let link, let job): wallets[link]?.unsealing = job
      case .deliver(let link, let text): delivered(text, on: link)
      case .notify(let link, let characteristic, let dialect, let value):
        promise(value.count <= Limits.writeBytes, "a notification fits")
        if characteristic == .transferReportResponse { report(value, on: link, dialect) }
      default: break
      }
    }
    promise(engine.waitingLinks <= engine.configuration.waitingLinks, "the waiting room has its limit")
    promise(engine.slotsInUse <= engine.configuration.visitors, "there are no more slots than configured")
    let keys = storedProperty("keys", of: engine, as: InvitationKeys.self)?.count ?? .max
    promise(keys <= 1 + InvitationKeys.earlierLimit, "the keys of earlier codes have their limit")
    let figures = engine.visitors.compactMap { engine.progress(of: $0) }
    for progress in figures {
      promise(progress.bytesReceived <= progress.bytesExpected, "no more is taken than was announced")
      promise((0...progress.chunksExpected).contains(progress.chunksMissing), "what is missing can be counted")
    }
    if figures.count >= 3 { reached.insert("three visits at a time") }
    if engine.counters.evictedSessions > 0 { reached.insert("a visit gives way") }
  }

  private mutating func delivered(_ text: [UInt8], on link: LinkID) {
    guard let wallet = wallets[link] else { return promise(false, "what is delivered came from a wallet") }
    promise(text == wallet.text, "what is delivered was sent on the same link")
    if wallet.hasResent { reached.insert("\(wallet.dialect.name.rawValue): a frame is whole after that") }
  }

  private mutating func report(_ value: [UInt8], on link: LinkID, _ dialect: Dialect) {
    guard let report = taken({ try TransferReport(reading: value) }) else {
      return promise(false, "a report can be read")
    }
    let progress = engine.progress(of: link)
    promise(progress != nil, "a report goes to a visitor")
    guard case .missing(let sequences, _) = report else { return }
    let first = dialect.firstSequence
    let all = first..<first + (progress?.chunksExpected ?? 0)
    promise(!sequences.isEmpty && sequences.allSatisfy(all.contains), "a report names chunks that there are")
    promise(sequences.count <= progress?.chunksMissing ?? 0, "a report names no more than is missing")
    wallets[link]?.missing = sequences
    reached.insert("\(dialect.name.rawValue): a report names chunks")
  }
}
