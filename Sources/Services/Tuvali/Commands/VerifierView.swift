import DBus
import Tool
import Verifier

/// The verifier as its properties and those of the house show it, kept up to date by the signals about them.
struct VerifierView: Sendable {
  private var verifier: [String: DBusValue]
  private var house: [String: DBusValue]

  /// Nil if there is no verifier among the objects.
  init?(_ objects: ToolPart.Objects) {
    guard let verifier = objects[VerifierFace.path.string]?[VerifierFace.interfaceName] else { return nil }
    self.verifier = verifier
    house = objects[Client.manager.string]?[Client.managerInterface] ?? [:]
  }

  /// - Returns: whether the interface is one of the two.
  mutating func update(_ interface: String, _ values: [String: DBusValue]) -> Bool {
    switch interface {
    case VerifierFace.interfaceName: verifier.merge(values) { $1 }
    case Client.managerInterface: house.merge(values) { $1 }
    default: return false
    }
    return true
  }

  var name: String { verifier["Name"]?.text ?? "" }
  var state: String { verifier["State"]?.text ?? "" }
  /// The text of the QR code; empty where no wallet is invited.
  var uri: String { verifier["ConnectionUri"]?.text ?? "" }
  var isStopped: Bool { state == "stopped" }

  /// What a person in front of it should know, a sentence each: why no wallet is invited, and what goes wrong.
  var troubles: [String] {
    var sentences: [String] = []
    if isStopped { sentences.append("The verifier is stopped. Try: earshot verifier start") }
    let (radio, reason) = (house["RadioState"]?.text ?? "", house["RadioReason"]?.text ?? "")
    if !radio.isEmpty, radio != "ready" {
      sentences.append("The radio is \(radio). \(reason)")
    }
    if let storage = verifier["Storage"]?.text, !storage.isEmpty { sentences.append("Storage: \(storage)") }
    if let checker = verifier["Checker"]?.text, !checker.isEmpty { sentences.append("Checker: \(checker)") }
    if sentences.isEmpty, uri.isEmpty { sentences.append("No wallet is invited now.") }
    return sentences
  }
}
