import Bytes
import Common
import Crypto

/// Session of one wallet with the verifier, from its Identify to the end of the link.
struct VerifierSession: Sendable {
  typealias Action = VerifierEngine.Action
  typealias Configuration = VerifierEngine.Configuration
  typealias Counters = VerifierEngine.Counters

  let link: LinkID
  let dialect: Dialect
  /// When the wallet's link was established.
  let openedAt: Instant
  /// Whether another session of this peer failed recently.
  let isDistrusted: Bool
  /// Relation between the wallet and the current QR code, which decides whether the code is replaced when the wallet
  /// takes a slot.
  var code = Code.old
  private let configuration: Configuration
  private let identify: Identify
  private(set) var progress: VerifierEngine.Progress
  private var state: VerifierSessionState
  private let identifiedAt: Instant
  /// When the wallet announced its first size.
  private var announcedAt: Instant?
  /// Time of the last progress: the first size, or a chunk that made a frame longer than ever before.
  private var progressAt: Instant
  /// Greatest number of bytes of a frame that were received at one time.
  private var mostBytes = 0
  /// Time by which the whole credential must have arrived, or the session fails.
  private var visitEnd: Instant

  /// How the QR code that the wallet has scanned relates to the present one.
  enum Code: Hashable, Sendable {
    /// The wallet has scanned an earlier QR code, or has already taken a slot.
    case old
    /// The wallet's Identify replaced the code.
    case replaced
    /// The wallet may have scanned the code with this number.
    case shown(Int)
  }

  init(
    link: LinkID, dialect: Dialect, identify: Identify, keys: [SessionKeys], _ newcomer: WaitingLinks.Newcomer,
    configuration: Configuration, at now: Instant
  ) {
    self.link = link
    self.dialect = dialect
    self.identify = identify
    self.configuration = configuration
    (openedAt, isDistrusted) = (newcomer.openedAt, newcomer.isDistrusted)
    state = .identified(keys)
    (identifiedAt, progressAt, visitEnd) = (now, now, now)
    progress = VerifierEngine.Progress(mtu: newcomer.mtu ?? Limits.offeredMTU)
  }

  /// Begins a session that replaces another one on the same link.
  init(after old: VerifierSession, dialect: Dialect, identify: Identify, keys: [SessionKeys], at now: Instant) {
    self.init(
      link: old.link, dialect: dialect, identify: identify, keys: keys,
      .init(openedAt: old.openedAt, isDistrusted: old.isDistrusted, mtu: old.progress.mtu),
      configuration: old.configuration, at: now)
    guard !old.isOver else { return }
    (announcedAt, progressAt, mostBytes) = (old.announcedAt, old.progressAt, old.mostBytes)
  }

  /// When the session times out if it makes no further progress.
  private var silenceEnd: Instant { progressAt.advanced(by: configuration.idleTimeout) }

  /// When to call `timer` or, if the session is closing, to cut the link.
  var deadline: Instant {
    switch state {
    case .identified: identifiedAt.advanced(by: configuration.announceTimeout)
    case .receiving(let reception): reception.reportAt ?? min(silenceEnd, visitEnd)
    case .unsealing(let until), .keeping(let until), .deciding(let until, _), .leaving(let until): until
    case .refused(_, let until): until
    case .closing(let cutAt): cutAt
    }
  }

  /// Whether the credential was received, or can no longer be received.
  var isOver: Bool {
    switch state {
    case .identified, .receiving, .unsealing, .keeping, .deciding(_, isProvisional: true): false
    case .deciding, .leaving, .refused, .closing: true
    }
  }

  /// The deadline of the verdict; nil if the wallet does not wait for one.
  var verdictEnd: Instant? { if case .deciding(let until, _) = state { until } else { nil } }

  /// Whether the wallet was asked to disconnect.
  var isClosing: Bool { if case .closing = state { true } else { false } }

  /// The time of the Identify of a wallet that has announced no size; nil in any other state.
  var idleSince: Instant? { if case .identified = state { identifiedAt } else { nil } }

  /// Reason of the refusal; nil if the wallet was not refused.
  ///
  /// Not inlined, because Swift 6.3.1 crashes when it inlines this into `VerifierEngine` ("Found outside of lifetime
  /// use").
  @inline(never)
  var refusal: VerifierEngine.Refusal? { if case .refused(let reason, _) = state { reason } else { nil } }

  /// Whether the session counts against `Configuration.visitors`: from the first size to the verdict.
  var hasSlot: Bool {
    switch state {
    case .receiving, .unsealing, .keeping, .deciding: true
    case .identified, .leaving, .refused, .closing: false
    }
  }

  /// Length of a frame that needs capacity, in bytes; nil before the announcement, and once the credential is stored.
  var claim: Int? {
    switch state {
    case .receiving, .unsealing, .keeping, .deciding(_, isProvisional: true): progress.bytesExpected
    case .identified, .deciding, .leaving, .refused, .closing: nil
    }
  }

  /// Health of the session when another wallet needs a slot; nil if the session has no slot, or cannot lose it because
  /// its frame is complete.
  var standing: SessionHealth? {
    switch state {
    case .receiving where progress.chunksMissing == 0: return nil
    case .receiving, .deciding: break
    case .identified, .unsealing, .keeping, .leaving, .refused, .closing: return nil
    }
    return SessionHealth(
      announcedAt: announcedAt ?? identifiedAt, progressAt: progressAt, bytes: mostBytes,
      isDelivered: verdictEnd != nil)
  }

  /// Whether an Identify begins another transfer. It must differ from the one that began this session and arrive at
  /// least `identifyPause` after it, and no complete frame may be in storage.
  func mayBeginAgain(with identify: Identify, at now: Instant) -> Bool {
    switch state {
    case .identified, .receiving, .deciding, .leaving: break
    case .unsealing, .keeping, .refused, .closing: return false
    }
    return identify != self.identify && identifiedAt.duration(to: now) >= configuration.identifyPause
  }

  /// Calls `body` with this session in place, without a copy.
  mutating func apply(_ body: (inout VerifierSession, inout Counters) -> [Action], _ counters: inout Counters)
    -> [Action]
  {
    body(&self, &counters)
  }

  // MARK: From the wallet

  /// Handles a write to any characteristic but Identify and Response size.
  mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    var actions: [Action] = []
    switch characteristic {
    case .submitResponse: add(value, &counters, at: now)
    case .transferReportRequest: actions = requestReport(value, &counters, at: now)
    default: counters.ignoredWrites += 1
    }
    // This runs for every chunk: completeness is read from the figures, because reading the state would copy it.
    if progress.chunksExpected > 0, progress.chunksMissing == 0 { awaitRequest(at: now) }
    return actions
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

  /// - Parameter room: the capacity for the credential of this wallet.
  mutating func announce(
    _ value: [UInt8], _ room: VerifierEngine.Room, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    let keys: [SessionKeys]
    switch state {
    case .identified(let known): keys = known
    case .receiving(let reception) where !reception.assembler.isComplete: keys = reception.keys
    case .receiving, .unsealing, .keeping, .deciding, .leaving, .refused, .closing:
      // A connection carries one payload: another one would use the same key and nonce.
      counters.ignoredWrites += 1
      return []
    }
    do throws(TuvaliError) {
      let size = try announcedSize(value)
      guard room.holds(size) else {
        counters.noRoom += 1
        return refuse(.full, &counters, at: now)
      }
      if announcedAt == nil { progressAt = now }
      let start = announcedAt ?? now
      announcedAt = start
      visitEnd = start.advanced(by: min(configuration.transferTimeout, configuration.wholeTime(for: size)))
      let assembler = Assembler(
        size: size, layout: ChunkLayout(mtu: progress.mtu), firstSequence: dialect.firstSequence)
      state = .receiving(VerifierSessionState.Reception(assembler: assembler, reportAt: nil, keys: keys))
      progress.bytesExpected = size
      progress.measure(assembler)
      return [.tell(link, .announced)]
    } catch {
      return fail(error, &counters, at: now)
    }
  }

  /// Parses the length of the announced frame, in bytes.
  ///
  /// - Throws: TVV_UNK_002 for a malformed value, TVV_TRA_001 for a size that cannot be received.
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
        "\(size) bytes need more chunks at this MTU than the protocol allows (\(Limits.chunks)).")
    }
    return size
  }

  private mutating func add(_ chunk: [UInt8], _ counters: inout Counters, at now: Instant) {
    guard let outcome = state.add(chunk, &progress) else {
      counters.ignoredWrites += 1
      return
    }
    counters.chunks += 1
    switch outcome {
    case .stored:
      // A restarted frame counts as progress only when it is longer than before.
      guard progress.bytesReceived > mostBytes else { return }
      mostBytes = progress.bytesReceived
      progressAt = now
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
      let asked = reception.isAsked ? reception.reportAt : nil
      let due = asked ?? now.advanced(by: configuration.reportDelay)
      (reception.reportAt, reception.isAsked) = (due, true)
      state = .receiving(reception)
      return due <= now ? report(reception, &counters, at: now) : []
    case .deciding(_, isProvisional: true): return []
    case .deciding, .leaving:
      return [.notify(link, .transferReportResponse, dialect, TransferReport.success.bytes)]
    case .identified, .unsealing, .keeping, .refused, .closing:
      counters.ignoredWrites += 1
      return []
    }
  }

  /// Schedules the report on a complete frame, because the request for it may be lost. It is sent after
  /// `Configuration.quietTime` without a write, and at the latest when a session without progress could lose its slot.
  private mutating func awaitRequest(at now: Instant) {
    guard case .receiving(var reception) = state, reception.assembler.isComplete, !reception.isAsked else { return }
    let latest = min(visitEnd, progressAt.advanced(by: configuration.patience.silence))
    reception.reportAt = min(now.advanced(by: configuration.quietTime), max(now, latest))
    state = .receiving(reception)
  }

  /// Sends the report that is due, or decrypts a complete frame.
  private mutating func report(
    _ reception: VerifierSessionState.Reception, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    let assembler = reception.assembler
    if let frame = assembler.frame() {
      state = .unsealing(until: now.advanced(by: configuration.idleTimeout))
      return [.unseal(link, Unsealing(frame: frame, keys: reception.keys, limit: configuration.credentialLimit))]
    }
    // The original verifier tolerates no loss of a single chunk; both wallets resend it on request.
    let isTolerable =
      assembler.count == 1 || Double(assembler.missing) <= Limits.toleratedMissing * Double(assembler.count)
    guard isTolerable else {
      let error = TuvaliError(
        .verifierTooManyMissing, .protocolViolation,
        "\(assembler.missing) of \(assembler.count) chunks are missing, more than the allowed 70 %.")
      return fail(error, &counters, at: now)
    }
    state = .receiving(VerifierSessionState.Reception(assembler: assembler, reportAt: nil, keys: reception.keys))
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

  /// Handles the result of storing the credential. The wallet receives SUCCESS only when the credential is stored
  /// permanently.
  mutating func kept(
    _ error: TuvaliError?, isProvisional: Bool, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    guard case .keeping = state else { return [] }
    if let error { return fail(error, &counters, at: now) }
    state = .deciding(until: now.advanced(by: configuration.decisionTimeout), isProvisional: isProvisional)
    if isProvisional { return [.tell(link, .received)] }
    counters.received += 1
    return [
      .notify(link, .transferReportResponse, dialect, TransferReport.success.bytes), .tell(link, .received),
    ]
  }

  mutating func decided(_ accepted: Bool, _ counters: inout Counters, at now: Instant) -> [Action] {
    guard case .deciding(_, let isProvisional) = state else { return [] }
    state = .leaving(until: now.advanced(by: configuration.disconnectTimeout))
    if isProvisional { counters.received += 1 }
    return (isProvisional ? [.notify(link, .transferReportResponse, dialect, TransferReport.success.bytes)] : []) + [
      .notify(link, .verificationStatus, dialect, VerificationStatus(isAccepted: accepted).bytes),
      .tell(link, .statusSent(accepted: accepted)),
    ]
  }

  mutating func dismiss(_ counters: inout Counters, at now: Instant) -> [Action] {
    guard !isOver else { return askToDisconnect(at: now) }
    let stopped = TuvaliError(.verifierUnknown, .stopped, "A local program ended the transfer.")
    return fail(stopped, &counters, at: now)
  }

  /// Handles the deadline of a session that is not closing.
  mutating func timer(_ counters: inout Counters, at now: Instant) -> [Action] {
    switch state {
    case .receiving(let reception) where reception.reportAt.map { $0 <= now } ?? false:
      let actions = report(reception, &counters, at: now)
      // The wallet's time limit may be exceeded too.
      guard case .receiving = state, deadline <= now else { return actions }
      return actions + timer(&counters, at: now)
    case .identified:
      let sentence = "The wallet announced no credential within \(configuration.announceTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .receiving:
      let sentence =
        now < visitEnd
        ? "There was no progress for \(configuration.idleTimeout.components.seconds) s."
        : "The transfer was not complete within \((announcedAt ?? now).duration(to: visitEnd).components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .unsealing, .keeping:
      let sentence = "Decrypting and storing took over \(configuration.idleTimeout.components.seconds) s."
      return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
    case .deciding(_, isProvisional: true):
      counters.noRoom += 1
      let seconds = configuration.decisionTimeout.components.seconds
      let sentence =
        "There was no verdict within \(seconds) s, and there is no capacity to store the credential longer."
      return fail(TuvaliError(.verifierUnknown, .noCapacity, sentence), &counters, at: now)
    case .deciding, .leaving, .refused: return askToDisconnect(at: now)
    case .closing: return []
    }
  }

  // MARK: End of the session

  /// Ends the session of a silent wallet, because another wallet needs its link.
  mutating func giveLink(_ counters: inout Counters, at now: Instant) -> [Action] {
    counters.evictedSessions += 1
    let seconds = identifiedAt.duration(to: now).components.seconds
    let sentence = "The wallet announced no credential for \(seconds) s, and another wallet needed its link."
    return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
  }

  /// Refuses the wallet, and asks it to disconnect after `answerTime`, when the answer to its write has reached it.
  mutating func refuse(
    _ reason: VerifierEngine.Refusal, _ counters: inout Counters, at now: Instant
  ) -> [Action] {
    if reason == .busy { counters.refused += 1 }
    let error = reason.error(configuration)
    let wasOver = isOver
    state = .refused(reason, until: now.advanced(by: configuration.answerTime))
    guard !wasOver else { return [] }
    counters.fail(for: error.reason)
    return [.tell(link, .failed(error))]
  }

  /// Ends the session because another wallet needs its slot.
  mutating func giveWay(for fault: SessionHealth.Fault, _ counters: inout Counters, at now: Instant) -> [Action] {
    counters.evictedSessions += 1
    guard !isOver else { return askToDisconnect(at: now) }
    let sentence = "\(fault.sentence) Another wallet needed its session slot."
    return fail(TuvaliError(.verifierUnknown, .timeout, sentence), &counters, at: now)
  }

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
