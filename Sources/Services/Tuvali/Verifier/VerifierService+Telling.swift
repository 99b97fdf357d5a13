import Common
import Journal
import Radio
import Transfers
import Tuvali

/// What the engine tells of its visits, as transfers and in the journal.
extension VerifierService {
  func tell(_ notice: VerifierEngine.Notice, of link: LinkID) {
    switch notice {
    case .secured(let dialect):
      begin(visits[link] ?? transfers.add(.incoming, .connected), on: link, dialect: dialect)
    case .announced:
      visits[link]?.enter(.transferring)
      showFigures(of: link)
      guard Log.shared.level == .debug, let progress = engine.progress(of: link), mayTell(of: link, .course) else {
        return
      }
      Log.shared.debug(
        "\(progress.bytesExpected) bytes in \(progress.chunksExpected) chunks are announced", .link(link),
        .protocolName("tuvali"))
    case .received: received(from: link)
    case .statusSent: break
    case .failed(let error): fail(error, on: link)
    case .refused(let reason): refused(reason, on: link)
    case .silent:
      guard mayTell(of: link) else { return }
      let limit = settings.engine.identifyTimeout
      Log.shared.warning(
        "Somebody connected and did not say who it is within \(limit)", id: .transferRefused, .link(link),
        .protocolName("tuvali"))
    case .ended: end(link)
    }
  }

  private func refused(_ reason: VerifierEngine.Refusal, on link: LinkID) {
    let refusal = WalletRefusal(reason, settings)
    announce(refusal)
    guard mayTell(of: link) else { return }
    Log.shared.info(
      "A phone was refused. \(refusal.sentence)", id: .transferRefused, .link(link), .protocolName("tuvali"))
  }

  private func begin(_ transfer: Transfer, on link: LinkID, dialect: Dialect) {
    transfer.met(addresses[link], dialect: dialect.name.rawValue)
    visits[link] = transfer
    showFigures(of: link)
    guard mayTell(of: link, .course) else { return }
    Log.shared.info(
      "A wallet is here", id: .transferStarted, .transfer("\(transfer.number)"), .link(link),
      .protocolName("tuvali"), .dialect(dialect.name.rawValue))
  }

  private func received(from link: LinkID) {
    guard let transfer = visits[link] else { return }
    showFigures(of: link)
    transfer.awaitVerdict(until: engine.verdictEnd(of: link))
    transfer.enter(.received)
    if mayTell(of: link, .course) {
      Log.shared.notice(
        "A credential of \(transfer.text?.count ?? 0) bytes is here", id: .transferReceived,
        .transfer("\(transfer.number)"), .protocolName("tuvali"))
    }
    receptions.call(transfer)
    if settings.decision == .accept {
      // After the report that is being sent in this very turn.
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
    failed.enter(.failed, error: error)
    if transfer == nil { failed.end() }
    guard mayTell(of: link) else { return }
    Log.shared.warning(
      "A transfer failed: \(error)", id: .transferFailed, .transfer("\(failed.number)"), .link(link), .error(error),
      .protocolName("tuvali"))
  }

  /// Whether a session that ended like this is held against its peer. One that was turned away has held up nobody.
  private static func isHeldAgainstPeer(_ reason: TuvaliError.Reason) -> Bool {
    switch reason {
    case .stopped, .busy, .noCapacity, .peerEnded: false
    default: true
    }
  }

  private func end(_ link: LinkID) {
    guard let transfer = visits.removeValue(forKey: link) else { return }
    transfer.end()
    if transfer.state == .received, mayTell(of: link) {
      Log.shared.warning(
        "The wallet is gone, and nobody has judged its credential", .transfer("\(transfer.number)"), .link(link),
        .protocolName("tuvali"))
    }
  }

  func showFigures(of link: LinkID) {
    guard let transfer = visits[link], let progress = engine.progress(of: link) else { return }
    transfer.update(Transfer.Figures(progress))
  }

  /// Whether a line about this wallet may be written; when one may, it is said how many were not.
  func mayTell(of link: LinkID, _ kind: Line.Kind = .trouble) -> Bool {
    guard told.allow(Line(peer: addresses[link], kind: kind), at: scheduler.now) else { return false }
    let left = told.takeSuppressed()
    if left > 0 { Log.shared.warning("\(left) lines about wallets were left out", .protocolName("tuvali")) }
    return true
  }
}

/// What lines are counted by: who comes again and again cannot hide a failure behind ordinary lines.
struct Line: Hashable {
  enum Kind { case course, trouble }

  let peer: BluetoothAddress?
  let kind: Kind
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
