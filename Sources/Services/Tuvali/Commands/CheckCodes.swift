import Checking
import Tool

/// The codes of the credential checker: verdicts, reasons, and failures of a check. `docs/check.md` has the same table.
enum CheckCodes {
  static let all: [CodeMeaning] =
    CheckVerdict.Word.allCases.map(verdict)
    + reasons.map { CodeMeaning($0.code, kind: "reason of the checker, verdict \($0.verdict)", $0.meaning) }
    + failures

  private static let failures = [
    CodeMeaning(
      "checkerMissing", kind: "failed check",
      "Nothing listens at the socket of the checker, or the service may not connect. The credential is undecided.",
      remedy: "sudo apt install earshot-check, then sudo systemctl enable --now earshot-check.socket"),
    CodeMeaning(
      "checkerTimedOut", kind: "failed check", "The checker sent no complete verdict within CheckTimeout=.",
      remedy: "On a slow machine raise the limits: docs/check.md, \"Slow machines\"."),
    CodeMeaning(
      "checkerReply", kind: "failed check", "The checker sent something other than one verdict.",
      remedy: "journalctl -u 'earshot-check@*'"),
  ]

  private static func verdict(_ word: CheckVerdict.Word) -> CodeMeaning {
    let meaning =
      switch word {
      case .valid:
        "A trusted issuer signed the credential, it is in its period of validity, and it is not revoked. This does not "
          + "mean that the person who presents it is its holder."
      case .invalid: "The signature is wrong, or the credential is malformed."
      case .untrusted: "No trusted issuer signed the credential."
      case .revoked: "The issuer has revoked or suspended the credential."
      case .expired: "The credential, or a certificate of its issuer, has expired."
      case .notYetValid: "The credential, or a certificate of its issuer, is not valid yet."
      case .undecided: "The checker could not decide. The reasons say why."
      }
    return CodeMeaning(word.rawValue, kind: "verdict of the checker", meaning)
  }

  private static let reasons: [(code: String, verdict: String, meaning: String)] = [
    ("malformed", "invalid", "The text is not a well-formed credential."),
    ("noCredential", "invalid", "The text contains no credential."),
    ("unsupportedFormat", "undecided", "The credential has a format that is not supported."),
    ("tooComplex", "undecided", "The credential is too complex to check."),
    ("limitExceeded", "undecided", "The check exceeded its limit of processor time, memory or time."),
    ("checkerFailed", "undecided", "The checker failed."),
    ("issuerUnknown", "untrusted", "No trust entry names the issuer."),
    ("formatNotAllowed", "untrusted", "The trust entry does not allow this format."),
    ("typeNotAllowed", "untrusted", "The trust entry does not allow this type of credential."),
    ("keyUnknown", "untrusted", "The trust entry does not contain the key that the credential names."),
    ("chainUntrusted", "untrusted", "The certificate does not chain to a root of the trust entry."),
    ("certificateUnfit", "untrusted", "A certificate of the chain may not be used for this purpose."),
    ("certificateName", "untrusted", "The certificate names a different issuer."),
    ("certificateExpired", "expired", "A certificate of the chain has expired."),
    ("certificateNotYetValid", "notYetValid", "A certificate of the chain is not valid yet."),
    ("contextUnknown", "undecided", "The credential uses a JSON-LD context that is not pinned."),
    (
      "contextNotAllowed", "invalid",
      "The trust entry does not allow this list of JSON-LD contexts, in which claims change meaning."
    ),
    ("proofMissing", "invalid", "The credential has no signature."),
    ("proofUnsupported", "undecided", "The proof type or algorithm is not supported."),
    ("proofMalformed", "invalid", "The proof is malformed."),
    ("proofPurpose", "invalid", "The proof was not made to issue a credential."),
    ("algorithmForbidden", "invalid", "The algorithm is forbidden because it does not prove who signed."),
    ("algorithmMismatch", "invalid", "The algorithm does not fit the proof type or the key."),
    ("criticalHeader", "invalid", "The signature has a critical header that is not understood."),
    ("signatureWrong", "invalid", "The signature does not match the content and the key."),
    ("digestWrong", "invalid", "A claim does not match the digest that the issuer signed."),
    ("disclosureUnused", "invalid", "A disclosed claim matches no digest that the issuer signed."),
    ("documentTypeMismatch", "invalid", "The document type differs from the signed one."),
    ("countryMismatch", "invalid", "The issuing country differs from the country of the certificate."),
    ("notConformant", "invalid", "The document does not conform to ISO 18013-5, which the entry requires."),
    ("claimsNotSigned", "invalid", "The signature does not cover all claims about the subject."),
    ("hiddenProperty", "invalid", "The credential hides a signed property, such as its expiry."),
    ("unsignedDropped", "note", "Claims that the signature does not cover were left out."),
    ("claimsInterchangeable", "note", "The names of some claims are not signed: their values can change places."),
    ("interchangeableRefused", "invalid", "The names of some claims are not signed, and the trust entry refuses that."),
    ("expired", "expired", "The credential has expired."),
    ("notYetValid", "notYetValid", "The credential is not valid yet."),
    ("clockNotSet", "undecided", "The clock of this machine is earlier than the release of the checker."),
    ("revoked", "revoked", "The issuer has revoked the credential."),
    ("suspended", "revoked", "The issuer has suspended the credential."),
    ("statusUnknown", "undecided", "Whether the credential is revoked is unknown."),
    ("statusAccepted", "note", "Whether the credential is revoked is unknown, and the trust entry accepts that."),
    ("statusNotSigned", "undecided", "The signature does not cover the reference to the status list."),
    ("keyBindingNotChecked", "note", "The credential has a key-binding proof, which was not checked."),
    ("claimsOmitted", "note", "Claims were left out because the verdict would be too large."),
  ]
}
