"""The command line of earshot-check.

This module imports nothing that checks: the first process of a check only supervises the second one.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

#: Exit statuses of `verify`.
VALID, NOT_VALID, UNDECIDED, USAGE = 0, 1, 2, 64

_TRUST_FOLDER = "/etc/earshot/issuers.d"
_STATUS_FOLDER = "/var/lib/earshot-check/status"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"earshot-check: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(prog="earshot-check", description="Check verifiable credentials offline against trusted issuers.")
    parser.add_argument(
        "--trust-folder",
        type=Path,
        default=Path(_TRUST_FOLDER),
        metavar="FOLDER",
        help=f"trusted issuers ({_TRUST_FOLDER})",
    )
    parser.add_argument(
        "--status-folder",
        type=Path,
        default=Path(_STATUS_FOLDER),
        metavar="FOLDER",
        help=f"stored status lists ({_STATUS_FOLDER})",
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    verify = commands.add_parser("verify", help="print the verdict on a credential as JSON", epilog=_STATUSES)
    verify.add_argument("file", help="a credential, or a wallet's record with one in it; - is standard input")
    verify.add_argument("--at", type=_time, metavar="TIME", help="check as of this time, such as 2026-01-31T12:00:00Z")
    verify.add_argument("--timeout", type=_positive, default=9.0, metavar="SECONDS", help="time for the check (9)")
    verify.add_argument(
        "--cpu-time", type=_positive, default=5.0, metavar="SECONDS", help="processor time for the check (5)"
    )
    trust = commands.add_parser("trust", help="the issuers that are trusted")
    actions = trust.add_subparsers(dest="action", required=True, parser_class=_Parser)
    actions.add_parser("list", help="list trusted issuers, and files that cannot be used")
    test = actions.add_parser("test", help="show which entry a credential would use, and why the others do not match")
    test.add_argument("file")
    add = actions.add_parser("add", help="fetch the keys of an issuer, show them, ask, and write a trust file")
    add.add_argument(
        "source", help="did:web:…, an https address, or a file: keys, issuer metadata or a sample credential"
    )
    add.add_argument("--name", help="the name to show")
    add.add_argument("--file", help="the name of the trust file (from the identifier)")
    add.add_argument("--identifier", action="append", default=[], help="an identifier of the issuer (from the source)")
    add.add_argument("--context", action="append", default=[], metavar="URL", help="a JSON-LD context to fetch and pin")
    add.add_argument("--yes", action="store_true", help="do not ask")
    status = commands.add_parser("status", help="the status lists of trusted issuers")
    actions = status.add_subparsers(dest="action", required=True, parser_class=_Parser)
    actions.add_parser("update", help="fetch every status list that a trust file names")
    return parser


_STATUSES = "Exit status: 0 valid, 1 not valid, 2 undecided, 64 usage."


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a time: {text}") from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"not a number of seconds up to 3600: {text}")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        match options.command, getattr(options, "action", None):
            case "verify", _:
                return _verify(options)
            case "trust", "list":
                from . import trustlist

                return trustlist.show(options.trust_folder)
            case "trust", "test":
                from . import trustlist

                return trustlist.test(options.trust_folder, _read(options.file))
            case "trust", _:
                from . import trustadd

                return trustadd.run(options)
            case _:
                from . import statusupdate

                return statusupdate.run(options.trust_folder, options.status_folder)
    except OSError as error:
        print(f"earshot-check: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130


def _verify(options: argparse.Namespace) -> int:
    import json
    import math

    from . import limits
    from .verdict import Result

    data = _read(options.file)

    def work() -> Result:
        from .check import Checker
        from .dates import Clock
        from .trust import TrustFolder

        clock = Clock(options.at) if options.at else Clock.of_machine()
        folder = TrustFolder.read(options.trust_folder)
        for problem in folder.problems:
            print(f"earshot-check: {problem}", file=sys.stderr)
        sys.stderr.flush()
        return Checker(folder, clock, options.status_folder).check(data)

    answer = limits.run(work, options.timeout, math.ceil(options.cpu_time))
    text = answer if isinstance(answer, str) else answer.text()
    verdict = json.loads(text)["verdict"]
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return {"valid": VALID, "undecided": UNDECIDED}.get(verdict, NOT_VALID)


def _read(name: str) -> bytes:
    """Reads a file or standard input: one byte more than a credential may have at most."""
    limit = 4 * 1024 * 1024 + 1
    if name == "-":
        return sys.stdin.buffer.read(limit)
    with Path(name).open("rb") as file:
        return file.read(limit)
