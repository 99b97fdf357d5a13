"""The verdicts, and the reason codes that lead to them.

A code is stable: programs compare it. A sentence is for people and may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The result of a check. Of several findings, the one that comes first in this list is the verdict."""

    INVALID = "invalid"
    UNTRUSTED = "untrusted"
    REVOKED = "revoked"
    EXPIRED = "expired"
    NOT_YET_VALID = "notYetValid"
    UNDECIDED = "undecided"
    VALID = "valid"


@dataclass(frozen=True)
class Reason:
    """The meaning of a reason code: the verdict that it leads to, and the sentence for people."""

    verdict: Verdict
    sentence: str


#: Every reason code. docs/check.md lists the same codes, and a test compares the two.
REASONS: dict[str, Reason] = {
    # The text.
    "malformed": Reason(Verdict.INVALID, "The text is not a well-formed credential."),
    "noCredential": Reason(Verdict.INVALID, "The text contains no credential."),
    "unsupportedFormat": Reason(Verdict.UNDECIDED, "The credential has a format that is not supported."),
    "tooComplex": Reason(Verdict.UNDECIDED, "The credential is too complex to check."),
    "limitExceeded": Reason(Verdict.UNDECIDED, "The check exceeded its limit of processor time, memory or time."),
    "checkerFailed": Reason(Verdict.UNDECIDED, "The checker failed."),
    # Trust.
    "issuerUnknown": Reason(Verdict.UNTRUSTED, "No trust entry names the issuer."),
    "formatNotAllowed": Reason(Verdict.UNTRUSTED, "The trust entry does not allow this format."),
    "typeNotAllowed": Reason(Verdict.UNTRUSTED, "The trust entry does not allow this type of credential."),
    "keyUnknown": Reason(Verdict.UNTRUSTED, "The trust entry does not contain the key that the credential names."),
    "chainUntrusted": Reason(Verdict.UNTRUSTED, "The certificate does not chain to a root of the trust entry."),
    "certificateUnfit": Reason(Verdict.UNTRUSTED, "A certificate of the chain may not be used for this purpose."),
    "certificateName": Reason(Verdict.UNTRUSTED, "The certificate names a different issuer."),
    "certificateExpired": Reason(Verdict.EXPIRED, "A certificate of the chain has expired."),
    "certificateNotYetValid": Reason(Verdict.NOT_YET_VALID, "A certificate of the chain is not valid yet."),
    # Contexts of JSON-LD.
    "contextUnknown": Reason(Verdict.UNDECIDED, "The credential uses a JSON-LD context that is not pinned."),
    "contextNotAllowed": Reason(
        Verdict.INVALID, "The trust entry does not allow this list of JSON-LD contexts, in which claims change meaning."
    ),
    # The signature.
    "proofMissing": Reason(Verdict.INVALID, "The credential has no signature."),
    "proofUnsupported": Reason(Verdict.UNDECIDED, "The proof type or algorithm is not supported."),
    "proofMalformed": Reason(Verdict.INVALID, "The proof is malformed."),
    "proofPurpose": Reason(Verdict.INVALID, "The proof was not made to issue a credential."),
    "algorithmForbidden": Reason(Verdict.INVALID, "The algorithm is forbidden because it does not prove who signed."),
    "algorithmMismatch": Reason(Verdict.INVALID, "The algorithm does not fit the proof type or the key."),
    "criticalHeader": Reason(Verdict.INVALID, "The signature has a critical header that is not understood."),
    "signatureWrong": Reason(Verdict.INVALID, "The signature does not match the content and the key."),
    "digestWrong": Reason(Verdict.INVALID, "A claim does not match the digest that the issuer signed."),
    "disclosureUnused": Reason(Verdict.INVALID, "A disclosed claim matches no digest that the issuer signed."),
    "documentTypeMismatch": Reason(Verdict.INVALID, "The document type differs from the signed one."),
    "countryMismatch": Reason(Verdict.INVALID, "The issuing country differs from the country of the certificate."),
    "notConformant": Reason(Verdict.INVALID, "The document does not conform to ISO 18013-5, which the entry requires."),
    # Coverage.
    "claimsNotSigned": Reason(Verdict.INVALID, "The signature does not cover all claims about the subject."),
    "hiddenProperty": Reason(Verdict.INVALID, "The credential hides a signed property, such as its expiry."),
    "unsignedDropped": Reason(Verdict.VALID, "Claims that the signature does not cover were left out."),
    "claimsInterchangeable": Reason(
        Verdict.VALID, "The names of some claims are not signed: their values can change places."
    ),
    "interchangeableRefused": Reason(
        Verdict.INVALID, "The names of some claims are not signed, and the trust entry refuses that."
    ),
    # Dates.
    "expired": Reason(Verdict.EXPIRED, "The credential has expired."),
    "notYetValid": Reason(Verdict.NOT_YET_VALID, "The credential is not valid yet."),
    "clockNotSet": Reason(Verdict.UNDECIDED, "The clock of this machine is earlier than the release of the checker."),
    # Status.
    "revoked": Reason(Verdict.REVOKED, "The issuer has revoked the credential."),
    "suspended": Reason(Verdict.REVOKED, "The issuer has suspended the credential."),
    "statusUnknown": Reason(Verdict.UNDECIDED, "Whether the credential is revoked is unknown."),
    "statusAccepted": Reason(
        Verdict.VALID, "Whether the credential is revoked is unknown, and the trust entry accepts that."
    ),
    "statusNotSigned": Reason(Verdict.UNDECIDED, "The signature does not cover the reference to the status list."),
    # Notes.
    "keyBindingNotChecked": Reason(Verdict.VALID, "The credential has a key-binding proof, which was not checked."),
    "claimsOmitted": Reason(Verdict.VALID, "Claims were left out because the verdict would be too large."),
}

#: The longest detail of a sentence, in characters.
DETAIL_LIMIT = 200


def printable(text: str) -> str:
    """Returns a foreign text in a form that can be shown: without control characters, and cut to DETAIL_LIMIT."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= DETAIL_LIMIT else shown[: DETAIL_LIMIT - 1] + "…"


@dataclass(frozen=True)
class Finding:
    """A reason code with the detail of this credential. The detail never holds the value of a claim."""

    code: str
    detail: str = ""

    @property
    def verdict(self) -> Verdict:
        """Returns the verdict that the code leads to."""
        return REASONS[self.code].verdict

    @property
    def sentence(self) -> str:
        """Returns the sentence for people, with the detail in it."""
        sentence = REASONS[self.code].sentence
        if not self.detail:
            return sentence
        return f"{sentence} ({printable(self.detail)})"


class Refusal(Exception):
    """Ends a check with a reason code."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.finding = Finding(code, detail)
