import DBus
import Terminal
import Tool
import Verifier
import Wallet

/// Descriptions of events of the verifier, the wallet and their transfers.
enum TransferSentences {
  static func text(_ event: ServiceEvent) -> String? {
    switch event {
    case .added(let path, let interfaces): interfaces[TransferView.interface].map { begin(path, $0) }
    case .removed(let path): isTransfer(path) ? "\(name(path)) is no longer listed." : nil
    case .changed(let path, TransferView.interface, let values, _, let known): change(path, values, known)
    case .changed(_, VerifierAdaptor.interfaceName, let values, _, let known): verifier(values, known)
    case .signal(_, VerifierAdaptor.interfaceName, let name, let arguments): signal(name, arguments)
    default: nil
    }
  }

  // MARK: Transfers

  private static func isTransfer(_ path: ObjectPath) -> Bool {
    [VerifierAdaptor.path, WalletAdaptor.path].contains { path.string.hasPrefix($0.string + "/") }
  }

  /// Name of the transfer for `earshot transfers`.
  private static func name(_ path: ObjectPath) -> String {
    String(path.string.dropFirst(Client.manager.string.count + 1))
  }

  /// Whether the verifier receives the credential, derived from the path: signals of changes lack `Direction`.
  private static func isIncoming(_ path: ObjectPath) -> Bool {
    path.string.hasPrefix(VerifierAdaptor.path.string + "/")
  }

  private static func begin(_ path: ObjectPath, _ properties: [String: DBusValue]) -> String {
    let what =
      switch (isIncoming(path), properties["State"]?.text) {
      case (false, _): "the wallet looks for the verifier"
      case (true, "received"?), (true, "accepted"?): "a credential of an earlier run waits"
      default: "a wallet has connected"
      }
    return "\(name(path)): \(what)."
  }

  private static func change(
    _ path: ObjectPath, _ values: [String: DBusValue], _ known: [String: DBusValue]
  ) -> String? {
    var parts: [String] = []
    if let state = values["State"]?.text { parts.append(stateText(state, known, isIncoming: isIncoming(path))) }
    if values["State"] == nil, values["BytesTransferred"] != nil || values["ChunksMissing"] != nil {
      parts.append(progress(known))
    }
    if values["State"] == nil, values["BytesTransferred"] == nil, values["BytesExpected"] != nil {
      parts.append("\(size("BytesExpected", known)) are to be transferred")
    }
    if let dialect = values["Dialect"]?.text, !dialect.isEmpty { parts.append("dialect \(dialect)") }
    if let mtu = values["Mtu"]?.asInteger, mtu > 0 { parts.append("MTU \(mtu)") }
    if values["Fetched"]?.text == "yes" { parts.append("a program has fetched the credential") }
    if let live = values["Live"]?.text { parts.append(live == "yes" ? "the link is up" : "the link has ended") }
    return parts.isEmpty ? nil : "\(name(path)): \(parts.joined(separator: ", "))."
  }

  private static func stateText(_ state: String, _ known: [String: DBusValue], isIncoming: Bool) -> String {
    switch state {
    case "searching": "the wallet looks for the verifier"
    case "connected": isIncoming ? "a wallet has connected" : "connected to the verifier"
    case "transferring": "\(isIncoming ? "receiving" : "sending") \(size("BytesExpected", known)), encrypted"
    case "received":
      isIncoming ? "the credential has arrived and waits for its verdict" : "the verifier has the credential"
    case "accepted", "rejected":
      isIncoming ? "the credential is \(state)" + delivery(known) : "the verifier has \(state) the credential"
    case "undecided": isIncoming ? "there is no verdict" : "the verifier gave no verdict"
    case "failed": "failed" + (known["ErrorCode"].map { " (\($0.text))" } ?? "")
    default: state
    }
  }

  private static func delivery(_ known: [String: DBusValue]) -> String {
    switch known["VerdictDelivery"]?.text {
    case "sent"?: ", and the wallet was notified"
    case "peerGone"?: "; the wallet had left and was not notified"
    default: ""
    }
  }

  private static func progress(_ known: [String: DBusValue]) -> String {
    let missing = known["ChunksMissing"]?.asInteger ?? 0
    return "\(size("BytesTransferred", known)) of \(size("BytesExpected", known)) transferred"
      + (missing > 0 ? ", \(missing) chunks missing" : "")
  }

  private static func size(_ name: String, _ known: [String: DBusValue]) -> String {
    humanBytes(known[name]?.asInteger ?? 0)
  }

  // MARK: The verifier

  private static func verifier(_ values: [String: DBusValue], _ known: [String: DBusValue]) -> String? {
    var sentences: [String] = []
    if values["State"] != nil || values["Sessions"] != nil { sentences.append(stateOfVerifier(known)) }
    if let uri = values["ConnectionUri"]?.text {
      sentences.append(uri.isEmpty ? "No QR code is shown." : "The QR code for the next wallet: \(uri)")
    }
    if let checker = values["Checker"]?.text {
      sentences.append(checker.isEmpty ? "Credentials can be checked again." : "Checker: \(checker)")
    }
    if let storage = values["Storage"]?.text {
      sentences.append(storage.isEmpty ? "Credentials can be stored again." : "Storage: \(storage)")
    }
    return sentences.isEmpty ? nil : sentences.joined(separator: " ")
  }

  private static func stateOfVerifier(_ known: [String: DBusValue]) -> String {
    switch known["State"]?.text ?? "" {
    case "serving":
      known["Sessions"]?.asInteger == 1
        ? "The verifier serves one wallet." : "The verifier serves \(known["Sessions"]?.text ?? "some") wallets."
    case "waiting": "The verifier waits for wallets."
    case "full": "The verifier is full: it invites no wallet until credentials are judged and fetched."
    case let state: "The verifier is \(state)."
    }
  }

  private static func signal(_ name: String, _ arguments: [DBusValue]) -> String? {
    switch name {
    case "CredentialReceived":
      arguments.first?.asObjectPath.map {
        "\(Self.name($0)): the credential can be fetched: earshot transfers get \(Self.name($0))"
      }
    case "VerdictReceived":
      arguments.first?.asObjectPath.map {
        "\(Self.name($0)): the checker has its verdict: earshot transfers show \(Self.name($0))"
      }
    case "WalletRefused": "A phone was refused. \(arguments.last?.text ?? "")"
    default: nil
    }
  }
}
