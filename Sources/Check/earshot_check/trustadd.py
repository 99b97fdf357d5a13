"""`earshot-check trust add`: fetches the keys of an issuer, shows them, asks, and writes a trust file.

Run by an administrator on a machine with network access. The one who confirms the fingerprints decides what is trusted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from . import certificates, contexts, envelope, fetch, keys, strictjson, trustentry, trustfile
from .certificates import Certificate
from .contexts import SHIPPED
from .envelope import LinkedDataText, MdocText, SDJWTText
from .keys import KeyProblem, PublicKey
from .reasons import Refusal
from .strictjson import Json

_METADATA = "/.well-known/openid-credential-issuer"


class AddError(Exception):
    """Says why no trust file was written."""


@dataclass
class Draft:
    """What is known of an issuer before the trust file is written."""

    name: str = ""
    identifiers: list[str] = field(default_factory=list)
    #: Keys by id: each with the table of the trust file that holds it.
    keys: dict[str, tuple[PublicKey, dict[str, str]]] = field(default_factory=dict)
    roots: list[Certificate] = field(default_factory=list)
    contexts: dict[str, bytes] = field(default_factory=dict)
    permits: list[dict[str, Json]] = field(default_factory=list)
    status_lists: list[str] = field(default_factory=list)

    def add_identifier(self, identifier: object) -> None:
        """Adds an identifier of the issuer."""
        if isinstance(identifier, str) and identifier and identifier not in self.identifiers:
            self.identifiers.append(identifier)

    def add_permit(self, permit: dict[str, Json]) -> None:
        """Adds a kind of credential."""
        if permit not in self.permits:
            self.permits.append(permit)


def run(options: argparse.Namespace, get: Callable[[str], bytes] = fetch.get, ask: Callable[[str], str] = input) -> int:
    """Runs the command. Returns 0 if a file was written, 1 if not."""
    try:
        draft = _Collector(get).collect(options.source)
        for url in options.context:
            _Collector(get, draft).pin(url)
        for identifier in options.identifier:
            draft.add_identifier(identifier)
        draft.name = options.name or draft.name or _host(options.source, draft)
        path = options.trust_folder / f"{options.file or _file_name(draft)}.toml"
        _require_complete(draft)
        _show(draft, path)
        if path.exists():
            raise AddError(f"{path} exists. Choose another name with --file, or remove it.")
        if not options.yes and ask("Trust this issuer? Type yes: ").strip().lower() != "yes":
            raise AddError("Nothing was written.")
        _write(draft, path)
    except (AddError, fetch.FetchError, trustfile.TrustFileError) as error:
        print(f"earshot-check: {error}", file=sys.stderr)
        return 1
    except (Refusal, KeyProblem) as error:
        text = error.finding.sentence if isinstance(error, Refusal) else str(error)
        print(f"earshot-check: {options.source}: {text}", file=sys.stderr)
        return 1
    print(f"Written: {path}. Review it, and list the claims that may be shown.")
    return 0


class _Collector:
    """Collects what a source says of its issuer, and fetches what that names."""

    def __init__(self, get: Callable[[str], bytes], draft: Draft | None = None) -> None:
        self._get = get
        self.draft = draft or Draft()

    def collect(self, source: str) -> Draft:
        """Returns what a did:web, an https address or a file says."""
        if source.startswith("did:web:"):
            self._document(strictjson.parse(self._get(fetch.did_web_address(source))), source)
        elif "://" in source:
            self._bytes(self._get(source), source)
        else:
            data = Path(source).read_bytes()
            self._bytes(data, "")
        return self.draft

    def _bytes(self, data: bytes, source: str) -> None:
        text = data.decode("utf-8", errors="replace").strip()
        if text.startswith("-----BEGIN CERTIFICATE"):
            for part in re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL):
                self.draft.roots.append(certificates.from_pem(part))
            self.draft.add_permit({"formats": [trustentry.MDOC, trustentry.SD_JWT_VC, trustentry.SD_JWT_DC]})
        elif text.startswith("-----BEGIN"):
            self._key(source or "key", keys.from_pem(text), {"pem": text + "\n"})
            self.draft.add_identifier(source)
            self._any_permit()
        elif text.startswith("{"):
            self._document(strictjson.parse(text), source)
        else:
            self._credential(data)

    def _document(self, document: Json, source: str) -> None:
        if not isinstance(document, dict):
            raise AddError("The source is not a JSON object.")
        if "credential_configurations_supported" in document:
            self._metadata(document)
        elif isinstance(document.get("verificationMethod"), list):
            self._did_document(document, source)
        elif isinstance(document.get("keys"), list):
            self._key_set(document, source)
        elif any(name in document for name in ("publicKeyPem", "publicKeyJwk", "publicKeyMultibase")):
            self._method(document, source)
            self.draft.add_identifier(document.get("controller"))
            self._any_permit()
        else:
            self._credential(json.dumps(document).encode())

    # Keys.

    def _key(self, name: str, key: PublicKey, table: dict[str, str]) -> None:
        self.draft.keys.setdefault(name, (key, table))

    def _method(self, method: Json, source: str) -> None:
        key = keys.from_verification_method(method)
        name = method.get("id") or source
        pem = _pem(key)
        self._key(str(name), key, {"pem": pem})

    def _did_document(self, document: Json, source: str) -> None:
        for name, key in keys.from_did_document(document).items():
            self._key(name, key, {"pem": _pem(key)})
        self.draft.add_identifier(document.get("id") or source)
        self._any_permit()

    def _key_set(self, document: Json, source: str) -> None:
        for jwk in document["keys"]:
            try:
                key = keys.from_jwk(jwk)
            except KeyProblem:
                continue
            self._key(str(jwk.get("kid") or key.fingerprint), key, {"pem": _pem(key)})
        parts = urlsplit(source)
        if parts.scheme == "https":
            self.draft.add_identifier(source.split("/.well-known/")[0])
        self._any_permit()

    def _any_permit(self) -> None:
        if not self.draft.permits:
            self.draft.add_permit({"formats": [trustentry.SD_JWT_VC, trustentry.SD_JWT_DC]})
            self.draft.add_permit({"formats": [trustentry.LINKED_DATA]})

    # Kinds of credentials.

    def _metadata(self, document: dict[str, Json]) -> None:
        """Reads the metadata of an OpenID4VCI issuer: its kinds of credentials. Its keys come from --identifier."""
        display = document.get("display")
        if isinstance(display, list) and display and isinstance(display[0], dict):
            self.draft.name = str(display[0].get("name", ""))
        self.draft.add_identifier(document.get("credential_issuer"))
        for configuration in document["credential_configurations_supported"].values():
            format_ = configuration.get("format")
            definition = configuration.get("credential_definition") or {}
            if format_ == trustentry.LINKED_DATA:
                self._linked_data(definition.get("type"), definition.get("@context"))
            elif format_ in (trustentry.SD_JWT_VC, trustentry.SD_JWT_DC):
                self.draft.add_permit({"formats": [format_], "types": [str(configuration.get("vct"))]})
            elif format_ == trustentry.MDOC:
                self.draft.add_permit({"formats": [format_], "types": [str(configuration.get("doctype"))]})
        server = str(document.get("credential_issuer", ""))
        try:
            self._document(strictjson.parse(self._get(f"{server}/.well-known/did.json")), server)
        except (fetch.FetchError, Refusal, KeyProblem):
            self._document(
                strictjson.parse(self._get(f"{server}/.well-known/jwks.json")), f"{server}/.well-known/jwks.json"
            )

    def _linked_data(self, types: Json, listed: Json) -> None:
        found = [name for name in types or [] if isinstance(name, str) and name != "VerifiableCredential"]
        items = listed if isinstance(listed, list) else [listed]
        for item in items:
            if isinstance(item, str):
                self.pin(item)
        self.draft.add_permit(
            {"formats": [trustentry.LINKED_DATA], "types": found or ["VerifiableCredential"], "contexts": items}
        )

    def pin(self, url: str) -> None:
        """Fetches a context, and those that it names."""
        if url in SHIPPED or url in self.draft.contexts:
            return
        data = self._get(url)
        self.draft.contexts[url] = data
        for other in _named(strictjson.parse(data)):
            self.pin(other if "://" in other else url.rsplit("/", 1)[0] + "/" + other)

    # A sample credential.

    def _credential(self, data: bytes) -> None:
        match envelope.find(data):
            case LinkedDataText(document):
                self._sample(document)
            case SDJWTText(text):
                self._sample_sd_jwt(text)
            case MdocText(text):
                from . import mdoc

                found = mdoc.parse(text)
                self.draft.roots.append(found.chain[-1])
                self.draft.add_permit({"formats": [trustentry.MDOC], "types": [found.document_type]})
                print("The last certificate of the sample becomes the root. Prefer the root certificate of the issuer.")

    def _sample(self, document: dict[str, Json]) -> None:
        from . import ldpcheck, linkeddata

        issuer = ldpcheck.issuer_of(document)
        self.draft.add_identifier(issuer)
        self._linked_data(document.get("type"), document.get("@context"))
        for proof in linkeddata.proofs(document):
            method = proof.get("verificationMethod")
            if isinstance(method, str):
                self._fetch_method(method)
        listed = document.get("credentialStatus") or []
        for item in listed if isinstance(listed, list) else [listed]:
            url = item.get("statusListCredential") if isinstance(item, dict) else None
            if isinstance(url, str) and url not in self.draft.status_lists:
                self.draft.status_lists.append(url)

    def _fetch_method(self, method: str) -> None:
        if method.startswith("did:web:"):
            document = strictjson.parse(self._get(fetch.did_web_address(method)))
            for name, key in keys.from_did_document(document).items():
                if name == method:
                    self._key(name, key, {"pem": _pem(key)})
        elif method.startswith("https://"):
            self._method(strictjson.parse(self._get(method)), method)
        elif method.startswith("did:key:"):
            key = keys.from_multibase(method.rsplit("#", 1)[-1].removeprefix("did:key:"))
            self._key(method, key, {"pem": _pem(key)})

    def _sample_sd_jwt(self, text: str) -> None:
        from . import jwskeys, sdjwt

        token = sdjwt.parse(text)
        issuer, kind = token.payload.get("iss"), token.payload.get("vct")
        self.draft.add_identifier(issuer)
        permit: dict[str, Json] = {
            "formats": [token.jws.header.get("typ") or trustentry.SD_JWT_VC],
            "types": [str(kind)],
        }
        if "typ" not in token.jws.header:
            permit["allow_missing_typ"] = True
        self.draft.add_permit(permit)
        chain = token.jws.header.get("x5c")
        if isinstance(chain, list) and chain:
            self.draft.roots.append(jwskeys.read_chain(chain)[-1])
            print("The last certificate of the sample becomes the root. Prefer the root certificate of the issuer.")
        elif isinstance(issuer, str) and issuer.startswith("https://"):
            self._document(
                strictjson.parse(self._get(f"{issuer}/.well-known/jwks.json")), f"{issuer}/.well-known/jwks.json"
            )


def _named(document: Json) -> Iterator[str]:
    """Yields the addresses of contexts that a context document names."""
    pending = [document.get("@context") if isinstance(document, dict) else None]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(
                value["@context"] for value in item.values() if isinstance(value, dict) and "@context" in value
            )
            if isinstance(item.get("@import"), str):
                yield item["@import"]


def _pem(key: PublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def _host(source: str, draft: Draft) -> str:
    for text in (source, *draft.identifiers):
        if text.startswith("did:web:"):
            return ":".join(text.split(":")[2:])
        if "://" in text:
            return urlsplit(text).hostname or text
    return draft.roots[0].name if draft.roots else Path(source).stem


def _file_name(draft: Draft) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", (draft.identifiers[0] if draft.identifiers else draft.name).lower())
    return name.strip("-")[:60] or "issuer"


def _require_complete(draft: Draft) -> None:
    if not draft.keys and not draft.roots:
        raise AddError("The source names no key that could be fetched.")
    if draft.keys and not draft.identifiers:
        raise AddError("The source does not name the issuer of these keys. Name it with --identifier.")


def _show(draft: Draft, path: Path) -> None:
    print(f"Issuer      {draft.name}")
    for identifier in draft.identifiers:
        print(f"identifier  {identifier}")
    for name, (key, _) in draft.keys.items():
        print(f"key         {name}\n            {key.kind}, SHA-256 {key.fingerprint}")
    for root in draft.roots:
        print(f"root        {root.name}, until {root.not_after:%Y-%m-%d}\n            SHA-256 {root.fingerprint}")
    for url, data in draft.contexts.items():
        print(f"context     {url}\n            SHA-256 {contexts.digest(data)}")
    for permit in draft.permits:
        print(f"credential  {' '.join(permit['formats'])}: {', '.join(permit.get('types', [])) or 'any type'}")
    for url in draft.status_lists:
        print(f"status list {url}")
    print(f"File        {path}")
    print("Compare the fingerprints with those that the issuer publishes elsewhere than at the address above.")


def _write(draft: Draft, path: Path) -> None:
    """Writes the trust file and its contexts, reads it back, and removes it if it cannot be used."""
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / path.stem
    written: list[Path] = []
    files: dict[str, str] = {}
    try:
        for number, (url, data) in enumerate(draft.contexts.items(), 1):
            beside.mkdir(mode=0o755, exist_ok=True)
            files[url] = f"{path.stem}/context-{number}.jsonld"
            written.append(folder / files[url])
            _create(folder / files[url], data)
        written.append(path)
        _create(path, text(draft, files).encode("utf-8"))
        trustfile.read(path)
    except (OSError, trustfile.TrustFileError) as error:
        for file in written:
            file.unlink(missing_ok=True)
        raise AddError(f"{path} cannot be written: {error}") from None


def _create(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
    path.chmod(0o644)


def text(draft: Draft, files: dict[str, str]) -> str:
    """Returns the trust file. `files` are the files of the contexts by address."""
    lines = [
        "# Written by earshot-check trust add. docs/check.md describes every key.",
        f"name = {_toml(draft.name)}",
        f"identifiers = {_toml(draft.identifiers)}",
    ]
    if draft.roots:
        lines.append('mode = "iso"    # or "mosip", for mdocs that do not follow ISO 18013-5')
    for name, (_, table) in draft.keys.items():
        lines += ["", "[[keys]]", f"id = {_toml(name)}", f"pem = {_long(table['pem'])}"]
    for root in draft.roots:
        lines += ["", "[[roots]]", f"# {root.name}", f"pem = {_long(_certificate_pem(root))}"]
    for url, data in draft.contexts.items():
        lines += ["", "[[contexts]]", f"url = {_toml(url)}", f"file = {_toml(files[url])}"]
        lines.append(f'sha256 = "{contexts.digest(data)}"')
    for permit in draft.permits:
        lines += ["", "[[credentials]]"]
        lines += [f"{key} = {_toml(value)}" for key, value in permit.items()]
        lines.append("# claims = []    # names of claims that may be shown; without this line all that are signed")
    for url in draft.status_lists:
        lines += ["", "[[status_lists]]", f"url = {_toml(url)}", 'max_age = "7d"']
    return "\n".join(lines) + "\n"


def _certificate_pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.certificate.public_bytes(Encoding.PEM).decode("ascii")


def _long(value: str) -> str:
    return f'"""\n{value}"""' if '"""' not in value and "\\" not in value else _toml(value)


def _toml(value: Json) -> str:
    """Writes a value as TOML. Its strings are JSON's, but for the character U+007F."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value)
