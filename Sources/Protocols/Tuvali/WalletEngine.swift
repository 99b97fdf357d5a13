import Bytes
import Common
import Crypto

/// The wallet: central, GATT client, sender of one credential over one connection. Facts: tuvali.md sections 1 to 8.
///
/// Unlike the originals it compares all 32 key bytes with the invitation, so an impostor who copies the advertisement's
/// five is passed over.
public struct WalletEngine: Sendable {
  public let configuration: Configuration
  public private(set) var progress = Progress()

  private let invitation: Invitation
  private let isJSONInvitation: Bool
  private var text: [UInt8]
  private var random: any RandomSource & Sendable
  private var stage = Stage.idle
  /// Advertisers that showed the name and the five bytes, and not the rest of the key.
  private var impostors = 0
  /// When the stage must have been left, for the stages that have a time of their own.
  private var stageEnd = Instant.zero
  /// The verifier's last sign of life.
  private var lastSign = Instant.zero

  private enum Stage: Sendable {
    case idle
    case scanning
    case connecting(Dialect)
    case discovering(Dialect, attempt: Int, retryAt: Instant?)
    case exchangingMTU(Dialect)
    case subscribing(Dialect, left: [Characteristic])
    case identifying(Dialect, SessionKeys)
    case sealing(Dialect)
    case announcing(Dialect, [UInt8])
    case sending(Dialect, Delivery)
    /// All of it was received; the verdict is awaited.
    case awaitingStatus
    /// Told, and disconnecting.
    case leaving
    case ended
  }

  /// - Parameters:
  ///   - invitation: the QR code's text, in any of its forms.
  ///   - text: the credential, in UTF-8.
  ///   - random: where the key pair and the nonce come from.
  /// - Throws: TVW_CON_001 for an invitation that is none; TVW_UNK_001 for a credential that is empty, too large or
  ///   not UTF-8.
  public init(
    invitation: String, text: [UInt8], configuration: Configuration, random: any RandomSource & Sendable
  ) throws(TuvaliError) {
    self.invitation = try Invitation(reading: invitation)
    guard !text.isEmpty else {
      throw TuvaliError(.walletUnknown, .invalidArgument, "The credential is empty.")
    }
    guard text.count <= configuration.credentialLimit else {
      throw TuvaliError(
        .walletUnknown, .limitExceeded,
        "The credential has \(text.count) bytes, and the limit is \(configuration.credentialLimit).")
    }
    guard String(validating: text, as: UTF8.self) != nil else {
      throw TuvaliError(.walletUnknown, .invalidArgument, "The credential is not UTF-8 text.")
    }
    isJSONInvitation = Invitation.isJSON(invitation)
    self.text = text
    self.configuration = configuration
    self.random = random
  }

  /// When `Event.timer` is due; nil when nothing is timed.
  public var deadline: Instant? {
    switch stage {
    case .idle, .ended: nil
    case .discovering(_, _, let retryAt?): min(retryAt, stageEnd)
    case .scanning, .connecting, .discovering, .exchangingMTU, .subscribing, .identifying, .leaving: stageEnd
    case .sealing, .announcing, .awaitingStatus: lastSign.advanced(by: configuration.idleTimeout)
    case .sending(_, let delivery):
      min(delivery.reportDue ?? .init(nanoseconds: .max), lastSign.advanced(by: configuration.idleTimeout))
    }
  }

  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start: return start(at: now)
    case .stop:
      return fail(TuvaliError(.walletUnknown, .stopped, "The transfer was ended by a local program."), at: now)
    case .sighted(let token, let serviceData): return sight(token, serviceData, at: now)
    case .connected: return connected()
    case .discovered(let services): return discover(services, at: now)
    case .mtuChanged(let mtu): return change(mtu: mtu, at: now)
    case .subscribed: return subscribed(at: now)
    case .written(let characteristic, let failure): return written(characteristic, failure, at: now)
    case .sealed(let result): return sealed(result, at: now)
    case .notified(let characteristic, let value): return notified(characteristic, value, at: now)
    case .disconnected: return disconnected()
    case .timer: return timer(at: now)
    }
  }

  // MARK: Finding the verifier

  private mutating func start(at now: Instant) -> [Action] {
    guard case .idle = stage else { return [] }
    stage = .scanning
    stageEnd = now.advanced(by: configuration.scanTimeout)
    return [.scan(dialects.map(\.service))]
  }

  /// 0.4 and 0.3 look the same on the air; the form of the invitation tells them apart.
  private var dialects: [Dialect] { isJSONInvitation ? [.v03] : [.v05, .v04] }

  private mutating func sight(
    _ token: UInt64, _ serviceData: [BluetoothUUID: [UInt8]], at now: Instant
  ) -> [Action] {
    guard case .scanning = stage else { return [] }
    for dialect in dialects where serviceData[dialect.service] == invitation.advertisedServiceData {
      guard let rest = serviceData[dialect.scanResponse] else { continue }
      guard rest == invitation.scanResponseServiceData else {
        impostors += 1
        continue
      }
      stage = .connecting(dialect)
      stageEnd = now.advanced(by: configuration.connectTimeout)
      return [.stopScanning, .connect(token: token)]
    }
    return []
  }

  private mutating func connected() -> [Action] {
    guard case .connecting(let dialect) = stage else { return [] }
    stage = .discovering(dialect, attempt: 1, retryAt: nil)
    return [.discover]
  }

  private mutating func discover(_ services: [BluetoothUUID: Set<BluetoothUUID>], at now: Instant) -> [Action] {
    guard case .discovering(let dialect, let attempt, _) = stage else { return [] }
    let needed = Characteristic.allCases.filter { $0.direction != .unused }.map(dialect.uuid(of:))
    if services[dialect.service]?.isSuperset(of: needed) == true {
      stage = .exchangingMTU(dialect)
      return [.exchangeMTU(Limits.offeredMTU)]
    }
    guard attempt <= 5 else {
      let error = TuvaliError(
        .walletServiceNotFound, .protocolViolation, "The verifier does not serve what it advertises.")
      return fail(error, at: now)
    }
    // 2, 4, 8, 16, 32 ms.
    let retryAt = now.advanced(by: .milliseconds(1 << attempt))
    stage = .discovering(dialect, attempt: attempt + 1, retryAt: retryAt)
    return []
  }

  private mutating func change(mtu: Int, at now: Instant) -> [Action] {
    progress.mtu = mtu
    guard case .exchangingMTU(let dialect) = stage else { return [] }
    guard ChunkLayout(mtu: mtu).isUsable else {
      let error = TuvaliError(
        .walletMTU, .protocolViolation,
        "The verifier agreed on an MTU of \(mtu), and a transfer needs \(Limits.minimumMTU) at least.")
      return fail(error, at: now)
    }
    let toWallet = Characteristic.allCases.filter { $0.direction == .toWallet }
    stage = .subscribing(dialect, left: toWallet)
    return [.tell(.connected(mtu: mtu))] + toWallet.map { .subscribe($0, dialect) }
  }

  // MARK: Saying who we are

  private mutating func subscribed(at now: Instant) -> [Action] {
    guard case .subscribing(let dialect, var left) = stage else { return [] }
    left.removeLast()
    stage = .subscribing(dialect, left: left)
    guard left.isEmpty else { return [] }
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    guard let keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce) else {
      let error = TuvaliError(
        .walletInvalidURI, .protocolViolation, "The verifier's public key is a weak one: it makes the secret zero.")
      return fail(error, at: now)
    }
    stage = .identifying(dialect, keys)
    let identify = Identify(nonce: nonce, walletKey: key.publicKey)
    return [write(identify.bytes, to: .identify, dialect)]
  }

  private mutating func sealed(_ result: Result<[UInt8], TuvaliError>, at now: Instant) -> [Action] {
    guard case .sealing(let dialect) = stage else { return [] }
    lastSign = now
    switch result {
    case .failure(let error): return fail(error, at: now)
    case .success(let frame):
      stage = .announcing(dialect, frame)
      progress.bytesExpected = frame.count
      return [write(ResponseSize.encode(frame.count, as: dialect.sizeEncoding), to: .responseSize, dialect)]
    }
  }

  private mutating func written(
    _ characteristic: Characteristic, _ failure: WriteFailure?, at now: Instant
  ) -> [Action] {
    if let failure { return refused(characteristic, failure, at: now) }
    lastSign = now
    switch (stage, characteristic) {
    case (.identifying(let dialect, let keys), .identify):
      stage = .sealing(dialect)
      let text = text
      self.text = []
      return [.tell(.secured), .seal(Sealing(text: text, keys: keys))]
    case (.announcing(let dialect, let frame), .responseSize):
      do throws(TuvaliError) {
        let chunker = try Chunker(
          frame: frame, layout: ChunkLayout(mtu: progress.mtu), firstSequence: dialect.firstSequence)
        progress.chunksExpected = chunker.count
        stage = .sending(dialect, Delivery(chunker, window: configuration.window))
        return [.tell(.announced)] + inDelivery(at: now) { $0.fill(&$1) }
      } catch {
        return fail(error, at: now)
      }
    case (.sending, .submitResponse):
      return inDelivery(at: now) { $0.written(&$1) }
    default: return []
    }
  }

  private mutating func refused(
    _ characteristic: Characteristic, _ failure: WriteFailure, at now: Instant
  ) -> [Action] {
    switch (failure, characteristic) {
    case (.busy, _):
      return fail(TuvaliError(.walletState, .busy, "The verifier is serving another wallet. Try again."), at: now)
    case (_, .transferReportRequest):
      return fail(TuvaliError(.walletReport, .protocolViolation, "The verifier refused the report request."), at: now)
    case (_, .submitResponse):
      // A chunk that was refused is missing, and will be in the report.
      if case .sending = stage { return inDelivery(at: now) { $0.written(&$1) } }
      return []
    default:
      return fail(TuvaliError(.walletState, .protocolViolation, "The verifier refused what was written."), at: now)
    }
  }

  // MARK: Sending

  /// Lets the delivery go on, and asks for a report when all of a round is with the radio.
  private mutating func inDelivery(
    at now: Instant, _ body: (inout Delivery, inout Progress) -> [Int]
  ) -> [Action] {
    guard case .sending(let dialect, var delivery) = stage else { return [] }
    stage = .leaving  // Out of the stage while it changes, so that nothing is copied.
    let withResponse = delivery.isResending && configuration.resendsWithResponse
    var actions: [Action] = []
    for sequence in body(&delivery, &progress) {
      guard let chunk = delivery.chunker.chunk(sequence) else { continue }
      actions.append(.write(chunk, to: .submitResponse, dialect, withResponse: withResponse))
    }
    if delivery.takeRoundEnd() {
      delivery.asked(at: now, due: now.advanced(by: configuration.reportTimeout))
      actions.append(write([1], to: .transferReportRequest, dialect))
    }
    stage = .sending(dialect, delivery)
    return actions
  }

  private mutating func notified(_ characteristic: Characteristic, _ value: [UInt8], at now: Instant) -> [Action] {
    lastSign = now
    switch characteristic {
    case .transferReportResponse: return reported(value, at: now)
    case .verificationStatus:
      guard case .awaitingStatus = stage, let status = value.first else { return [] }
      // Anything but 0 is a rejection, as with Android.
      return [.tell(.status(accepted: status == 0))] + leave(at: now)
    case .disconnect:
      guard value.first == 1 else { return [] }
      switch stage {
      case .awaitingStatus: return leave(at: now)
      case .leaving, .ended, .idle, .scanning: return []
      default:
        let error = TuvaliError(
          .walletTransfer, .peerEnded, "The verifier ended the transfer before it had the credential.")
        return fail(error, at: now)
      }
    default: return []
    }
  }

  private mutating func reported(_ value: [UInt8], at now: Instant) -> [Action] {
    guard case .sending(_, let delivery) = stage, delivery.reportDue != nil else { return [] }
    guard let report = try? TransferReport(reading: value) else {
      let error = TuvaliError(.walletState, .protocolViolation, "The verifier's transfer report cannot be read.")
      return fail(error, at: now)
    }
    switch report {
    case .success:
      stage = .awaitingStatus
      progress.chunksMissing = 0
      return [.tell(.sent)]
    case .missing(let sequences, _):
      guard progress.failureFrames < Limits.failureFrames else {
        let error = TuvaliError(
          .walletReport, .limitExceeded,
          "After \(Limits.failureFrames) rounds of resending the verifier still misses chunks.")
        return fail(error, at: now)
      }
      progress.failureFrames += 1
      progress.chunksMissing = sequences.count
      return inDelivery(at: now) { $0.resend(sequences, &$1) }
    }
  }

  private func write(_ value: [UInt8], to characteristic: Characteristic, _ dialect: Dialect) -> Action {
    .write(value, to: characteristic, dialect, withResponse: configuration.controlsWithResponse)
  }

  // MARK: Time

  private mutating func timer(at now: Instant) -> [Action] {
    guard let deadline, deadline <= now else { return [] }
    switch stage {
    case .idle, .ended: return []
    case .scanning:
      let seconds = configuration.scanTimeout.components.seconds
      let more = impostors == 0 ? "" : " Something else nearby pretends to be it, with another key."
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The verifier was not found within \(seconds) s.\(more)"), at: now)
    case .discovering(let dialect, let attempt, let retryAt?) where retryAt <= now:
      stage = .discovering(dialect, attempt: attempt, retryAt: nil)
      return [.discover]
    case .connecting, .discovering, .exchangingMTU, .subscribing, .identifying:
      let seconds = configuration.connectTimeout.components.seconds
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The connection to the verifier was not made within \(seconds) s."),
        at: now)
    case .sending(_, let delivery):
      if let due = delivery.reportDue, due <= now {
        guard delivery.askingSince.duration(to: now) < configuration.idleTimeout else {
          return fail(TuvaliError(.walletReport, .timeout, "The verifier answers no report request."), at: now)
        }
        return inDelivery(at: now) { delivery, _ in delivery.askAgain() }
      }
      fallthrough
    case .sealing, .announcing, .awaitingStatus:
      let seconds = configuration.idleTimeout.components.seconds
      return fail(
        TuvaliError(.walletUnknown, .timeout, "There was no sign of the verifier for \(seconds) s."), at: now)
    case .leaving: return disconnected()
    }
  }

  // MARK: Ends

  private mutating func leave(at now: Instant) -> [Action] {
    stage = .leaving
    stageEnd = now.advanced(by: .seconds(2))
    return [.disconnect]
  }

  private mutating func fail(_ error: TuvaliError, at now: Instant) -> [Action] {
    switch stage {
    case .leaving, .ended: return []
    case .idle, .scanning:
      let wasScanning = if case .scanning = stage { true } else { false }
      stage = .ended
      return (wasScanning ? [.stopScanning] : []) + [.tell(.failed(error)), .tell(.ended)]
    default: return [.tell(.failed(error))] + leave(at: now)
    }
  }

  private mutating func disconnected() -> [Action] {
    switch stage {
    case .ended, .idle, .scanning: return []
    case .leaving, .awaitingStatus:
      stage = .ended
      return [.tell(.ended)]
    default:
      stage = .ended
      let lost = TuvaliError(.walletUnknown, .peerLost, "The link to the verifier was lost during the transfer.")
      return [.tell(.failed(lost)), .tell(.ended)]
    }
  }
}
