import Bytes
import Common
import Crypto

/// One wallet's visit to the verifier, from its Identify to the end of the link.
struct Visit: Sendable {
  typealias Action = VerifierEngine.Action
  typealias Configuration = VerifierEngine.Configuration
  typealias Counters = VerifierEngine.Counters

  private enum Stage: Sendable {
    /// Identified; no size yet.
    case ready
    /// Chunks are coming in. `reportAt`: a report was asked for and goes out then.
    case receiving(Assembler, reportAt: Instant?)
    /// Complete, and being decrypted.
    case unsealing
    /// Decrypted, and being put away.
    case keeping
    /// The wallet knows of its success and waits for the verdict.
    case deciding
    /// The wallet knows the verdict, and should leave by itself.
    case leaving
    /// The wallet was asked to disconnect.
    case closing
    case gone
  }

  let link: LinkID
  let dialect: Dialect
  private let configuration: Configuration
  private(set) var progress: VerifierEngine.Progress
  private var stage = Stage.ready
  /// When the credential must be complete.
  private let visitEnd: Instant
  /// When the wallet has been silent for too long.
  private var silenceEnd: Instant
  /// When the stage must have been left, for those in which it is not the wallet's turn.
  private var stageEnd = Instant.zero
  private var identify: Identify
  private var keys: SessionKeys

  init(
    link: LinkID, dialect: Dialect, identify: Identify, keys: SessionKeys, mtu: Int, configuration: Configuration,
    at now: Instant
  ) {
    self.link = link
    self.dialect = dialect
    self.identify = identify
    self.keys = keys
    self.configuration = configuration
    visitEnd = now.advanced(by: configuration.visitTimeout)
    silenceEnd = now.advanced(by: configuration.idleTimeout)
    progress = VerifierEngine.Progress(mtu: mtu)
  }

  /// When `timer` is to be called.
  var deadline: Instant {
    switch stage {
    case .receiving(_, let reportAt?): reportAt
    case .ready, .receiving: min(silenceEnd, visitEnd)
    case .unsealing, .keeping, .deciding, .leaving, .closing, .gone: stageEnd
    }
  }

  /// The credential is here, or never will be.
  var isOver: Bool {
    switch stage {
    case .ready, .receiving, .unsealing, .keeping: false
    case .deciding, .leaving, .closing, .gone: true
    }
  }

  var isGone: Bool { if case .gone = stage { true } else { false } }

  /// Calls `body` with this visit where it stands: nothing of it is copied.
  mutating func apply(_ body: (inout Visit, inout Counters) -> [Action], _ counters: inout Counters) -> [Action] {
    body(&self, &counters)
  }

  // MARK: From the wallet

  mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    silenceEnd = now.advanced(by: configuration.idleTimeout)
    switch characteristic {
    case .submitResponse: add(value, &counters)
    case .transferReportRequest: return requestReport(value, &counters, at: now)
    case .responseSize: return announce(value, &counters, at: now)
    default: counters.ignoredWrites += 1
    }
    return []
  }

  /// A wallet may say who it is again, before it has announced anything.
  mutating func identifyAgain(
    _ identify: Identify, keys: SessionKeys, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    silenceEnd = now.advanced(by: configuration.idleTimeout)
    guard case .ready = stage, identify != self.identify else {
      counters.ignoredWrites += 1
      return []
    }
    self.identify = identify
    self.keys = keys
    return [.tell(link, .secured(dialect))]
  }

  mutating func change(mtu: Int, _ counters: inout Counters, at now: Instant) -> [Action] {
    progress.mtu = mtu
    guard !isOver else { return [] }
    let layout = ChunkLayout(mtu: mtu)
    guard layout.isUsable else { return fail(.mtuTooSmall(mtu), &counters, at: now) }
    if case .receiving(var assembler, let reportAt) = stage {
      assembler.expect(layout)
      measure(assembler)
      stage = .receiving(assembler, reportAt: reportAt)
    }
    return []
  }

  private mutating func announce(_ value: [UInt8], _ counters: inout Counters, at now: Instant) -> [Action] {
    switch stage {
    case .ready, .receiving: break
    default:
      // One payload a connection: a second one would come under the same key and nonce.
      counters.ignoredWrites += 1
      return []
    }
    let layout = ChunkLayout(mtu: progress.mtu)
    do throws(TuvaliError) {
      let limit = Limits.frameBytes(forCredential: configuration.credentialLimit)
      let size = try ResponseSize.decode(value, as: dialect.sizeEncoding, limit: limit)
      guard layout.count(forFrame: size) <= Limits.chunks else {
        throw TuvaliError(
          .verifierSize, .limitExceeded,
          "\(size) bytes need more chunks at this MTU than the protocol numbers (\(Limits.chunks)).")
      }
      let assembler = Assembler(size: size, layout: layout, firstSequence: dialect.firstSequence)
      stage = .receiving(assembler, reportAt: nil)
      progress.bytesExpected = size
      measure(assembler)
      return [.tell(link, .announced)]
    } catch {
      return fail(error, &counters, at: now)
    }
  }

  private mutating func add(_ chunk: [UInt8], _ counters: inout Counters) {
    guard case .receiving(var assembler, let reportAt) = stage, !assembler.isComplete else {
      counters.ignoredWrites += 1
      return
    }
    // Out of the stage while it changes: else every chunk would copy the frame.
    stage = .ready
    counters.chunks += 1
    switch assembler.add(chunk) {
    case .stored: break
    case .duplicate: counters.duplicateChunks += 1
    case .badCRC:
      counters.crcFailures += 1
      progress.crcFailures += 1
    case .outOfRange, .wrongLength, .tooShort: counters.badChunks += 1
    }
    measure(assembler)
    stage = .receiving(assembler, reportAt: reportAt)
  }

  private mutating func requestReport(_ value: [UInt8], _ counters: inout Counters, at now: Instant) -> [Action] {
    guard value.first == 1 else {
      counters.ignoredWrites += 1
      return []
    }
    switch stage {
    case .receiving(let assembler, let reportAt):
      let due = reportAt ?? now.advanced(by: configuration.reportDelay)
      stage = .receiving(assembler, reportAt: due)
      return due <= now ? report(&counters, at: now) : []
    case .deciding, .leaving:
      return [.notify(link, .transferReportResponse, dialect, TransferReport.success.bytes)]
    case .ready, .unsealing, .keeping, .closing, .gone:
      counters.ignoredWrites += 1
      return []
    }
  }

  /// The report that was asked for is due.
  private mutating func report(_ counters: inout Counters, at now: Instant) -> [Action] {
    guard case .receiving(let assembler, _) = stage else { return [] }
    if let frame = assembler.frame() {
      enter(.unsealing, for: configuration.idleTimeout, at: now)
      return [.unseal(link, Unsealing(frame: frame, keys: keys, limit: configuration.credentialLimit))]
    }
    guard Double(assembler.missing) <= 0.7 * Double(assembler.count) else {
      let error = TuvaliError(
        .verifierTooManyMissing, .protocolViolation,
        "\(assembler.missing) of \(assembler.count) chunks are missing, and more than 70 % is too many.")
      return fail(error, &counters, at: now)
    }
    stage = .receiving(assembler, reportAt: nil)
    return [.notify(link, .transferReportResponse, dialect, TransferReport(for: assembler).bytes)]
  }

  private mutating func measure(_ assembler: Assembler) {
    progress.bytesReceived = assembler.receivedBytes
    progress.chunksExpected = assembler.count
    progress.chunksMissing = assembler.missing
  }

  // MARK: From the house

  mutating func unsealed(
    _ result: Result<[UInt8], TuvaliError>, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    guard case .unsealing = stage else { return [] }
    switch result {
    case .success(let text):
      stage = .keeping
      return [.deliver(link, text)]
    case .failure(let error):
      return fail(error, &counters, at: now)
    }
  }

  /// The wallet hears of its success only when the credential is in safe hands.
  mutating func kept(_ error: TuvaliError?, _ counters: inout Counters, at now: Instant) -> [Action] {
    guard case .keeping = stage else { return [] }
    if let error { return fail(error, &counters, at: now) }
    counters.received += 1
    enter(.deciding, for: configuration.decisionTimeout, at: now)
    return [
      .notify(link, .transferReportResponse, dialect, TransferReport.success.bytes), .tell(link, .received),
    ]
  }

  mutating func decided(_ accepted: Bool, at now: Instant) -> [Action] {
    guard case .deciding = stage else { return [] }
    enter(.leaving, for: configuration.leaveTimeout, at: now)
    return [
      .notify(link, .verificationStatus, dialect, [accepted ? 0 : 1]), .tell(link, .statusSent(accepted: accepted)),
    ]
  }

  mutating func dismiss(_ counters: inout Counters, at now: Instant) -> [Action] {
    guard !isOver else { return askToLeave(at: now) }
    let stopped = TuvaliError(.verifierUnknown, .stopped, "The transfer was ended by a local program.")
    return fail(stopped, &counters, at: now)
  }

  mutating func timer(_ counters: inout Counters, at now: Instant) -> [Action] {
    switch stage {
    case .receiving(_, let reportAt?) where reportAt <= now:
      return report(&counters, at: now)
    case .ready, .receiving:
      let sentence =
        now < visitEnd
        ? "There was no sign of the wallet for \(configuration.idleTimeout.components.seconds) s."
        : "The transfer was not over within \(configuration.visitTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .unsealing, .keeping:
      let sentence = "Decrypting and keeping took over \(configuration.idleTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .deciding, .leaving: return askToLeave(at: now)
    case .closing:
      stage = .gone
      return [.cut(link)]
    case .gone: return []
    }
  }

  // MARK: Ends

  private mutating func fail(_ error: TuvaliError, _ counters: inout Counters, at now: Instant) -> [Action] {
    counters.fail(for: error.reason)
    return [.tell(link, .failed(error))] + askToLeave(at: now)
  }

  private mutating func askToLeave(at now: Instant) -> [Action] {
    switch stage {
    case .closing, .gone: return []
    default:
      enter(.closing, for: configuration.closeGuard, at: now)
      return [.notify(link, .disconnect, dialect, [1])]
    }
  }

  private mutating func enter(_ stage: Stage, for duration: Duration, at now: Instant) {
    self.stage = stage
    stageEnd = now.advanced(by: duration)
  }
}
