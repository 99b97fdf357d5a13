"""`earshot-check trust list` and `trust test`: what the trust folder says, for its administrator."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from . import certificates, envelope, jwskeys, mdoc, sdjwt, trustentry
from .contexts import ContextLibrary
from .envelope import Credential, LinkedDataText, MdocText, SDJWTText
from .reasons import Refusal, printable
from .strictjson import Json
from .trust import TrustFolder
from .trustentry import TrustEntry


def show(folder: Path) -> int:
    """Lists the entries of a folder with their keys; problems go to standard error. Returns 1 if there is one."""
    found = TrustFolder.read(folder)
    for entry in found.entries:
        print(f"{entry.file}: {entry.name}")
        for line in _lines(entry):
            print(f"    {line}")
    if not found.entries:
        print(f"No issuer is trusted: {folder} has no usable trust file.")
    for problem in found.problems:
        print(f"earshot-check: {folder}/{problem}", file=sys.stderr)
    return 1 if found.problems else 0


def _lines(entry: TrustEntry) -> Iterator[str]:
    for identifier in sorted(entry.identifiers):
        yield f"identifier  {identifier}"
    for name, key in entry.keys.items():
        yield f"key         {name} ({key.kind}, SHA-256 {key.fingerprint})"
    for root in entry.roots:
        yield f"root        {root.name} (until {root.not_after:%Y-%m-%d}, SHA-256 {root.fingerprint})"
    for permit in entry.permits:
        types = ", ".join(sorted(permit.types)) or "any type"
        shown = "all claims" if permit.claims is None else f"claims {', '.join(sorted(permit.claims))}"
        yield f"credential  {' '.join(sorted(permit.formats))}: {types}; {shown}"
    for source in entry.status_lists.values():
        yield f"status list {source.url} (at most {source.max_age} old)"


def test(folder: Path, data: bytes) -> int:
    """Says for each entry whether a credential would use it, and why not. Returns 0 if one is used.

    Nothing is verified here: `earshot-check verify` does that.
    """
    found = TrustFolder.read(folder)
    for problem in found.problems:
        print(f"earshot-check: {folder}/{problem}", file=sys.stderr)
    try:
        credential = envelope.find(data)
        described = _describe(credential)
    except Refusal as refusal:
        print(refusal.finding.sentence)
        return 1
    for name, value in described.items():
        if value:
            print(f"{name:12}{printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))}")
    is_used = False
    for entry in found.entries:
        why = next(_why_not(entry, credential, described), None)
        print(f"{entry.file}: {'used' if why is None else printable(why)}")
        is_used = is_used or why is None
    if not is_used:
        print("No entry is used: the credential is untrusted.")
    return 0 if is_used else 1


def _describe(credential: Credential) -> dict[str, Json]:
    """Returns what a credential says of itself."""
    if isinstance(credential, LinkedDataText):
        document = credential.document
        issuer = document.get("issuer")
        proofs = document.get("proof")
        listed = proofs if isinstance(proofs, list) else [proofs]
        return {
            "format": trustentry.LINKED_DATA,
            "issuer": issuer.get("id") if isinstance(issuer, dict) else issuer,
            "types": document.get("type"),
            "contexts": document.get("@context"),
            "keys": [proof.get("verificationMethod") for proof in listed if isinstance(proof, dict)],
            "proofs": [proof.get("cryptosuite", proof.get("type")) for proof in listed if isinstance(proof, dict)],
        }
    if isinstance(credential, SDJWTText):
        token = sdjwt.parse(credential.text)
        header = token.jws.header
        return {
            "format": header.get("typ", trustentry.SD_JWT_VC),
            "issuer": token.payload.get("iss"),
            "types": token.payload.get("vct"),
            "keys": [header["kid"]] if "kid" in header else [],
            "chain": _chain(header.get("x5c")),
        }
    document_ = mdoc.parse(credential.text)
    return {
        "format": trustentry.MDOC,
        "types": document_.document_type,
        "chain": [certificate.name for certificate in document_.chain],
        "root": document_.chain[-1].issuer.rfc4514_string(),
    }


def _chain(value: Json) -> list[str]:
    return [] if value is None else [certificate.name for certificate in jwskeys.read_chain(value)]


def _why_not(entry: TrustEntry, credential: Credential, described: dict[str, Json]) -> Iterator[str]:
    """Yields the reasons for which an entry is not used."""
    format_, types = described["format"], described["types"]
    listed = types if isinstance(types, list) else [types]
    if format_ == trustentry.MDOC:
        chain = mdoc.parse(credential.text).chain if isinstance(credential, MdocText) else []
        if not certificates.leads_to(chain, entry.roots):
            yield "no root of it issued the certificate"
        try:
            certificates.chain(chain, entry.roots)
        except Refusal as refusal:
            yield refusal.finding.sentence
    elif described["issuer"] not in entry.identifiers:
        yield "it does not name this issuer"
    if format_ not in entry.formats():
        yield f"it does not allow the format {format_}"
    permits = [permit for permit in entry.permits if format_ in permit.formats and permit.allows_type(listed)]
    if not permits:
        yield f"it does not allow the type {', '.join(str(item) for item in listed)}"
    if isinstance(credential, LinkedDataText):
        contexts = credential.document.get("@context")
        contexts = contexts if isinstance(contexts, list) else [contexts]
        library = ContextLibrary(entry.contexts)
        for context in contexts:
            if isinstance(context, str) and library.document(context) is None:
                yield f"it does not pin the context {context}"
        if not any(permit.allows_contexts(contexts) for permit in permits):
            yield "it does not allow this list of contexts"
    named = [] if described.get("chain") else described.get("keys", [])
    if named and not any(key in entry.keys or _ends(entry, key) for key in named):
        yield f"it does not contain the key {', '.join(str(key) for key in described['keys'])}"


def _ends(entry: TrustEntry, key: Json) -> bool:
    return any(name.endswith(f"#{key}") for name in entry.keys)
