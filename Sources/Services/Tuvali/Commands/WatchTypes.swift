import CommandLine
import Common
import DBus
import Terminal
import Tool

/// A verdict that this command gives on a credential.
enum Verdict: String, Sendable {
  /// The raw value is the name of the method of `org.earshot.Credential1`.
  case accept = "Accept"
  case reject = "Reject"

  var past: String { rawValue + "ed" }
}

/// The options of `earshot verifier watch`.
struct WatchOptions: Sendable, Equatable {
  /// Whether to end after one transfer.
  var isOnce = false
  /// Whether to fetch credentials received before the start, too.
  var takesWaiting = false
  /// Verdict on each credential; nil if an operator or another program decides.
  var verdict: Verdict?
  /// Whether to fetch credentials from the service, which erases a fetched credential once it is accepted.
  var fetches = true
}

/// Credential taken from the service, with the parts that were fetched.
struct TakenCredential: Sendable, Equatable {
  /// All properties of the transfer, including those that signals lack.
  var properties: [String: DBusValue] = [:]
  /// Size of the credential in bytes; nil if it was not fetched.
  var bytes: Int?
  /// File in which the credential is stored; nil if it is not.
  var file: String?
  /// Credential to be shown, if requested.
  var shown: [UInt8]?
}

/// Input of the model of `earshot verifier watch`.
enum WatchEvent: Sendable {
  /// The service is running, with these objects, which include the changes of earlier signals.
  case came(ToolPart.Objects)
  case went
  case added(path: String, [String: DBusValue])
  case removed(path: String)
  /// Properties of an object's interface have changed.
  case changed(path: String, interface: String, [String: DBusValue])
  /// The checker's verdict on a credential has arrived.
  case verdictReceived(path: String)
  /// Properties of a transfer with the checker's verdict, and the claims as JSON, read for `WatchAction.check`.
  case checked(path: String, [String: DBusValue], claims: String?)
  /// The verifier refused a phone, for the reason in `sentence`.
  case refused(code: String, sentence: String)
  /// All properties of a transfer, read for `WatchAction.look`.
  case looked(path: String, [String: DBusValue])
  /// The credential of `WatchAction.take` was fetched and stored. Without `fetch`, its properties were read.
  case taken(path: String, TakenCredential)
  case notTaken(path: String, Failure)
  /// The service has received the verdict of `WatchAction.judge`. The properties are those of the transfer
  /// afterwards.
  case judged(path: String, [String: DBusValue])
  case notJudged(path: String, Failure, [String: DBusValue])
  /// The operator has given a verdict.
  case ordered(path: String, Verdict)
  /// The command ends after its current job.
  case stop(StopReason)

  enum StopReason: Sendable {
    /// A person or a signal ends the command.
    case left
    /// The time of `--for` has passed.
    case time
  }
}

/// Output of the model of `earshot verifier watch`. Actions are performed in order.
enum WatchAction: Sendable {
  /// Read all properties of a transfer.
  case look(path: String)
  /// Read the checker's verdict on a credential, and the claims.
  case check(path: String)
  /// Fetch and store a credential; without `fetch` only read its properties.
  case take(path: String, fetch: Bool)
  case judge(path: String, Verdict)
  case report(WatchReport)
  /// The text of the QR code has changed.
  case code(String)
  case finish(Result<ExitCode, Failure>)
}

/// Report of an event: a sentence for people, and a JSON object for programs.
struct WatchReport: Sendable, Equatable {
  enum Tone: Sendable, Equatable {
    case plain, good, bad
  }

  /// Sentence for people; empty if the report is for programs only.
  var sentence = ""
  /// Suggestion after the sentence, for people without the keys of the screen.
  var hint = ""
  var tone = Tone.plain
  /// Whether the report is written to standard error.
  var isComplaint = false
  /// The beginning of a credential, to be printed after the report; nil without `--show`.
  var shown: [UInt8]?
  /// Members of the JSON object; empty if the report is for people only.
  var members: [JSONValue.Member] = []
  /// Whether the report is about a received credential.
  var isReception = false

  /// The JSON object with its time.
  ///
  /// - Parameter date: milliseconds since 1970-01-01 UTC.
  func json(at date: UInt64) -> JSONValue { .object(members + [.init("time", .unsigned(date))]) }
}

/// Transfer in `earshot verifier watch`: its D-Bus properties, and the stage of its handling.
struct WatchedTransfer: Sendable, Equatable {
  enum Stage: Sendable, Equatable {
    /// The credential was received before the command began and is fetched only on request, or it could not be
    /// stored.
    case left
    /// The credential is being sent to the service.
    case underWay
    /// The credential waits to be fetched, after those before it.
    case queued
    /// The credential is being fetched and stored.
    case taking
    /// The credential was reported, and waits for a verdict if it has none.
    case told
    /// This command's verdict is being sent to the service.
    case judging
    /// This command does nothing more with the credential.
    case done
  }

  var view: TransferView
  var stage: Stage
  /// When the transfer was first seen.
  let seen: Instant
  /// Claims of the credential as JSON, as the checker allows them; nil if there are none or they were not fetched.
  var claims: String?
  /// Whether the checker's verdict must be reported right after the credential.
  var hasUntoldCheck = false
  /// Verdict that this command must send.
  var verdict: Verdict?

  /// Whether an operator can judge the credential.
  var awaitsVerdict: Bool { view.state == "received" && stage != .judging }
}

/// Makes the reports about one transfer: reception, verdict, failure and departure of the phone.
extension WatchReport {
  /// Report of a received credential, which is stored if the command stores it.
  ///
  /// - Parameters:
  ///   - verdict: verdict that this command will send; nil if another program decides.
  ///   - date: milliseconds since 1970-01-01 UTC.
  static func reception(
    _ view: TransferView, _ credential: TakenCredential, _ verdict: Verdict?, at date: UInt64
  ) -> WatchReport {
    let bytes = credential.bytes ?? view.size
    var sentence = "Received \(view.name): \(humanBytes(bytes))" + (view.peer.isEmpty ? "" : " from \(view.peer)")
    sentence += credential.file.map { "; it is in \($0)." } ?? "."
    var hint = ""
    switch view.state {
    case "received" where verdict == nil:
      let left = view.verdictDeadline > date ? " for \(Moment.span(view.verdictDeadline - date))" : ""
      sentence +=
        view.isLive ? " A verdict is awaited\(left)." : " The phone has left; a verdict does not reach it any more."
      hint = "Try: earshot transfers accept \(view.name), or reject"
    case "received": break
    default: sentence += " It is \(view.state) already."
    }
    var members: [JSONValue.Member] = [
      .init("transfer", .string(view.path.string)), .init("peer", .string(view.peer)),
      .init("bytes", .int(Int64(bytes))),
    ]
    if let file = credential.file { members.append(.init("file", .string(file))) }
    if let shown = credential.shown {
      members.append(.init("credential", .string(String(decoding: shown, as: UTF8.self))))
    }
    members += [.init("state", .string(view.state)), .init("verdictDeadline", .unsigned(view.verdictDeadline))]
    return WatchReport(
      sentence: sentence, hint: hint, tone: .good, shown: credential.shown, members: members, isReception: true)
  }

  /// Report of the checker's verdict on a credential.
  static func check(_ transfer: WatchedTransfer) -> WatchReport {
    let (view, reasons) = (transfer.view, transfer.view.reasons)
    let sentences = reasons.map { " \($0.sentence)" }.joined()
    var members: [JSONValue.Member] = [
      .init("transfer", .string(view.path.string)), .init("verdict", .string(view.verdict)),
      .init("reasons", CheckText.reasons(reasons)),
      .init("issuer", .string(view.issuer)), .init("type", .string(view.credentialType)),
    ]
    if let claims = transfer.claims.flatMap({ try? JSONReader.read(Array($0.utf8)) }) {
      members.append(.init("claims", claims))
    }
    return WatchReport(
      sentence: "\(view.name) is \(view.verdictText).\(sentences)", tone: view.verdict == "valid" ? .good : .bad,
      members: members)
  }
}
