"""Fetches documents over https for an administrator. Nothing that checks a credential imports this module."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.parse import unquote, urlsplit

#: Maximum length of a document, in bytes.
LIMIT = 8 * 1024 * 1024
#: Maximum time without data, in seconds.
TIMEOUT = 20


class FetchError(Exception):
    """Says why a document could not be fetched."""


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but to https only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _require_https(url: str) -> None:
    if urlsplit(url).scheme != "https":
        raise FetchError(f"{url} is not an https address")


def get(url: str) -> bytes:
    """Returns the document at an https address. Raises FetchError."""
    _require_https(url)
    headers = {"Accept": "application/ld+json, application/json, */*;q=0.5"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - https was required above
    try:
        with urllib.request.build_opener(_HttpsOnly()).open(request, timeout=TIMEOUT) as response:
            data: bytes = response.read(LIMIT + 1)
    except (OSError, ValueError, HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise FetchError(f"{url}: {reason}") from None
    if len(data) > LIMIT:
        raise FetchError(f"{url} has over {LIMIT} bytes")
    return data


def did_web_address(did: str) -> str:
    """Returns the https address of the document of a did:web. Raises FetchError."""
    parts = did.split("#")[0].split(":")
    if parts[:2] != ["did", "web"] or len(parts) < 3 or not all(parts):
        raise FetchError(f"{did} is not a did:web")
    host, path = unquote(parts[2]), [unquote(part) for part in parts[3:]]
    if any("/" in part or part in (".", "..") for part in [host, *path]):
        raise FetchError(f"{did} is not a did:web")
    return f"https://{host}/{'/'.join([*path, 'did.json']) if path else '.well-known/did.json'}"
