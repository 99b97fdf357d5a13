import Common
import DBus
import Loop
import Transfers

/// D-Bus adaptor of the verifier: `org.earshot.Verifier1`, and a `Credential1` object below it for each transfer.
@LoopActor
public final class VerifierAdaptor {
  public nonisolated static let interfaceName = "org.earshot.Verifier1"
  public nonisolated static let path: ObjectPath = "/org/earshot/verifier"

  private let service: VerifierService
  private let object: ExportedObject
  private let transfers: CredentialObjects

  public init(_ service: VerifierService, on tree: ObjectTree, manager: ObjectPath) {
    self.service = service
    object = tree.export(Self.path, interfaces: [Self.interface(service)], manager: manager)
    transfers = CredentialObjects(
      service.transfers, on: tree, below: Self.path, manager: manager, actions: Self.actions(service))
    service.observe(
      changed: { [weak self] in
        self?.object.changed("State", "Name", "ConnectionUri", "Sessions", "Storage", "Checker")
      },
      received: { [weak self] in self?.announce("CredentialReceived", $0) },
      checked: { [weak self] in self?.announce("VerdictReceived", $0) },
      refused: { [weak self] in self?.announce($0) })
  }

  /// Emits a signal with the path of the transfer only. Programs that may see its content fetch it.
  private func announce(_ signal: String, _ transfer: Transfer) {
    object.emit(Self.interfaceName, signal, [.objectPath(transfers.path(of: transfer))])
  }

  private func announce(_ refusal: WalletRefusal) {
    object.emit(Self.interfaceName, "WalletRefused", [.string(refusal.code), .string(refusal.sentence)])
  }

  /// Methods of `org.earshot.Credential1` for a transfer of the verifier.
  public static func actions(_ service: VerifierService) -> CredentialActions {
    CredentialActions(
      decide: { [weak service] in service?.decide($0, accepted: $1, then: $2) ?? false },
      taken: { [weak service] in service?.taken($0) },
      disconnect: { [weak service] in service?.disconnect($0) ?? false })
  }

  public static func interface(_ service: VerifierService) -> Interface {
    Interface(
      interfaceName,
      documentation: "Receives verifiable credentials from phones nearby (MOSIP Tuvali), several at a time.",
      audience: .everybody,
      methods: [
        Method(
          "Start", out: [Argument("uri", "s")],
          documentation: "Starts to advertise and to wait for wallets. Returns the text of the QR code for the next "
            + "wallet, the value of ConnectionUri.",
          returning: { _ throws(DBusError) in [.string(service.start())] }),
        Method(
          "Stop", documentation: "Stops advertising. Transfers under way fail; received credentials stay stored.",
          returning: { _ throws(DBusError) in
            service.stop()
            return []
          }),
        Method(
          "ListHistory", in: [Argument("before", "t"), Argument("limit", "u")],
          out: [Argument("results", "a(ttttsss)")],
          documentation:
            "Returns results of ended transfers, the newest first. Each has an ID, the number of the transfer, the time of "
            + "the result, the duration of the transfer in milliseconds (0 if it began in an earlier run), the result "
            + "(accepted, rejected, undecided or failed), a reason (the code of the error, or those of the checker, "
            + "separated by blanks), and the issuer's name in the trust folder. before is the ID of the last result that "
            + "the caller has, or 0 for the newest; limit is at most \(TransferHistoryStore.pageLimit), and 0 means that. "
            + "HistoryFor= sets how long results are stored. The members of the group earshot-view may call it, too; for "
            + "them the issuer is empty, and so is the reason except of a failed transfer.",
          errors: [.notReady, .failed], audience: .viewers,
          handler: { listHistory($0, service) }),
      ],
      properties: [
        Property(
          "State", "s",
          documentation:
            "stopped, waiting (no wallet has a session), serving, or full: no wallet has a session or is invited, because "
            + "there is no capacity for a credential until some are judged and fetched.",
          audience: .everybody, get: { .string(service.state.rawValue) }),
        Property(
          "Sessions", "u",
          documentation:
            "The number of wallets that have a session; each has a Credential1 object that is Live. A wallet "
            + "that is leaving counts until its link ends.",
          audience: .everybody, get: { .uint32(UInt32(service.visitors)) }),
        Property(
          "Name", "s", documentation: "The name that wallets see, at most 14 bytes.",
          audience: .everybody, get: { .string(service.settings.engine.name) }),
        Property(
          "ConnectionUri", "s",
          documentation:
            "The text of the QR code for the next wallet; it changes after a wallet has used it. Empty "
            + "while no wallet is invited: the verifier is stopped, the radio is not usable, or there is no "
            + "capacity for a credential.",
          audience: .everybody, get: { .string(service.connectionURI) }),
        Property(
          "Dialects", "as", documentation: "The dialects that are served: 0.5, 0.4, 0.3.", audience: .everybody,
          emits: .const,
          get: { .strings(service.settings.dialects.map(\.name.rawValue)) }),
        Property(
          "Storage", "s",
          documentation:
            "What is wrong with the storage of credentials, and what to do: a fault of the disk, or no "
            + "capacity. Empty if nothing is wrong.",
          audience: .everybody, get: { .string(service.storage) }),
        Property(
          "Checker", "s",
          documentation:
            "What is wrong with checking credentials, and what to do: the checker does not run, or Decision=check is "
            + "set without Check=yes. Empty if nothing is wrong.",
          audience: .everybody, get: { .string(service.checkerTrouble) }),
        Property(
          "Counters", "a{st}",
          documentation: "Counters of events since the service started.",
          audience: .everybody, emits: .none,
          get: { counters(service) }),
      ],
      signals: [
        Signal(
          "CredentialReceived", [Argument("credential", "o")],
          documentation:
            "A credential was received, or restored from an earlier run: GetCredential or OpenCredential of this "
            + "object returns it. A service that starts restores credentials before it acquires its bus name."),
        Signal(
          "VerdictReceived", [Argument("credential", "o")],
          documentation:
            "The checker's verdict on a credential is available (Check=yes) as Verdict and VerdictReasons of this "
            + "object. A verdict of an earlier run is not announced again."),
        Signal(
          "WalletRefused", [Argument("code", "s"), Argument("sentence", "s")],
          documentation:
            "A phone was refused. code is wrongCode (the phone used a code that is no longer shown), busy (every session "
            + "slot or link is in use) or full (there is no capacity for another credential); sentence says what to do. At "
            + "most \(VerifierService.refusalsPerMinute) signals a minute are sent for each code, and none names the phone."
        ),
      ])
  }

  private static func listHistory(_ call: MethodCall, _ service: VerifierService) {
    let before = call.arguments.first?.asUInt64 ?? 0
    let limit = call.arguments.last?.asUInt32 ?? 0
    guard service.history.mayRead else {
      return call.fail(.limitExceeded("\(TransferHistoryStore.readLimit) calls of ListHistory wait for the disk."))
    }
    service.history.read(
      before: before == 0 ? nil : Int64(clamping: before),
      limit: limit == 0 ? TransferHistoryStore.pageLimit : Int(limit)
    ) { page in
      switch page {
      case .success(let entries):
        let isWhole = call.isOfGroup
        call.reply(.array(of: "(ttttsss)", entries.map { value($0.entry, id: $0.id, isWhole: isWhole) }))
      case .failure(let error) where error.reason == .missing: call.fail(.notReady(error.sentence))
      case .failure(let error): call.fail(.failed(error.sentence))
      }
    }
  }

  /// - Parameter isWhole: whether the verdict of the checker is included, which is content.
  private static func value(_ entry: HistoryEntry, id: Int64, isWhole: Bool) -> DBusValue {
    let reason = isWhole || entry.result == Transfer.State.failed.rawValue ? entry.reason : ""
    return .structure([
      .uint64(UInt64(clamping: id)), .uint64(UInt64(clamping: entry.transfer)), .uint64(UInt64(clamping: entry.time)),
      .uint64(UInt64(clamping: entry.duration)), .string(entry.result), .string(reason),
      .string(isWhole ? entry.issuer : ""),
    ])
  }

  private static func counters(_ service: VerifierService) -> DBusValue {
    let counters = service.counters
    let tallies: [Tally] = [
      Tally("Sessions", counters.visits), Tally("Received", counters.received), Tally("Failed", counters.failed),
      Tally("FailedByLimit", counters.failedByLimit), Tally("FailedByTime", counters.failedByTime),
      Tally("Refused", counters.refused), Tally("Chunks", counters.chunks),
      Tally("CrcFailures", counters.crcFailures), Tally("DuplicateChunks", counters.duplicateChunks),
      Tally("BadChunks", counters.badChunks), Tally("IgnoredWrites", counters.ignoredWrites),
      Tally("SilentLinks", counters.silentLinks), Tally("RefusedLinks", service.refusedLinks),
      Tally("LinesLeftOut", service.journal.total), Tally("StoreFull", service.storeFull + counters.noRoom),
      Tally("EvictedSessions", counters.evictedSessions), Tally("Checked", service.checks.counters.checked),
      Tally("HistoryLost", service.history.lost), Tally("CheckedValid", service.checks.counters.valid),
      Tally("ChecksFailed", service.checks.counters.failed),
    ]
    return .tallies(tallies)
  }
}
