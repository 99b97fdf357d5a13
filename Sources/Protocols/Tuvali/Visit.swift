import Bytes
import Common
import Crypto

/// One wallet's visit to the verifier, from its Identify to the end of the link.
struct Visit: Sendable {
  typealias Action = VerifierEngine.Action
  typealias Configuration = VerifierEngine.Configuration
  typealias Counters = VerifierEngine.Counters

  let link: LinkID
  let dialect: Dialect
  private let configuration: Configuration
  private(set) var progress: VerifierEngine.Progress
  private var state: VisitState
  /// When the credential must be complete.
  private let visitEnd: Instant
  /// When the wallet has been silent for too long.
  private var silenceEnd: Instant

  init(
    link: LinkID, dialect: Dialect, identify: Identify, keys: SessionKeys, mtu: Int, configuration: Configuration,
    at now: Instant
  ) {
    self.link = link
    self.dialect = dialect
    self.configuration = configuration
    state = .identified(identify, keys)
    visitEnd = now.advanced(by: configuration.visitTimeout)
    silenceEnd = now.advanced(by: configuration.idleTimeout)
    progress = VerifierEngine.Progress(mtu: mtu)
  }

  /// When `timer` is to be called or, if the visit is closing, the link to be cut.
  var deadline: Instant {
    switch state {
    case .identified: min(silenceEnd, visitEnd)
    case .receiving(let reception): reception.reportAt ?? min(silenceEnd, visitEnd)
    case .unsealing(let until), .keeping(let until), .deciding(let until), .leaving(let until): until
    case .closing(let cutAt): cutAt
    }
  }

  /// Whether the credential was received, or never will be.
  var isOver: Bool {
    switch state {
    case .identified, .receiving, .unsealing, .keeping: false
    case .deciding, .leaving, .closing: true
    }
  }

  /// Whether the wallet was asked to disconnect.
  var isClosing: Bool { if case .closing = state { true } else { false } }

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

  mutating func identifyAgain(
    _ identify: Identify, keys: SessionKeys, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    silenceEnd = now.advanced(by: configuration.idleTimeout)
    guard case .identified(let known, _) = state, identify != known else {
      counters.ignoredWrites += 1
      return []
    }
    state = .identified(identify, keys)
    return [.tell(link, .secured(dialect))]
  }

  mutating func change(mtu: Int, _ counters: inout Counters, at now: Instant) -> [Action] {
    progress.mtu = mtu
    guard !isOver else { return [] }
    let layout = ChunkLayout(mtu: mtu)
    guard layout.isUsable else { return fail(.mtuTooSmall(mtu), &counters, at: now) }
    guard case .receiving(var reception) = state else { return [] }
    reception.assembler.expect(layout)
    progress.measure(reception.assembler)
    state = .receiving(reception)
    return []
  }

  private mutating func announce(_ value: [UInt8], _ counters: inout Counters, at now: Instant) -> [Action] {
    let keys: SessionKeys
    switch state {
    case .identified(_, let known): keys = known
    case .receiving(let reception): keys = reception.keys
    case .unsealing, .keeping, .deciding, .leaving, .closing:
      // A connection carries one payload: a second one would come under the same key and nonce.
      counters.ignoredWrites += 1
      return []
    }
    do throws(TuvaliError) {
      let size = try announcedSize(value)
      let assembler = Assembler(
        size: size, layout: ChunkLayout(mtu: progress.mtu), firstSequence: dialect.firstSequence)
      state = .receiving(VisitState.Reception(assembler: assembler, reportAt: nil, keys: keys))
      progress.bytesExpected = size
      progress.measure(assembler)
      return [.tell(link, .announced)]
    } catch {
      return fail(error, &counters, at: now)
    }
  }

  /// The length in bytes of the frame that the wallet announces.
  ///
  /// - Throws: TVV_UNK_002 for a value that is no size, TVV_TRA_001 for a size that cannot be received.
  private func announcedSize(_ value: [UInt8]) throws(TuvaliError) -> Int {
    guard let announced = try? ResponseSize(reading: value, as: dialect.sizeEncoding) else {
      throw TuvaliError(
        .verifierState, .protocolViolation,
        dialect.sizeEncoding == .bigEndian
          ? "The announced size has fewer than 4 bytes." : "The announced size is not a decimal number.")
    }
    let size = try announced.checked(limit: Limits.frameBytes(forCredential: configuration.credentialLimit))
    guard ChunkLayout(mtu: progress.mtu).count(forFrame: size) <= Limits.chunks else {
      throw TuvaliError(
        .verifierSize, .limitExceeded,
        "\(size) bytes need more chunks at this MTU than the protocol numbers (\(Limits.chunks)).")
    }
    return size
  }

  private mutating func add(_ chunk: [UInt8], _ counters: inout Counters) {
    guard let outcome = state.add(chunk, &progress) else {
      counters.ignoredWrites += 1
      return
    }
    counters.chunks += 1
    switch outcome {
    case .stored: break
    case .duplicate: counters.duplicateChunks += 1
    case .badCRC:
      counters.crcFailures += 1
      progress.crcFailures += 1
    case .outOfRange, .wrongLength, .tooShort: counters.badChunks += 1
    }
  }

  private mutating func requestReport(_ value: [UInt8], _ counters: inout Counters, at now: Instant) -> [Action] {
    guard let request = try? TransferReportRequest(reading: value), request == .report else {
      counters.ignoredWrites += 1
      return []
    }
    switch state {
    case .receiving(var reception):
      let due = reception.reportAt ?? now.advanced(by: configuration.reportDelay)
      reception.reportAt = due
      state = .receiving(reception)
      return due <= now ? report(reception, &counters, at: now) : []
    case .deciding, .leaving:
      return [.notify(link, .transferReportResponse, dialect, TransferReport.success.bytes)]
    case .identified, .unsealing, .keeping, .closing:
      counters.ignoredWrites += 1
      return []
    }
  }

  /// Gives the report that the wallet asked for, or decrypts a frame that is complete.
  private mutating func report(
    _ reception: VisitState.Reception, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    let assembler = reception.assembler
    if let frame = assembler.frame() {
      state = .unsealing(until: now.advanced(by: configuration.idleTimeout))
      return [.unseal(link, Unsealing(frame: frame, keys: reception.keys, limit: configuration.credentialLimit))]
    }
    guard Double(assembler.missing) <= Limits.toleratedMissing * Double(assembler.count) else {
      let error = TuvaliError(
        .verifierTooManyMissing, .protocolViolation,
        "\(assembler.missing) of \(assembler.count) chunks are missing, and more than 70 % is too many.")
      return fail(error, &counters, at: now)
    }
    state = .receiving(VisitState.Reception(assembler: assembler, reportAt: nil, keys: reception.keys))
    return [.notify(link, .transferReportResponse, dialect, TransferReport(for: assembler).bytes)]
  }

  // MARK: From the service

  mutating func unsealed(
    _ result: Result<[UInt8], TuvaliError>, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    guard case .unsealing(let until) = state else { return [] }
    switch result {
    case .success(let text):
      state = .keeping(until: until)
      return [.deliver(link, text)]
    case .failure(let error):
      return fail(error, &counters, at: now)
    }
  }

  /// The wallet hears of its success only when the credential is stored.
  mutating func kept(_ error: TuvaliError?, _ counters: inout Counters, at now: Instant) -> [Action] {
    guard case .keeping = state else { return [] }
    if let error { return fail(error, &counters, at: now) }
    counters.received += 1
    state = .deciding(until: now.advanced(by: configuration.decisionTimeout))
    return [
      .notify(link, .transferReportResponse, dialect, TransferReport.success.bytes), .tell(link, .received),
    ]
  }

  mutating func decided(_ accepted: Bool, at now: Instant) -> [Action] {
    guard case .deciding = state else { return [] }
    state = .leaving(until: now.advanced(by: configuration.leaveTimeout))
    return [
      .notify(link, .verificationStatus, dialect, VerificationStatus(isAccepted: accepted).bytes),
      .tell(link, .statusSent(accepted: accepted)),
    ]
  }

  mutating func dismiss(_ counters: inout Counters, at now: Instant) -> [Action] {
    guard !isOver else { return askToDisconnect(at: now) }
    let stopped = TuvaliError(.verifierUnknown, .stopped, "The transfer was ended by a local program.")
    return fail(stopped, &counters, at: now)
  }

  /// `deadline` has come, and the visit is not closing.
  mutating func timer(_ counters: inout Counters, at now: Instant) -> [Action] {
    switch state {
    case .receiving(let reception) where reception.reportAt.map { $0 <= now } ?? false:
      return report(reception, &counters, at: now)
    case .identified, .receiving:
      let sentence =
        now < visitEnd
        ? "There was no sign of the wallet for \(configuration.idleTimeout.components.seconds) s."
        : "The transfer was not over within \(configuration.visitTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .unsealing, .keeping:
      let sentence = "Decrypting and keeping took over \(configuration.idleTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .deciding, .leaving: return askToDisconnect(at: now)
    case .closing: return []
    }
  }

  // MARK: Ends

  private mutating func fail(_ error: TuvaliError, _ counters: inout Counters, at now: Instant) -> [Action] {
    counters.fail(for: error.reason)
    return [.tell(link, .failed(error))] + askToDisconnect(at: now)
  }

  private mutating func askToDisconnect(at now: Instant) -> [Action] {
    guard !isClosing else { return [] }
    state = .closing(cutAt: now.advanced(by: configuration.closeGuard))
    return [.notify(link, .disconnect, dialect, DisconnectRequest().bytes)]
  }
}
