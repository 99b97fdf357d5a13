import CommandLine
import DBus
import Tool

/// A verdict on a credential.
enum Verdict: String, Sendable {
  /// The method of `Credential1`.
  case accept = "Accept"
  case reject = "Reject"

  var past: String { rawValue + "ed" }
}

/// The options of `earshot verifier watch`.
struct WatchOptions: Sendable, Equatable {
  /// It ends after one transfer.
  var isOnce = false
  /// It also takes credentials that were received before it began.
  var takesWaiting = false
  /// The verdict on each credential; nil where an operator or another program gives it.
  var verdict: Verdict?
  /// Whether credentials are fetched from the service, which erases a fetched credential as soon as it is accepted.
  var fetches = true
}

/// A credential that the command has taken from the service, as far as it was fetched.
struct TakenCredential: Sendable, Equatable {
  /// All properties of the transfer, including those that no signal carries.
  var properties: [String: DBusValue] = [:]
  /// Bytes of the credential; nil if it was not fetched.
  var bytes: Int?
  /// Where it is stored; nil if it is not.
  var file: String?
  /// The credential, if it is to be shown.
  var shown: [UInt8]?
}

/// An event for `earshot verifier watch`.
enum WatchEvent: Sendable {
  /// The service is there, with these objects. Signals that came before are in them.
  case came(ToolPart.Objects)
  case went
  case added(path: String, [String: DBusValue])
  case removed(path: String)
  /// Properties of an interface of an object have other values.
  case changed(path: String, interface: String, [String: DBusValue])
  /// The checker's verdict on a credential is there.
  case verdictReceived(path: String)
  /// The answer to `WatchAction.check`: properties, and claims as JSON.
  case checked(path: String, [String: DBusValue], claims: String?)
  /// The verifier refused a phone.
  case refused(code: String, sentence: String)
  /// The answer to `WatchAction.look`.
  case looked(path: String, [String: DBusValue])
  /// The answers to `WatchAction.take`.
  case taken(path: String, TakenCredential)
  case notTaken(path: String, Failure)
  /// The answers to `WatchAction.judge`, with the properties of the transfer then.
  case judged(path: String, [String: DBusValue])
  case notJudged(path: String, Failure, [String: DBusValue])
  /// The operator gives a verdict.
  case ordered(path: String, Verdict)
  /// The command ends after its current job.
  case stop(StopReason)

  enum StopReason: Sendable {
    /// A person or a signal ends it.
    case left
    /// The time of `--for` is over.
    case time
  }
}

/// An action of `earshot verifier watch`. Actions are performed in order.
enum WatchAction: Sendable {
  /// Ask for all properties of a transfer.
  case look(path: String)
  /// Ask for the checker's verdict on a credential, and for the claims.
  case check(path: String)
  /// Fetch a credential and store it; without `fetch` only ask for its properties.
  case take(path: String, fetch: Bool)
  case judge(path: String, Verdict)
  case report(WatchReport)
  /// The text of the QR code has changed.
  case code(String)
  case finish(Result<ExitCode, Failure>)
}

/// A report of an event: a sentence for a person, and a JSON object for a program.
struct WatchReport: Sendable, Equatable {
  enum Tone: Sendable, Equatable {
    case plain, good, bad
  }

  /// Empty where it is for programs alone.
  var sentence = ""
  /// A suggestion for a person without the keys of the screen; it follows the sentence.
  var hint = ""
  var tone = Tone.plain
  /// Whether it belongs on standard error.
  var isComplaint = false
  /// The beginning of a credential.
  var shown: [UInt8]?
  /// The members of a JSON object; empty where it is for people alone.
  var members: [JSONValue.Member] = []
}
