import Common

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
