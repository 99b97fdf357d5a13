import Common
import Journal
import Radio
import Transfers
import Tuvali

/// Reports of the engine's sessions, as transfers and in the journal.
extension VerifierService {
  func tell(_ notice: VerifierEngine.Notice, of link: LinkID) {
    switch notice {
    case .secured(let dialect):
      begin(visits[link] ?? transfers.add(.incoming, .connected), on: link, dialect: dialect)
    case .announced:
      visits[link]?.enter(.transferring)
      showFigures(of: link)
      guard Log.shared.level == .debug, let progress = engine.progress(of: link), let transfer = visits[link],
        journal.writes(transfer.number)
      else { return }
      Log.shared.debug(
        "The wallet announced \(progress.bytesExpected) bytes in \(progress.chunksExpected) chunks",
        .transfer("\(transfer.number)"), .link(link), .protocolName("tuvali"))
    case .received: received(from: link)
    case .statusSent: break
    case .failed(let error): fail(error, on: link)
    case .refused(let reason): refused(reason, on: link)
    case .silent:
      guard mayWarn(of: link) else { return }
      let limit = settings.engine.identifyTimeout
      Log.shared.warning(
        "A wallet connected and did not identify itself within \(limit)", id: .transferRefused, .link(link),
        .protocolName("tuvali"))
    case .ended: end(link)
    }
  }

  private func refused(_ reason: VerifierEngine.Refusal, on link: LinkID) {
    let refusal = WalletRefusal(reason, settings)
    announce(refusal)
    guard mayWarn(of: link) else { return }
    Log.shared.info(
      "A phone was refused. \(refusal.sentence)", id: .transferRefused, .link(link), .protocolName("tuvali"))
  }

  /// Logs that credentials wait for an operator, or that there is capacity again.
  func log(_ load: CredentialCapacity.Load, after before: CredentialCapacity.Load.Kind) {
    guard loadLines.allow(load.kind, at: scheduler.now) else { return }
    switch load.kind {
    case .normal:
      Log.shared.notice("There is capacity for credentials again", .protocolName("tuvali"))
    case .crowded where before == .full:
      Log.shared.notice("There is capacity for credentials again. \(load.sentence)", .protocolName("tuvali"))
    case .crowded: Log.shared.warning("\(load.sentence)", id: .storeCrowded, .protocolName("tuvali"))
    case .full: Log.shared.warning("\(load.sentence)", id: .storeFull, .protocolName("tuvali"))
    }
  }

  private func begin(_ transfer: Transfer, on link: LinkID, dialect: Dialect) {
    transfer.met(addresses[link], dialect: dialect.name.rawValue)
    visits[link] = transfer
    showFigures(of: link)
    guard journal.begin(transfer.number, of: addresses[link], at: scheduler.now) else { return }
    writeLeftOut()
    Log.shared.info(
      "A wallet has identified itself", id: .transferStarted, .transfer("\(transfer.number)"), .link(link),
      .protocolName("tuvali"), .dialect(dialect.name.rawValue))
  }

  private func received(from link: LinkID) {
    guard let transfer = visits[link] else { return }
    showFigures(of: link)
    transfer.awaitVerdict(until: engine.verdictEnd(of: link))
    transfer.enter(.received)
    if journal.writes(transfer.number) {
      Log.shared.notice(
        "Received a credential of \(transfer.text?.count ?? 0) bytes", id: .transferReceived,
        .transfer("\(transfer.number)"), .protocolName("tuvali"))
    }
    receptions.call(transfer)
    check(transfer)
    if settings.decision == .accept {
      // After the transfer report that is sent in this loop iteration.
      scheduler.soon { [weak self] in _ = self?.decide(transfer, accepted: true) }
    }
  }

  private func fail(_ error: TuvaliError, on link: LinkID) {
    let transfer = visits[link]
    if transfer != nil, Self.isHeldAgainstPeer(error.reason), let peer = addresses[link] {
      lostPlaces.note(peer, at: scheduler.now)
    }
    if let refusal = WalletRefusal(error, settings) { announce(refusal) }
    let failed = transfer ?? transfers.add(.incoming, .connected)
    if transfer == nil { failed.met(addresses[link], dialect: "") }
    showFigures(of: link)
    if failed.isProvisional {
      failed.drop()
      vault.remove(failed)
    }
    failed.enter(.failed, error: error)
    if transfer == nil { failed.end() }
    guard transfer == nil ? mayWarn(of: link) : mayEnd(failed, of: link) else { return }
    Log.shared.warning(
      "A transfer failed: \(error)", id: .transferFailed, .transfer("\(failed.number)"), .link(link), .error(error),
      .protocolName("tuvali"))
  }

  /// Whether a session that ended with this error counts against its peer at the next eviction. A rejected session does
  /// not.
  private static func isHeldAgainstPeer(_ reason: TuvaliError.Reason) -> Bool {
    switch reason {
    case .stopped, .busy, .noCapacity, .peerEnded: false
    default: true
    }
  }

  private func end(_ link: LinkID) {
    guard let transfer = visits.removeValue(forKey: link) else { return }
    transfer.end()
    if transfer.state == .received, mayEnd(transfer, of: link) {
      Log.shared.warning(
        "The wallet has disconnected before its credential was judged", .transfer("\(transfer.number)"), .link(link),
        .protocolName("tuvali"))
    }
  }

  func showFigures(of link: LinkID) {
    guard let transfer = visits[link], let progress = engine.progress(of: link) else { return }
    transfer.update(Transfer.Figures(progress))
  }

  // MARK: The journal

  /// Whether to write a warning about the phone of a link outside of any transfer.
  private func mayWarn(of link: LinkID) -> Bool {
    guard journal.warns(of: addresses[link], at: scheduler.now) else { return false }
    writeLeftOut()
    return true
  }

  /// Whether to write the end of a transfer. If its start was not written, the end counts as a warning about the phone,
  /// and the start is written before it.
  private func mayEnd(_ transfer: Transfer, of link: LinkID) -> Bool {
    guard journal.writes(transfer.number) || mayWarn(of: link) else { return false }
    writeLateStart(transfer)
    return true
  }

  /// Writes the start of a transfer if that was not done in time.
  func writeLateStart(_ transfer: Transfer) {
    guard journal.catchUp(transfer.number) else { return }
    Log.shared.info(
      "A wallet had identified itself; this entry was delayed because of LinesPerPeer=\(journal.perPeer)",
      id: .transferStarted,
      .transfer("\(transfer.number)"), .protocolName("tuvali"), .dialect(transfer.dialect))
  }

  /// Logs the number of omitted transfers and warnings before the next line.
  private func writeLeftOut() {
    let count = journal.takeLeftOut()
    guard count > 0 else { return }
    Log.shared.warning(
      "\(count) transfers and warnings were not logged because of LinesPerPeer=\(journal.perPeer)",
      .protocolName("tuvali"))
  }
}

extension Transfer.Figures {
  fileprivate init(_ progress: VerifierEngine.Progress) {
    self.init()
    mtu = progress.mtu
    bytesExpected = progress.bytesExpected
    bytesTransferred = progress.bytesReceived
    chunksExpected = progress.chunksExpected
    chunksMissing = progress.chunksMissing
    crcFailures = progress.crcFailures
  }
}
