"""Takes the credential out of the text that a wallet sends, and leaves everything else behind.

A wallet sends its whole record of a credential, which contains private data besides. Facts: credentials.md section 1.1
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import strictjson
from .reasons import Refusal
from .strictjson import Json

#: Maximum length of the text, in bytes: earshotd's `CredentialLimit`.
TEXT_LIMIT = 4 * 1024 * 1024

_COMPACT_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\Z")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+={0,2}\Z")


@dataclass(frozen=True)
class LinkedDataText:
    """A JSON-LD credential (`ldp_vc`)."""

    document: dict[str, Json]


@dataclass(frozen=True)
class SDJWTText:
    """An SD-JWT in compact form."""

    text: str


@dataclass(frozen=True)
class MdocText:
    """An mdoc as base64url text."""

    text: str


Credential = LinkedDataText | SDJWTText | MdocText


def find(data: bytes) -> Credential:
    """Returns the credential in a text. The format is detected from the value; the wallet's statement is ignored.

    Raises Refusal: "malformed", "noCredential" or "unsupportedFormat".
    """
    if len(data) > TEXT_LIMIT:
        raise Refusal("malformed", f"over {TEXT_LIMIT} bytes")
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise Refusal("malformed", "it is not UTF-8") from None
    if not text.startswith("{"):
        if text[:1] in ("[", '"'):
            strictjson.parse(text)
            raise Refusal("noCredential")
        return _compact(text)
    record = strictjson.parse(text)
    wrapped = record.get("verifiableCredential")
    if "@context" in record or "proof" in record:
        return _object(record)
    if isinstance(wrapped, dict) and "credential" in wrapped:
        return _value(wrapped["credential"])
    if isinstance(wrapped, dict) and "proof" in wrapped:
        return _value(wrapped)
    raise Refusal("noCredential")


def _value(value: Json) -> Credential:
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, str):
        return _compact(value.strip())
    raise Refusal("noCredential")


def _object(document: dict[str, Json]) -> Credential:
    types = document.get("type")
    if types == "VerifiablePresentation" or (isinstance(types, list) and "VerifiablePresentation" in types):
        raise Refusal("unsupportedFormat", "it is a presentation")
    return LinkedDataText(document)


def _compact(text: str) -> Credential:
    if "~" in text:
        return SDJWTText(text)
    if _COMPACT_JWT.match(text):
        raise Refusal("unsupportedFormat", "jwt_vc_json")
    if _BASE64URL.match(text):
        return MdocText(text.rstrip("="))
    raise Refusal("malformed", "it is neither JSON, SD-JWT nor base64url")
