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
  /// Deadline of the answer to Identify.
  var connectEnd = Instant.zero
  /// Deadline for the verifier to receive the whole frame.
  var transferEnd = Instant.zero
  /// Last progress of the verifier, or of this machine's work on the credential.
  var lastSign = Instant.zero

  enum State: Sendable {
    case idle
    case scanning(until: Instant)
    case connecting(Dialect)
    case discovering(Dialect, attempt: Int, retryAt: Instant?)
    case exchangingMTU(Dialect)
    /// Waits for the verifier's responses to these subscriptions.
    case subscribing(Dialect, awaited: Set<Characteristic>)
    case identifying(Dialect, SessionKeys)
    case sealing(Dialect)
    /// The chunks are ready, and the size is being sent.
    case announcing(Dialect, Delivery)
    case sending(Dialect, Delivery)
    /// The verifier has received the whole frame; the verdict is awaited.
    case awaitingStatus
    /// The link is being ended.
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

  /// Timeout for the end of the link.
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
