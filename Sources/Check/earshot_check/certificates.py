"""Chains of X.509 certificates to a pinned root.

Written by hand because the cryptography package of Debian 12 has no path validation. Each certificate is checked as
RFC 5280 section 6 says, with these limits: at most MOST_CERTIFICATES, no name constraints, no revocation lists.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID, SignatureAlgorithmOID

from . import keys
from .dates import SKEW, Clock, text
from .keys import KeyProblem, PublicKey
from .reasons import Finding, Refusal

#: Maximum certificates that a credential may bring, and of a chain.
MOST_CERTIFICATES = 5
#: Maximum length of one certificate, in bytes.
CERTIFICATE_LIMIT = 16 * 1024

#: Critical extensions that are obeyed. Any other one makes a certificate unusable.
_UNDERSTOOD = {ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE, ExtensionOID.EXTENDED_KEY_USAGE}
_SOUND_HASHES = (SHA256, SHA384, SHA512)


@dataclass(frozen=True)
class Certificate:
    """A certificate with what a check needs, read once: errors of its encoding appear here and nowhere else."""

    certificate: x509.Certificate
    der: bytes
    subject: x509.Name
    issuer: x509.Name
    key: PublicKey
    not_before: datetime
    not_after: datetime
    extensions: x509.Extensions

    @property
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the certificate, in hexadecimal digits."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def name(self) -> str:
        """Returns the subject for people."""
        return self.subject.rfc4514_string()

    @property
    def country(self) -> str | None:
        """Returns the country of the subject."""
        values = self.subject.get_attributes_for_oid(NameOID.COUNTRY_NAME)
        return str(values[0].value) if values else None

    @property
    def constraints(self) -> x509.BasicConstraints | None:
        """Returns the basic constraints."""
        value = self._extension(ExtensionOID.BASIC_CONSTRAINTS)
        return value if isinstance(value, x509.BasicConstraints) else None

    @property
    def usage(self) -> x509.KeyUsage | None:
        """Returns the key usage."""
        value = self._extension(ExtensionOID.KEY_USAGE)
        return value if isinstance(value, x509.KeyUsage) else None

    @property
    def purposes(self) -> list[str]:
        """Returns the object identifiers of the extended key usage."""
        value = self._extension(ExtensionOID.EXTENDED_KEY_USAGE)
        return [usage.dotted_string for usage in value] if isinstance(value, x509.ExtendedKeyUsage) else []

    @property
    def alternative_names(self) -> list[tuple[str, str]]:
        """Returns the URIs and DNS names of the subject, as ("uri" or "dns", name)."""
        value = self._extension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
        if not isinstance(value, x509.SubjectAlternativeName):
            return []
        uris = [("uri", name) for name in value.get_values_for_type(x509.UniformResourceIdentifier)]
        return uris + [("dns", name) for name in value.get_values_for_type(x509.DNSName)]

    def _extension(self, oid: x509.ObjectIdentifier) -> x509.ExtensionType | None:
        try:
            return self.extensions.get_extension_for_oid(oid).value
        except x509.ExtensionNotFound:
            return None

    def is_signed_by(self, issuer: Certificate) -> bool:
        """Says whether the key of another certificate signed this one, with a sound hash."""
        certificate, public = self.certificate, issuer.key.key
        try:
            hash_ = certificate.signature_hash_algorithm
            message, signature = certificate.tbs_certificate_bytes, certificate.signature
            if isinstance(public, Ed25519PublicKey):
                public.verify(signature, message)
                return True
            if not isinstance(hash_, _SOUND_HASHES):
                return False
            if isinstance(public, EllipticCurvePublicKey):
                public.verify(signature, message, ECDSA(hash_))
            elif isinstance(public, RSAPublicKey):
                is_pss = certificate.signature_algorithm_oid == SignatureAlgorithmOID.RSASSA_PSS
                scheme = padding.PSS(padding.MGF1(hash_), hash_.digest_size) if is_pss else padding.PKCS1v15()
                public.verify(signature, message, scheme, hash_)
            return True
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            return False


def from_der(der: object) -> Certificate:
    """Reads a certificate. Raises Refusal("certificateUnfit")."""
    if not isinstance(der, bytes) or len(der) > CERTIFICATE_LIMIT:
        raise Refusal("certificateUnfit", "not a certificate")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = x509.load_der_x509_certificate(der)
            return Certificate(
                certificate,
                der,
                certificate.subject,
                certificate.issuer,
                keys.from_object(certificate.public_key()),
                _utc(certificate, "not_valid_before"),
                _utc(certificate, "not_valid_after"),
                certificate.extensions,
            )
    except KeyProblem as error:
        raise Refusal("certificateUnfit", str(error)) from None
    except Exception:  # noqa: BLE001 - the package raises at least eight kinds for malformed certificates
        raise Refusal("certificateUnfit", "not a well-formed certificate") from None


def from_pem(text_: str) -> Certificate:
    """Reads the first certificate of a PEM text. Raises Refusal("certificateUnfit")."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return from_der(x509.load_pem_x509_certificate(text_.encode("ascii")).public_bytes(Encoding.DER))
    except ValueError:
        raise Refusal("certificateUnfit", "not a certificate in PEM") from None


def _utc(certificate: x509.Certificate, name: str) -> datetime:
    """Reads a date of a certificate: cryptography 42 and later have it with a zone."""
    value = getattr(certificate, f"{name}_utc", None) or getattr(certificate, name)
    if not isinstance(value, datetime):
        raise ValueError("not a date")
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def leads_to(chain: list[Certificate], roots: list[Certificate]) -> bool:
    """Says, by names alone and without cryptography, whether a chain could lead to one of the roots."""
    names = {certificate.issuer for certificate in chain}
    return any(root.subject in names or root.der == chain[0].der for root in roots)


def chain(certificates: list[Certificate], roots: list[Certificate]) -> list[Certificate]:
    """Returns the path from the first certificate to one of the roots, with every signature and constraint checked.

    A pinned certificate is trusted as it is: the first certificate may be pinned itself. Validity periods are not
    looked at: `findings` does that.
    Raises Refusal: "chainUntrusted" or "certificateUnfit".
    """
    if not certificates or len(certificates) > MOST_CERTIFICATES:
        raise Refusal("chainUntrusted", f"{len(certificates)} certificates; 1 to {MOST_CERTIFICATES} are allowed")
    path = [certificates[0]]
    others = certificates[1:]
    while True:
        last = path[-1]
        if any(root.der == last.der for root in roots):
            break
        root = next((root for root in roots if root.subject == last.issuer and last.is_signed_by(root)), None)
        if root is not None:
            path.append(root)
            break
        following = next(
            (
                other
                for other in others
                if other.subject == last.issuer and other not in path and last.is_signed_by(other)
            ),
            None,
        )
        if following is None or len(path) >= MOST_CERTIFICATES:
            raise Refusal("chainUntrusted", f"the issuer of {last.name} is not a pinned root")
        path.append(following)
    for position, certificate in enumerate(path):
        _fit(certificate, position, is_pinned=position == len(path) - 1)
    return path


def _fit(certificate: Certificate, position: int, *, is_pinned: bool) -> None:
    """Checks what a certificate may be used for. Position 0 signs the credential, position n signs position n - 1."""
    for extension in certificate.extensions:
        if extension.critical and extension.oid not in _UNDERSTOOD:
            raise Refusal(
                "certificateUnfit", f"{certificate.name} has the critical extension {extension.oid.dotted_string}"
            )
    usage, constraints = certificate.usage, certificate.constraints
    if position == 0:
        if usage is not None and not usage.digital_signature and not is_pinned:
            raise Refusal("certificateUnfit", f"{certificate.name} may not sign")
        return
    if constraints is None and is_pinned:
        return
    if constraints is None or not constraints.ca:
        raise Refusal("certificateUnfit", f"{certificate.name} is not a certificate authority")
    if constraints.path_length is not None and position - 1 > constraints.path_length:
        raise Refusal("certificateUnfit", f"{certificate.name} allows a path of {constraints.path_length}")
    if usage is not None and not usage.key_cert_sign:
        raise Refusal("certificateUnfit", f"{certificate.name} may not sign certificates")


def findings(path: list[Certificate], clock: Clock) -> list[Finding]:
    """Returns what the validity periods of a path say at the time of the check."""
    if not clock.is_set:
        return []
    found = []
    for certificate in path:
        if clock.now - SKEW > certificate.not_after:
            found.append(Finding("certificateExpired", f"{certificate.name}, until {text(certificate.not_after)}"))
        if clock.now + SKEW < certificate.not_before:
            found.append(Finding("certificateNotYetValid", f"{certificate.name}, from {text(certificate.not_before)}"))
    return found


def names_issuer(certificate: Certificate, issuer: str) -> bool:
    """Says whether the alternative names of a certificate allow this issuer. A certificate without names allows any."""
    names = certificate.alternative_names
    if not names:
        return True
    if ("uri", issuer) in names:
        return True
    host = (urlsplit(issuer).hostname or "") if "://" in issuer else _did_host(issuer)
    return bool(host) and any(kind == "dns" and name.lower() == host.lower() for kind, name in names)


def _did_host(issuer: str) -> str:
    return issuer.split(":")[2].split("%")[0] if issuer.startswith("did:web:") else ""
