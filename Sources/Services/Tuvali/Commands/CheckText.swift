import Checking
import CommandLine
import Common
import DBus

/// A checker's verdict as text for a person. Everything in it is fit for a terminal.
enum CheckText {
  /// Maximum length of a claim that is shown, in Unicode scalars; a portrait has far more.
  private static let claimLimit = 200
  /// Claims that are shown.
  private static let claimCount = 100

  /// `valid, issued by Residents Office`; `invalid (signatureWrong)`.
  static func summary(_ word: String, issuer: String, codes: [String]) -> String {
    let reasons = codes.isEmpty ? "" : " (\(codes.joined(separator: ", ")))"
    let text =
      "\(word)\(reasons)" + (issuer.isEmpty ? "" : word == "valid" ? ", issued by \(issuer)" : ", issuer: \(issuer)")
    return PrintableText.clean(text, limit: 500)
  }

  static func lines(_ verdict: CheckVerdict) -> [String] {
    var lines = [summary(verdict.word.rawValue, issuer: verdict.issuer, codes: verdict.reasons.map(\.code))]
    lines += verdict.reasons.map { "  \($0.code): \(PrintableText.clean($0.sentence, limit: 500))" }
    if !verdict.type.isEmpty { lines.append("  type: \(PrintableText.clean(verdict.type))") }
    return lines + claimLines(verdict.claims).map { "  \($0)" }
  }

  /// A line for each claim: its name and its value.
  static func claimLines(_ json: String?) -> [String] {
    guard let json, let value = try? JSONReader.read(Array(json.utf8)) else { return [] }
    guard case .object(let members) = value else { return [text(value)] }
    let width = min(24, members.map(\.name.count).max() ?? 0)
    let shown = members.prefix(claimCount).map { member in
      let name = PrintableText.clean(member.name, limit: 60)
      return name + String(repeating: " ", count: max(0, width - name.count) + 2) + text(member.value)
    }
    let more = members.count - shown.count
    return shown + (more > 0 ? ["and \(more) more claims"] : [])
  }

  /// The claims in one line, for a screen: `fullName: Asha Example, gender: Female`.
  static func claimSummary(_ json: String?) -> String {
    guard let json, case .object(let members)? = try? JSONReader.read(Array(json.utf8)) else { return "" }
    let claims = members.prefix(claimCount).map { "\(PrintableText.clean($0.name, limit: 60)): \(text($0.value))" }
    return PrintableText.clean(claims.joined(separator: ", "), limit: 600)
  }

  private static func text(_ value: JSONValue) -> String {
    PrintableText.clean(value.asString ?? JSONWriter.write(value), limit: claimLimit)
  }

  /// A verdict that has no document.
  static func json(_ verdict: CheckVerdict) -> JSONValue {
    .object([
      .init("verdict", .string(verdict.word.rawValue)),
      .init("reasons", reasons(verdict.reasons.map { ($0.code, $0.sentence) })),
    ])
  }

  /// Reasons as the checker writes them: objects with the members `code` and `sentence`.
  static func reasons(_ reasons: [(code: String, sentence: String)]) -> JSONValue {
    .array(reasons.map { .object([.init("code", .string($0.code)), .init("sentence", .string($0.sentence))]) })
  }
}

extension TransferView {
  /// The checker's verdict; `pending` before it; empty if the credential is not checked, or for a program that may not see it.
  var verdict: String { properties["Verdict"]?.text ?? "" }
  var hasVerdict: Bool { !verdict.isEmpty && verdict != "pending" }
  var issuer: String { properties["Issuer"]?.text ?? "" }
  var credentialType: String { properties["CredentialType"]?.text ?? "" }

  /// The codes and sentences of the reasons for the verdict.
  var reasons: [(code: String, sentence: String)] {
    guard case .array(_, let reasons)? = properties["VerdictReasons"]?.unwrapped else { return [] }
    return reasons.compactMap { reason in
      guard case .structure(let members) = reason, members.count == 2 else { return nil }
      return (members[0].text, members[1].text)
    }
  }

  /// The verdict in one line; empty if there is none.
  var verdictText: String {
    hasVerdict ? CheckText.summary(verdict, issuer: issuer, codes: reasons.map(\.code)) : ""
  }
}
