import CommandLine
import Terminal

/// Reports about one transfer.
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
    return WatchReport(sentence: sentence, hint: hint, tone: .good, shown: credential.shown, members: members)
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
