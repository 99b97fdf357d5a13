import Bytes
import Common
import Crypto

@testable import Tuvali

/// A wallet whose time, radio and verifier the test plays. Its actions are returned as text.
struct WalletBench {
  typealias Event = WalletEngine.Event

  static let verifierName = "OVPMOSIP"
  /// Two chunks at an MTU of 185.
  static let text = noise(300, seed: 9)

  var engine: WalletEngine
  var now = Instant.zero
  let dialect: Dialect
  let verifier: X25519.PrivateKey
  let invitation: Invitation
  var sealing: Sealing?
  /// Writes to Submit response since the test last took them.
  var chunks: [[UInt8]] = []
  /// The value of the last write to each characteristic.
  var values: [Characteristic: [UInt8]] = [:]
  /// The sentences of all failures so far.
  var failures: [String] = []

  init(
    text: [UInt8] = text, in dialect: Dialect = .v05, _ adjust: (inout WalletEngine.Configuration) -> Void = { _ in }
  ) throws {
    var random = SeededRandom(seed: 12)
    verifier = X25519.PrivateKey(randomFrom: &random)
    invitation = try Invitation(name: Self.verifierName, key: verifier.publicKey)
    self.dialect = dialect
    var configuration = WalletEngine.Configuration()
    adjust(&configuration)
    engine = try WalletEngine(
      invitation: invitation.text(as: dialect.invitationForm), text: text, configuration: configuration,
      random: SeededRandom(seed: 13))
  }

  mutating func handle(_ event: Event) -> [String] {
    let actions = engine.handle(event, at: now)
    for action in actions {
      switch action {
      case .seal(let job): sealing = job
      case .write(let value, let characteristic, _, _):
        values[characteristic] = value
        if characteristic == .submitResponse { chunks.append(value) }
      case .tell(.failed(let error)): failures.append(error.sentence)
      default: break
      }
    }
    return actions.map(\.words)
  }

  /// Advances time, and reports it to the engine.
  mutating func pass(_ duration: Duration) -> [String] {
    now = now.advanced(by: duration)
    return handle(.timer)
  }

  // MARK: The verifier's side

  /// The verifier's service data, changed by `adjust`.
  func serviceData(in dialect: Dialect? = nil) -> [BluetoothUUID: [UInt8]] {
    let dialect = dialect ?? self.dialect
    return [
      dialect.service: invitation.advertisedServiceData, dialect.scanResponse: invitation.scanResponseServiceData,
    ]
  }

  mutating func sight() -> [String] {
    handle(.sighted(token: 7, serviceData: serviceData()))
  }

  var services: [BluetoothUUID: Set<BluetoothUUID>] {
    [
      dialect.service: Set(Characteristic.allCases.map(dialect.uuid(of:))), BluetoothUUID(short: 0x1801): [],
    ]
  }

  mutating func subscribeAll() -> [String] {
    Characteristic.allCases.filter { $0.direction == .toWallet }.reduce([]) { $0 + handle(.subscribed($1)) }
  }

  /// The keys that the verifier derives from the wallet's Identify.
  func verifierKeys() throws -> SessionKeys {
    let identify = try Identify(reading: values[.identify] ?? [])
    return try SessionKeys(own: verifier, peer: identify.walletKey, nonce: identify.nonce)
  }

  mutating func seal() -> [String] {
    guard let sealing else { return ["nothing to seal"] }
    return handle(.sealed(sealing.run()))
  }

  /// Reports to the wallet that this number of chunks has left the radio.
  mutating func chunksLeave(_ count: Int, _ failure: WalletEngine.WriteFailure? = nil) -> [String] {
    (0..<count).reduce([]) { words, _ in words + handle(.written(.submitResponse, failure)) }
  }

  mutating func report(_ report: TransferReport) -> [String] {
    handle(.notified(.transferReportResponse, report.bytes))
  }

  // MARK: Stages

  /// Stages of a transfer.
  enum Stage: Int, CaseIterable {
    case idle, scanning, connecting, discovering, exchangingMTU, subscribing, identifying, sealing, announcing, sending
    case asking, awaitingStatus, leaving, ended

    /// Whether a link exists or is being made.
    var hasLink: Bool { self != .idle && self != .scanning && self != .ended }
    /// Whether the end of the link is a failure.
    var isUnderWay: Bool { hasLink && self != .awaitingStatus && self != .leaving }
  }

  /// A wallet whose transfer has reached this stage.
  init(
    at stage: Stage, text: [UInt8] = text, mtu: Int = 185, in dialect: Dialect = .v05,
    _ adjust: (inout WalletEngine.Configuration) -> Void = { _ in }
  ) throws {
    try self.init(text: text, in: dialect, adjust)
    let steps: [(Stage, (inout WalletBench) -> [String])] = [
      (.scanning, { $0.handle(.start) }),
      (.connecting, { $0.sight() }),
      (.discovering, { $0.handle(.connected) }),
      (.exchangingMTU, { $0.handle(.discovered($0.services)) }),
      (.subscribing, { $0.handle(.mtuChanged(mtu)) }),
      (.identifying, { $0.subscribeAll() }),
      (.sealing, { $0.handle(.written(.identify, nil)) }),
      (.announcing, { $0.seal() }),
      (.sending, { $0.handle(.written(.responseSize, nil)) }),
      (.asking, { $0.allChunksLeave() }),
      (.awaitingStatus, { $0.report(.success) }),
      (.leaving, { $0.handle(.notified(.verificationStatus, [0])) }),
      (.ended, { $0.handle(.disconnected) }),
    ]
    for (step, take) in steps where step.rawValue <= stage.rawValue { _ = take(&self) }
  }

  /// Reports that all chunks of the round have left the radio.
  mutating func allChunksLeave() -> [String] {
    var words: [String] = []
    var left = 0
    while left < chunks.count {
      left += 1
      words += chunksLeave(1)
    }
    return words
  }
}

extension WalletEngine.Action {
  /// The action in the notation of the tests.
  var words: String {
    switch self {
    case .scan(let services):
      "scan " + services.map { $0.short.map { String($0, radix: 16) } ?? "?" }.joined(separator: " ")
    case .stopScanning: "stop scanning"
    case .connect(let token): "connect \(token)"
    case .discover: "discover"
    case .exchangeMTU(let mtu): "exchange MTU \(mtu)"
    case .subscribe(let characteristic, let dialect): "subscribe \(characteristic) \(dialect.name)"
    case .write(let value, let characteristic, _, let withResponse):
      "\(withResponse ? "request" : "command") \(characteristic) "
        + (value.count > 4 ? "\(Hex.encode(value.prefix(2))).. \(value.count)" : Hex.encode(value))
    case .seal: "seal"
    case .disconnect: "disconnect"
    case .tell(let notice): "tell \(notice.words)"
    }
  }
}

extension WalletEngine.Notice {
  var words: String {
    switch self {
    case .connected(let mtu): "connected \(mtu)"
    case .status(let accepted): accepted ? "accepted" : "rejected"
    case .failed(let error): "\(error.code) \(error.reason)"
    default: "\(self)"
    }
  }
}
