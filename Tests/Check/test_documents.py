"""Compares the documents with the checker."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from world import TOP

from earshot_check.reasons import REASONS, Verdict

PAGE = (TOP / "docs/check.md").read_text()
PACKAGE = TOP / "Sources" / "Check" / "earshot_check"
MODULES = sorted(PACKAGE.glob("*.py"))
#: Modules that use the network. The modules that check credentials import none of them.
FETCHING = {"fetch", "trustadd", "statusupdate"}


def test_the_page_lists_every_reason_code_with_its_verdict_and_sentence() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", PAGE.split("## Reason codes")[1], re.MULTILINE)
    expected = [
        (code, "note" if reason.verdict is Verdict.VALID else reason.verdict.value, reason.sentence)
        for code, reason in REASONS.items()
    ]
    assert rows == expected


def test_every_code_that_a_module_uses_is_a_reason_code_and_every_reason_code_is_used() -> None:
    used = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("Refusal", "Finding")
            ):
                first = node.args[0]
                values = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                used |= {str(value.value) for value in values if isinstance(value, ast.Constant)}
    used |= {"revoked", "suspended", "statusUnknown", "statusAccepted"}
    assert used == set(REASONS)


def test_the_trust_file_of_the_page_has_only_keys_that_are_known() -> None:
    table = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])
    assert set(table) == {"name", "identifiers", "keys", "contexts", "credentials", "status_lists"}
    assert len(table["credentials"][0]["contexts"]) == 3


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_a_module_that_checks_never_imports_one_that_fetches(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported |= {node.module or "", *(name.name for name in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
    network = {
        name
        for name in imported
        if name.split(".")[0] in ("socket", "http", "ssl", "asyncio") or "urllib.request" in name
    }
    if path.stem in FETCHING:
        return
    assert not network, path.name
    if path.stem != "cli":
        assert not imported & FETCHING, path.name


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_a_module_is_shorter_than_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 500
