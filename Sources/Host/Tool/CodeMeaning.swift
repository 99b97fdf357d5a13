import CommandLine
import Common
import DBus

/// The meaning of a stable code that the service, the tool or the journal writes. `earshot explain` shows it.
public struct CodeMeaning: Sendable, Equatable {
  /// The code, exactly as it is written: `TooManyFiles`.
  public let code: String
  /// Other names of the code, such as the digits of a message ID.
  public let aliases: [String]
  /// Where the code occurs, a noun phrase: `error of a transfer`.
  public let kind: String
  /// The event or state, in whole sentences.
  public let meaning: String
  /// The remedy, in whole sentences; empty if there is nothing to do.
  public let remedy: String

  public init(_ code: String, aliases: [String] = [], kind: String, _ meaning: String, remedy: String = "") {
    self.code = code
    self.aliases = aliases
    self.kind = kind
    self.meaning = meaning
    self.remedy = remedy
  }

  /// Whether a person may mean this code by `word`, in any case.
  func isNamed(_ word: String) -> Bool {
    let word = word.lowercased()
    return ([code] + aliases).contains { $0.lowercased() == word }
  }

  var json: JSONValue {
    .object([
      .init("code", .string(code)), .init("kind", .string(kind)), .init("meaning", .string(meaning)),
      .init("remedy", .string(remedy)),
    ])
  }
}

extension CodeMeaning {
  /// The codes that do not belong to a single service: D-Bus errors, states of the radio, and exit statuses of the
  /// tool.
  static let house: [CodeMeaning] =
    DBusError.Name.allCases.map(error)
    + radioStates.map { CodeMeaning($0.code, kind: "state of the radio", $0.meaning, remedy: $0.remedy) }
    + ExitCode.allCases.map {
      CodeMeaning("\($0.rawValue)", kind: "exit status of the tool", "The command ended: \($0.meaning).")
    }

  private static let radioStates: [(code: String, meaning: String, remedy: String)] = [
    ("ready", "The radio works.", ""),
    (
      "waiting", "The service waits for bluetoothd, or for an adapter that is unblocked and switched on.",
      "RadioReason names what is missing, and the command to run. `earshot doctor` examines all of it."
    ),
    (
      "degraded", "The radio works partially.",
      "RadioReason names what is missing. `earshot explain RadioDegraded` has details."
    ),
  ]

  private static func error(_ name: DBusError.Name) -> CodeMeaning {
    let (meaning, remedy) = words(name)
    let short = name.rawValue.split(separator: ".").last.map(String.init) ?? name.rawValue
    return CodeMeaning(name.rawValue, aliases: [short], kind: "D-Bus error", meaning, remedy: remedy)
  }

  private static func words(_ name: DBusError.Name) -> (meaning: String, remedy: String) {
    switch name {
    case .invalidArgs:
      (
        "The arguments of the call have the wrong types, or a value is out of range.",
        "docs/dbus.md lists the arguments."
      )
    case .notReady:
      ("The call is not possible yet: something must be set up, started or connected first.", "The message names it.")
    case .busy: ("Another program uses the resource now.", "Call again later.")
    case .notFound: ("The item that the call names does not exist, or no longer exists.", "")
    case .notSupported:
      ("The settings or this machine do not support the call.", "The message names the setting or the limitation.")
    case .denied:
      (
        "The caller may not do this.",
        "Add the user to the group earshot: sudo usermod -aG earshot USER, then log in again."
      )
    case .timeout: ("The time limit was exceeded.", "Call again, if needed with a longer time limit.")
    case .peerLost: ("The peer disconnected before the end.", "Bring the phone nearer, and try again.")
    case .protocolError: ("The peer violated its protocol.", "The message begins with the protocol's own code.")
    case .limitExceeded:
      ("A named limit was exceeded.", "The message names the limit, and the setting that changes it.")
    case .failed:
      ("The operation failed inside the service.", "The message gives the reason. See also: journalctl -u earshotd")
    case .disconnected: ("The connection to the bus does not exist, or broke during the call.", "Connect again.")
    case .unknownObject:
      (
        "The object does not exist. The object of a service that is off does not exist either.",
        "Switch the service on with Enabled=yes in its section of the configuration."
      )
    case .unknownInterface: ("The object has no interface of this name that the caller may read.", "")
    case .unknownMethod: ("The object has no method of this name.", "")
    case .unknownProperty: ("The object has no property of this name.", "")
    case .readOnly: ("The property can be read, but not set.", "")
    case .serviceUnknown, .nameHasNoOwner:
      ("The service is not running.", "sudo systemctl enable --now earshotd")
    case .noReply: ("The service ended during the call, or did not answer in time.", "systemctl status earshotd")
    case .accessDenied:
      (
        "The policy of the bus forbids the call, or the property is for a group in which the caller is not.",
        "Add the user to the group earshot: sudo usermod -aG earshot USER, then log in again."
      )
    }
  }
}
