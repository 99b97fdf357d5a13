import Bytes
import Common
import Crypto

/// Wallet: central, GATT client, sender of one credential over one connection. Facts: tuvali.md sections 1 to 8.
///
/// The originals compare five key bytes with the invitation. This wallet compares all 32, and thereby ignores an
/// impostor that copies the five.
///
/// An engine performs one transfer: it is started once, and reports `Notice.ended` once.
public struct WalletEngine: Sendable {
  public let configuration: Configuration
  /// Figures of the transfer, also valid after its end.
  public internal(set) var progress = Progress()

  let invitation: Invitation
  /// Dialects to search for. 0.4 and 0.3 have the same advertisements; the form of the invitation distinguishes them.
  let dialects: [Dialect]
  /// The credential; empty once it was passed on for sealing.
  var text: [UInt8]
  var random: any RandomSource & Sendable
  var state = State.idle
  /// Number of scan results with the right name and the right five key bytes, but a different scan response.
  var impostors = 0
  /// Time by which the verifier must have answered Identify.
  var connectEnd = Instant.zero
  /// Deadline for the verifier to receive the whole frame.
  var transferEnd = Instant.zero
  /// Time of the last sign of progress: a packet of the verifier, or a step of this machine's work on the credential.
  var lastSign = Instant.zero

  enum State: Sendable {
    case idle
    case scanning(until: Instant)
    case connecting(Dialect)
    case discovering(Dialect, attempt: Int, retryAt: Instant?)
    case exchangingMTU(Dialect)
    /// Waits until the verifier has responded to these subscriptions.
    case subscribing(Dialect, awaited: Set<Characteristic>)
    case identifying(Dialect, SessionKeys)
    case sealing(Dialect)
    /// The chunks are ready, and the size is being sent.
    case announcing(Dialect, Delivery)
    case sending(Dialect, Delivery)
    /// The verifier has received the whole frame; the verdict is awaited.
    case awaitingStatus
    /// The wallet disconnects, and waits for the end of the link until this time.
    case leaving(until: Instant)
    case ended
  }

  /// - Parameters:
  ///   - invitation: text of the QR code, in any form.
  ///   - text: the credential, in UTF-8.
  ///   - random: source of key pair and nonce.
  /// - Throws: TVW_CON_001 for an invalid invitation; TVW_UNK_001 for a credential that is empty, too large or not
  ///   UTF-8.
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
        "The credential has \(text.count) bytes; the limit is \(configuration.credentialLimit).")
    }
    guard String(validating: text, as: UTF8.self) != nil else {
      throw TuvaliError(.walletUnknown, .invalidArgument, "The credential is not UTF-8 text.")
    }
    dialects = Invitation.isJSON(invitation) ? [.v03] : [.v05, .v04]
    self.text = text
    self.configuration = configuration
    self.random = random
  }

  /// Time at which `Event.timer` is due; nil if nothing is scheduled.
  public var deadline: Instant? {
    switch state {
    case .idle, .ended: nil
    case .scanning(let until), .leaving(let until): until
    case .discovering(_, _, let retryAt?): min(retryAt, connectEnd)
    case .connecting, .discovering, .exchangingMTU, .subscribing, .identifying: connectEnd
    case .sealing, .announcing: min(silenceEnd, transferEnd)
    case .sending(_, let delivery): min(delivery.reportDue ?? transferEnd, silenceEnd, transferEnd)
    case .awaitingStatus: silenceEnd
    }
  }

  private var silenceEnd: Instant { lastSign.advanced(by: configuration.idleTimeout) }

  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start: return start(at: now)
    case .stop:
      return fail(TuvaliError(.walletUnknown, .stopped, "A local program ended the transfer."), at: now)
    case .sighted(let token, let serviceData): return sight(token, serviceData, at: now)
    case .connected: return connected()
    case .discovered(let services): return discover(services, at: now)
    case .mtuChanged(let mtu): return change(mtu: mtu, at: now)
    case .subscribed(let characteristic): return subscribed(characteristic, at: now)
    case .written(let characteristic, let failure): return written(characteristic, failure, at: now)
    case .sealed(let result): return sealed(result, at: now)
    case .notified(let characteristic, let value): return notified(characteristic, value, at: now)
    case .disconnected: return disconnected()
    case .radioRefused(let why): return fail(TuvaliError(.walletUnknown, .radioRefused, why), at: now)
    case .timer: return timer(at: now)
    }
  }

  /// Makes the write of a value other than a chunk.
  func write(_ value: [UInt8], to characteristic: Characteristic, _ dialect: Dialect) -> Action {
    .write(value, to: characteristic, dialect, withResponse: configuration.controlsWithResponse)
  }

  // MARK: Time

  private mutating func timer(at now: Instant) -> [Action] {
    guard let deadline, deadline <= now else { return [] }
    switch state {
    case .idle, .ended: return []
    case .scanning:
      let seconds = configuration.scanTimeout.components.seconds
      let more = impostors == 0 ? "" : " Another device nearby imitates it, with a different key."
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The verifier was not found within \(seconds) s.\(more)"), at: now)
    case .discovering(let dialect, let attempt, let retryAt?) where retryAt <= now:
      state = .discovering(dialect, attempt: attempt, retryAt: nil)
      return [.discover]
    case .connecting, .discovering, .exchangingMTU, .subscribing, .identifying:
      let seconds = configuration.connectTimeout.components.seconds
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The wallet could not connect to the verifier within \(seconds) s."),
        at: now)
    case .sealing where transferEnd <= now, .announcing where transferEnd <= now, .sending where transferEnd <= now:
      let seconds = configuration.transferTimeout.components.seconds
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The verifier did not receive the whole credential within \(seconds) s."),
        at: now)
    case .sending(_, let delivery):
      if let due = delivery.reportDue, due <= now {
        guard (delivery.askingSince ?? now).duration(to: now) < configuration.idleTimeout else {
          return fail(TuvaliError(.walletReport, .timeout, "The verifier did not answer the report requests."), at: now)
        }
        return inDelivery(at: now) { delivery, _ in
          delivery.askAgain()
          return []
        }
      }
      fallthrough
    case .sealing, .announcing, .awaitingStatus:
      let seconds = configuration.idleTimeout.components.seconds
      return fail(
        TuvaliError(.walletUnknown, .timeout, "The verifier did not respond for \(seconds) s."), at: now)
    case .leaving: return disconnected()
    }
  }

  // MARK: End of the transfer

  mutating func leave(at now: Instant) -> [Action] {
    state = .leaving(until: now.advanced(by: Self.leaveTime))
    return [.disconnect]
  }

  /// Time that the link has to end after the wallet disconnects; after that it counts as ended.
  private static let leaveTime = Duration.seconds(2)

  mutating func fail(_ error: TuvaliError, at now: Instant) -> [Action] {
    switch state {
    case .leaving, .ended: return []
    case .idle, .scanning:
      let wasScanning = if case .scanning = state { true } else { false }
      state = .ended
      return (wasScanning ? [.stopScanning] : []) + [.tell(.failed(error)), .tell(.ended)]
    default: return [.tell(.failed(error))] + leave(at: now)
    }
  }

  private mutating func disconnected() -> [Action] {
    switch state {
    case .ended, .idle, .scanning: return []
    case .leaving, .awaitingStatus:
      state = .ended
      return [.tell(.ended)]
    default:
      state = .ended
      let lost = TuvaliError(.walletUnknown, .peerLost, "The link to the verifier was lost during the transfer.")
      return [.tell(.failed(lost)), .tell(.ended)]
    }
  }
}

/// Finding the verifier, up to Identify. Facts: tuvali.md sections 1 to 4 and 7.
extension WalletEngine {
  mutating func start(at now: Instant) -> [Action] {
    guard case .idle = state else { return [] }
    state = .scanning(until: now.advanced(by: configuration.scanTimeout))
    return [.scan(dialects.map(\.service))]
  }

  mutating func sight(_ token: UInt64, _ serviceData: [BluetoothUUID: [UInt8]], at now: Instant) -> [Action] {
    guard case .scanning = state else { return [] }
    for dialect in dialects where serviceData[dialect.service] == invitation.advertisedServiceData {
      guard let scanned = serviceData[dialect.scanResponse] else { continue }
      guard scanned == invitation.scanResponseServiceData else {
        impostors += 1
        continue
      }
      state = .connecting(dialect)
      connectEnd = now.advanced(by: configuration.connectTimeout)
      transferEnd = now.advanced(by: configuration.transferTimeout)
      return [.stopScanning, .connect(token: token)]
    }
    return []
  }

  mutating func connected() -> [Action] {
    guard case .connecting(let dialect) = state else { return [] }
    state = .discovering(dialect, attempt: 1, retryAt: nil)
    return [.discover]
  }

  mutating func discover(_ services: [BluetoothUUID: Set<BluetoothUUID>], at now: Instant) -> [Action] {
    guard case .discovering(let dialect, let attempt, _) = state else { return [] }
    let needed = Characteristic.allCases.filter { $0.direction != .unused }.map(dialect.uuid(of:))
    if services[dialect.service]?.isSuperset(of: needed) == true {
      state = .exchangingMTU(dialect)
      return [.exchangeMTU(Limits.offeredMTU)]
    }
    guard attempt <= Limits.discoveryRetries else {
      let error = TuvaliError(
        .walletServiceNotFound, .protocolViolation,
        "The verifier advertises the Tuvali service but does not have its characteristics.")
      return fail(error, at: now)
    }
    // Delays of 2, 4, 8, 16 and 32 ms.
    let retryAt = now.advanced(by: .milliseconds(1 << attempt))
    state = .discovering(dialect, attempt: attempt + 1, retryAt: retryAt)
    return []
  }

  mutating func change(mtu: Int, at now: Instant) -> [Action] {
    progress.mtu = mtu
    switch state {
    case .exchangingMTU, .subscribing, .identifying, .sealing: break
    // The MTU is not needed yet, or the chunks are already cut.
    default: return []
    }
    guard ChunkLayout(mtu: mtu).isUsable else {
      let error = TuvaliError(
        .walletMTU, .protocolViolation,
        "The MTU negotiated with the verifier is \(mtu); a transfer needs at least \(Limits.minimumMTU).")
      return fail(error, at: now)
    }
    guard case .exchangingMTU(let dialect) = state else { return [] }
    let toWallet = Characteristic.allCases.filter { $0.direction == .toWallet }
    state = .subscribing(dialect, awaited: Set(toWallet))
    return [.tell(.connected(mtu: mtu))] + toWallet.map { .subscribe($0, dialect) }
  }

  mutating func subscribed(_ characteristic: Characteristic, at now: Instant) -> [Action] {
    guard case .subscribing(let dialect, var awaited) = state else { return [] }
    awaited.remove(characteristic)
    state = .subscribing(dialect, awaited: awaited)
    guard awaited.isEmpty else { return [] }
    return identify(to: dialect, at: now)
  }

  /// Generates key pair and nonce of this connection, and sends them.
  private mutating func identify(to dialect: Dialect, at now: Instant) -> [Action] {
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(Identify.nonceBytes)
    guard let keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce) else {
      let error = TuvaliError(
        .walletInvalidURI, .protocolViolation, "The verifier's public key is weak: it makes the shared secret zero.")
      return fail(error, at: now)
    }
    state = .identifying(dialect, keys)
    let identify = Identify(nonce: nonce, walletKey: key.publicKey)
    return [write(identify.bytes, to: .identify, dialect)]
  }
}

/// Sending the credential, from the size to the verdict. Facts: tuvali.md sections 3 and 5 to 7.
extension WalletEngine {
  mutating func sealed(_ result: Result<[UInt8], TuvaliError>, at now: Instant) -> [Action] {
    guard case .sealing(let dialect) = state else { return [] }
    lastSign = now
    do throws(TuvaliError) {
      let frame = try result.get()
      let chunker = try Chunker(
        frame: frame, layout: ChunkLayout(mtu: progress.mtu), firstSequence: dialect.firstSequence)
      progress.bytesExpected = frame.count
      progress.chunksExpected = chunker.count
      state = .announcing(dialect, Delivery(chunker, window: configuration.window))
      return [write(ResponseSize(frame.count).bytes(as: dialect.sizeEncoding), to: .responseSize, dialect)]
    } catch {
      return fail(error, at: now)
    }
  }

  mutating func written(_ characteristic: Characteristic, _ failure: WriteFailure?, at now: Instant) -> [Action] {
    if let failure { return refused(characteristic, failure, at: now) }
    lastSign = now
    switch (state, characteristic) {
    case (.identifying(let dialect, let keys), .identify):
      state = .sealing(dialect)
      let text = text
      self.text = []
      return [.tell(.secured), .seal(Sealing(text: text, keys: keys))]
    case (.announcing(let dialect, let delivery), .responseSize):
      state = .sending(dialect, delivery)
      return [.tell(.announced)] + inDelivery(at: now) { $0.fill(&$1) }
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
      let sentence = "All session slots of the verifier are in use. Scan the code that it shows now, and try again."
      return fail(TuvaliError(.walletState, .busy, sentence), at: now)
    case (.noCapacity, _):
      let sentence = "The verifier has no capacity for another credential."
      return fail(TuvaliError(.walletState, .noCapacity, sentence), at: now)
    case (_, .transferReportRequest):
      return fail(TuvaliError(.walletReport, .protocolViolation, "The verifier refused the report request."), at: now)
    case (_, .submitResponse):
      // A refused chunk stays missing, and will be in the report.
      if case .sending = state { return inDelivery(at: now) { $0.written(&$1) } }
      return []
    default:
      return fail(TuvaliError(.walletState, .protocolViolation, "The verifier refused a write request."), at: now)
    }
  }

  /// Changes the delivery with `body`, sends the chunks that it returns, and requests a report when a round is
  /// complete.
  mutating func inDelivery(at now: Instant, _ body: (inout Delivery, inout Progress) -> [Int]) -> [Action] {
    guard case .sending(let dialect, var delivery) = state else { return [] }
    var actions: [Action] = []
    let sequences = body(&delivery, &progress)
    let withResponse = delivery.isResending && configuration.resendsWithResponse
    for sequence in sequences {
      guard let chunk = delivery.chunker.chunk(sequence) else { continue }
      actions.append(.write(chunk, to: .submitResponse, dialect, withResponse: withResponse))
    }
    if delivery.takeRoundEnd() {
      delivery.asked(at: now, due: now.advanced(by: configuration.reportTimeout))
      actions.append(write(TransferReportRequest.report.bytes, to: .transferReportRequest, dialect))
    }
    state = .sending(dialect, delivery)
    return actions
  }

  mutating func notified(_ characteristic: Characteristic, _ value: [UInt8], at now: Instant) -> [Action] {
    switch characteristic {
    case .transferReportResponse: return reported(value, at: now)
    case .verificationStatus: return judged(value, at: now)
    case .disconnect: return (try? DisconnectRequest(reading: value)) == nil ? [] : dismissed(at: now)
    default: return []
    }
  }

  private mutating func judged(_ value: [UInt8], at now: Instant) -> [Action] {
    guard let status = try? VerificationStatus(reading: value) else { return [] }
    let verdict = Action.tell(.status(accepted: status == .accepted))
    switch state {
    case .awaitingStatus: return [verdict] + leave(at: now)
    // The report was lost; but a verdict shows that the verifier has the credential.
    case .sending(_, let delivery) where delivery.reportDue != nil:
      return [.tell(.sent), verdict] + leave(at: now)
    default: return []
    }
  }

  private mutating func dismissed(at now: Instant) -> [Action] {
    switch state {
    case .awaitingStatus: return leave(at: now)
    case .leaving, .ended, .idle, .scanning: return []
    default:
      let sentence =
        "The verifier ended the transfer and has not confirmed the credential. Scan the code that it shows now, and try again."
      return fail(TuvaliError(.walletTransfer, .peerEnded, sentence), at: now)
    }
  }

  private mutating func reported(_ value: [UInt8], at now: Instant) -> [Action] {
    guard case .sending(_, let delivery) = state, delivery.reportDue != nil else { return [] }
    guard let report = try? TransferReport(reading: value) else {
      let error = TuvaliError(.walletState, .protocolViolation, "The verifier's transfer report cannot be read.")
      return fail(error, at: now)
    }
    lastSign = now
    switch report {
    case .success:
      state = .awaitingStatus
      progress.chunksMissing = 0
      return [.tell(.sent)]
    case .missing(let sequences, _):
      guard progress.failureFrames < Limits.failureFrames else {
        let error = TuvaliError(
          .walletReport, .limitExceeded,
          "The verifier still lacks chunks after \(Limits.failureFrames) rounds of resending.")
        return fail(error, at: now)
      }
      progress.failureFrames += 1
      progress.chunksMissing = sequences.count
      return inDelivery(at: now) { $0.resend(sequences, &$1) }
    }
  }
}
