import Checking
import CommandLine
import Common
import DBus

/// Formats a checker's verdict as sanitised text for a terminal.
enum CheckText {
  /// Maximum length of a displayed claim, in Unicode scalars; a portrait is much longer.
  private static let claimLimit = 200
  /// Maximum number of claims that are displayed for one credential.
  private static let claimCount = 100

  /// Summary such as `valid, issued by Residents Office` or `invalid (signatureWrong)`.
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

  /// Lines with name and value of each claim.
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

  /// Claims on one line for a screen: `fullName: Asha Example, gender: Female`.
  static func claimSummary(_ json: String?) -> String {
    guard let json, case .object(let members)? = try? JSONReader.read(Array(json.utf8)) else { return "" }
    let claims = members.prefix(claimCount).map { "\(PrintableText.clean($0.name, limit: 60)): \(text($0.value))" }
    return PrintableText.clean(claims.joined(separator: ", "), limit: 600)
  }

  private static func text(_ value: JSONValue) -> String {
    PrintableText.clean(value.asString ?? JSONWriter.write(value), limit: claimLimit)
  }

  /// Verdict without a document as JSON.
  static func json(_ verdict: CheckVerdict) -> JSONValue {
    .object([
      .init("verdict", .string(verdict.word.rawValue)),
      .init("reasons", reasons(verdict.reasons.map { ($0.code, $0.sentence) })),
    ])
  }

  /// Reasons in the checker's format: objects with the members `code` and `sentence`.
  static func reasons(_ reasons: [(code: String, sentence: String)]) -> JSONValue {
    .array(reasons.map { .object([.init("code", .string($0.code)), .init("sentence", .string($0.sentence))]) })
  }
}

extension TransferView {
  /// The checker's verdict; `pending` before it. Empty if the credential is not checked, or the program may not see it.
  var verdict: String { properties["Verdict"]?.text ?? "" }
  var hasVerdict: Bool { !verdict.isEmpty && verdict != "pending" }
  var issuer: String { properties["Issuer"]?.text ?? "" }
  var credentialType: String { properties["CredentialType"]?.text ?? "" }

  /// Codes and sentences of the reasons for the verdict.
  var reasons: [(code: String, sentence: String)] {
    guard case .array(_, let reasons)? = properties["VerdictReasons"]?.unwrapped else { return [] }
    return reasons.compactMap { reason in
      guard case .structure(let members) = reason, members.count == 2 else { return nil }
      return (members[0].text, members[1].text)
    }
  }

  /// Verdict on one line; empty if there is none.
  var verdictText: String {
    hasVerdict ? CheckText.summary(verdict, issuer: issuer, codes: reasons.map(\.code)) : ""
  }
}
