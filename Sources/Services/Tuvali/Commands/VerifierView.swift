import DBus
import Tool
import Verifier

/// Verifier according to its D-Bus properties and those of the manager object, updated by signals.
struct VerifierView: Sendable {
  private var verifier: [String: DBusValue]
  private var house: [String: DBusValue]

  /// Nil if there is no verifier among the objects.
  init?(_ objects: ToolPart.Objects) {
    guard let verifier = objects[VerifierAdaptor.path.string]?[VerifierAdaptor.interfaceName] else { return nil }
    self.verifier = verifier
    house = objects[Client.manager.string]?[Client.managerInterface] ?? [:]
  }

  /// - Returns: whether the interface is that of the verifier or the manager.
  mutating func update(_ interface: String, _ values: [String: DBusValue]) -> Bool {
    switch interface {
    case VerifierAdaptor.interfaceName: verifier.merge(values) { $1 }
    case Client.managerInterface: house.merge(values) { $1 }
    default: return false
    }
    return true
  }

  var name: String { verifier["Name"]?.text ?? "" }
  var state: String { verifier["State"]?.text ?? "" }
  /// Text of the QR code; empty if no wallet is invited.
  var uri: String { verifier["ConnectionUri"]?.text ?? "" }
  var isStopped: Bool { state == "stopped" }
  /// Reason for which a started verifier shows no code.
  var noCode: String {
    state == "full"
      ? "No wallet is invited, because the maximum number of credentials wait. Try: earshot transfers"
      : "No wallet is invited now."
  }

  /// Sentences for a person at the kiosk: why no wallet is invited, and current problems.
  var troubles: [String] {
    var sentences: [String] = []
    if isStopped { sentences.append("The verifier is stopped. Try: earshot verifier start") }
    let (radio, reason) = (house["RadioState"]?.text ?? "", house["RadioReason"]?.text ?? "")
    if !radio.isEmpty, radio != "ready" {
      sentences.append("The radio is \(radio). \(reason)")
    }
    if let storage = verifier["Storage"]?.text, !storage.isEmpty { sentences.append("Storage: \(storage)") }
    if let checker = verifier["Checker"]?.text, !checker.isEmpty { sentences.append("Checker: \(checker)") }
    if uri.isEmpty, sentences.isEmpty || state == "full" { sentences.append(noCode) }
    return sentences
  }
}
