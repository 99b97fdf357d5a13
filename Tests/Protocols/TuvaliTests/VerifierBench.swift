import Bytes
import Common
import Crypto

@testable import Tuvali

/// A verifier engine whose time, wallets and service are played by the test. Its actions are returned as text. It has
/// one session slot unless a test sets another number.
struct VerifierBench {
  typealias Event = VerifierEngine.Event

  static let wallet = LinkID(1)
  static let text = Array(#"{"verifiableCredential":{"type":"Sample","id":"urn:earshot:1"}}"#.utf8)

  var engine: VerifierEngine
  var now = Instant.zero
  /// The last frame that the engine handed out for decryption.
  var unsealing: Unsealing?
  var delivered: [[UInt8]] = []
  var invitations: [Invitation] = []
  /// Whether the invitation was made at the present moment.
  private var isFresh = false
  private var random = SeededRandom(seed: 4711)

  init(isStarted: Bool = true, _ adjust: (inout VerifierEngine.Configuration) -> Void = { _ in }) {
    var configuration = VerifierEngine.Configuration(name: "OVPMOSIP")
    configuration.visitors = 1
    adjust(&configuration)
    engine = VerifierEngine(configuration: configuration, random: SeededRandom(seed: 42))
    if isStarted { _ = handle(.start) }
  }

  mutating func handle(_ event: Event) -> [String] {
    note(engine.handle(event, at: now))
  }

  private mutating func note(_ actions: [VerifierEngine.Action]) -> [String] {
    for action in actions {
      switch action {
      case .unseal(_, let job): unsealing = job
      case .deliver(_, let text): delivered.append(text)
      case .advertise(let invitation):
        invitations.append(invitation)
        isFresh = true
      default: break
      }
    }
    return actions.map(\.words)
  }

  mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, on link: LinkID = wallet, in dialect: Dialect = .v05
  ) -> [String] {
    let (answer, actions) = engine.write(value, to: characteristic, of: dialect, on: link, at: now)
    return answer.words + note(actions)
  }

  /// Advances time, and reports it to the engine.
  mutating func pass(_ duration: Duration) -> [String] {
    now = now.advanced(by: duration)
    return handle(.timer)
  }

  // MARK: A wallet's steps

  /// Simulates a wallet that reads the invitation later than the engine requested it.
  mutating func seeInvitation() {
    if isFresh { now = now.advanced(by: .nanoseconds(1)) }
    isFresh = false
  }

  mutating func open(_ link: LinkID = wallet, mtu: Int = 185) -> [String] {
    seeInvitation()
    return handle(.linkOpened(link, at: now)) + handle(.linkChanged(link, mtu: mtu))
  }

  /// A valid Identify for an invitation, the present one by default, and its session keys.
  mutating func identification(for invitation: Invitation? = nil) throws -> (Identify, SessionKeys) {
    guard let invitation = invitation ?? engine.invitation else {
      throw TuvaliError(.unknown, .stopped, "Nothing is on the air.")
    }
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    let keys = try SessionKeys(own: key, peer: invitation.key, nonce: nonce)
    return (Identify(nonce: nonce, walletKey: key.publicKey), keys)
  }

  /// Connects a wallet that identifies itself.
  mutating func admit(_ link: LinkID = wallet, mtu: Int = 185, in dialect: Dialect = .v05) throws -> SessionKeys {
    _ = open(link, mtu: mtu)
    let (identify, keys) = try identification()
    _ = write(identify.bytes, to: .identify, on: link, in: dialect)
    return keys
  }

  mutating func announce(_ size: Int, on link: LinkID = wallet, in dialect: Dialect = .v05) -> [String] {
    write(ResponseSize(size).bytes(as: dialect.sizeEncoding), to: .responseSize, on: link, in: dialect)
  }

  /// Announces a frame and sends its chunks, except the listed ones.
  mutating func send(
    _ frame: [UInt8], mtu: Int = 185, without lost: Set<Int> = [], on link: LinkID = wallet, in dialect: Dialect = .v05
  ) throws {
    _ = announce(frame.count, on: link, in: dialect)
    try resend(frame, mtu: mtu, without: lost, on: link, in: dialect)
  }

  mutating func resend(
    _ frame: [UInt8], mtu: Int = 185, without lost: Set<Int> = [], on link: LinkID = wallet, in dialect: Dialect = .v05
  ) throws {
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: mtu), firstSequence: dialect.firstSequence)
    for sequence in chunker.sequences where !lost.contains(sequence) {
      guard let chunk = chunker.chunk(sequence) else { continue }
      _ = write(chunk, to: .submitResponse, on: link, in: dialect)
    }
  }

  /// Requests a report and waits for it.
  mutating func report(in dialect: Dialect = .v05) -> [String] {
    write(TransferReportRequest.report.bytes, to: .transferReportRequest, in: dialect)
      + pass(engine.configuration.reportDelay)
  }

  /// Acts as the service does on a complete frame.
  mutating func unsealAndKeep() -> [String] {
    guard let unsealing else { return ["nothing to unseal"] }
    return handle(.unsealed(Self.wallet, unsealing.run())) + handle(.kept(Self.wallet, nil))
  }

  /// Runs a session until the verdict is due.
  mutating func receive() throws {
    let keys = try admit()
    try send(keys.seal(Self.text))
    _ = report()
    _ = unsealAndKeep()
  }

  // MARK: Stages

  /// Stages of a session.
  enum Stage: CaseIterable {
    case ready, receiving, reporting, unsealing, keeping, deciding, leaving, closing

    /// Whether the credential has not been received yet.
    var isUnderWay: Bool {
      switch self {
      case .ready, .receiving, .reporting, .unsealing, .keeping: true
      case .deciding, .leaving, .closing: false
      }
    }
  }

  /// A verifier whose session has reached this stage.
  init(at stage: Stage) throws {
    self.init()
    let keys = try admit()
    let frame = try keys.seal(Self.text)
    switch stage {
    case .ready: break
    case .receiving: try send(frame, without: [1])
    case .reporting:
      try send(frame)
      _ = write(TransferReportRequest.report.bytes, to: .transferReportRequest)
    case .unsealing:
      try send(frame)
      _ = report()
    case .keeping:
      try send(frame)
      _ = report()
      if let unsealing { _ = handle(.unsealed(Self.wallet, unsealing.run())) }
    case .deciding, .leaving:
      try send(frame)
      _ = report()
      _ = unsealAndKeep()
      if stage == .leaving { _ = handle(.decided(Self.wallet, accepted: true)) }
    case .closing: _ = handle(.dismissed(Self.wallet))
    }
  }
}

extension VerifierEngine {
  /// The link of the longest session.
  var visitor: LinkID? { visitors.first }
  /// The progress of that session.
  var progress: Progress? { visitor.flatMap { progress(of: $0) } }
}

extension VerifierEngine.WriteAnswer {
  var words: [String] {
    switch self {
    case .accepted: []
    case .refused(let reason): ["refuse \(reason)"]
    }
  }
}

extension VerifierEngine.Action {
  /// The action in the notation of the tests.
  var words: String {
    switch self {
    case .advertise(let invitation): "advertise \(invitation.name)"
    case .stopAdvertising: "stop advertising"
    case .notify(let link, let characteristic, let dialect, let value):
      "notify \(link.number) \(characteristic) \(Hex.encode(value))" + (dialect == .v05 ? "" : " \(dialect.name)")
    case .cut(let link): "cut \(link.number)"
    case .unseal(let link, _): "unseal \(link.number)"
    case .deliver(let link, _): "deliver \(link.number)"
    case .tell(let link, let notice): "tell \(link.number) \(notice.words)"
    }
  }
}

extension VerifierEngine.Notice {
  var words: String {
    switch self {
    case .secured(let dialect): "secured \(dialect.name)"
    case .statusSent(let accepted): "status sent: \(accepted ? "accepted" : "rejected")"
    case .failed(let error): "\(error.code) \(error.reason)"
    case .refused(let reason): "refused \(reason)"
    default: "\(self)"
    }
  }
}
