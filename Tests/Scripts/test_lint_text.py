"""The checks of docstrings and commit subjects: what breaks a rule, and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import lint_text  # noqa: E402

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")

LONG = " ".join(["word"] * 31)


def rules(source: str, path: str = "Sources/Host/Radio/A.swift") -> list[str]:
    """Returns the rules that the docstrings of a file break, in order."""
    return [violation.rule for violation in lint_text.violations(path, source)]


@pytest.mark.parametrize("word", lint_text.OPENINGS)
def test_paragraph_with_a_forbidden_opening_is_counted(word: str) -> None:
    assert rules(f"/// {word} is here.\n///\n/// {word} is there.") == ["opening", "opening"]
    assert rules(f"// {word} is here.\n/// A link. {word} is here.\n/// {word}\nlet a = 1") == []


def test_opening_is_a_whole_word() -> None:
    assert rules("/// Sockets of a link.\n/// - Returns: whether it is open.") == []


def test_sentence_of_more_than_30_words_is_counted() -> None:
    assert rules(f"/// {LONG}.") == ["length"]
    assert rules("/// " + LONG.replace(" ", "\n/// ")) == ["length"]
    assert rules(f"/// {LONG[5:]}.") == []
    assert rules(f"/// {LONG[:60]}. {LONG[:80].capitalize()}.") == []


def test_code_is_no_text() -> None:
    assert rules(f"/// A value.\n///\n///     {LONG}\n///\n/// | {LONG} |") == []
    assert rules(f"/// ```\n/// What {LONG}\n/// ```") == []
    assert rules(f"/// Calls `say`, ``VerifierAdaptor`` and `{LONG}`.") == []


@pytest.mark.parametrize(
    "text", ["It is on the air.", "Whether it was Told.", "The visitor leaves.", "Has no room for it."]
)
def test_house_word_is_counted(text: str) -> None:
    assert rules(f"/// A thing. {text}") == ["words"]


@pytest.mark.parametrize("text", ["Used in place of a link.", "Airs its text.", "A surface.", "A paid keepsake."])
def test_ordinary_word_is_not_counted(text: str) -> None:
    assert rules(f"/// A thing. {text}") == []


def test_line_is_a_house_word_of_the_mesh_alone() -> None:
    text = "/// The line of a peer."
    assert rules(text, "Sources/Protocols/Bitchat/A.swift") == ["words"]
    assert rules(text, "Sources/Services/Mesh/Mesh/A.swift") == ["words"]
    assert rules(text, "Sources/Services/Mesh/Chat/A.swift") == []


def test_room_is_the_target_of_a_file() -> None:
    assert lint_text.room("Sources/Host/BlueZ/Daemon/Device.swift") == "Host/BlueZ"
    assert lint_text.room("Sources/Services/Listing/Services.swift") == "Services/Listing"
    assert lint_text.room("Sources/Services/Mesh/Chat/Screen/Row.swift") == "Services/Mesh/Chat"


def test_more_violations_than_listed_fail_and_fewer_do_not() -> None:
    counts = {"Host/Air": Counter({"words": 3, "length": 1})}
    limits = lint_text.read_limits(lint_text.write_limits(counts))
    assert lint_text.compare(counts, limits) == ([], [])
    above, below = lint_text.compare({"Host/Air": Counter({"words": 4}), "Host/HCI": Counter({"opening": 1})}, limits)
    assert [sentence.split(":")[0] for sentence in above] == ["Host/Air", "Host/HCI"]
    assert len(below) == 1


@pytest.mark.parametrize(
    "subject",
    [
        "Mesh: acknowledge private messages after the database commit",
        "Package, tests: keep lines within 120 columns",
        "D-Bus: process calls in order",
        "End-to-end tests: give the checker the limits of a slow machine",
        'Revert "Mesh: relay twice"',
        "Mesh: " + "a" * 66,
    ],
)
def test_good_subject_is_accepted(subject: str) -> None:
    assert lint_text.subject_problem(subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        "Mesh: " + "a" * 67,
        "Acknowledge private messages",
        "Mesh: what a last reading found",
        "Mesh: acknowledged private messages",
        "Mesh: acknowledges private messages",
        "Mesh: acknowledging private messages",
        "Mesh: Acknowledge private messages",
        "Mesh: acknowledge private messages.",
        "fixup! Mesh: relay once",
    ],
)
def test_malformed_subject_is_refused(subject: str) -> None:
    assert lint_text.subject_problem(subject) is not None


def commit(folder: Path, *subjects: str) -> None:
    """Adds empty commits with these subjects to a repository."""
    for subject in subjects:
        git(folder, "commit", "--quiet", "--allow-empty", "--message", subject)


def git(folder: Path, *arguments: str) -> None:
    """Runs git in a folder, without the settings of the user."""
    settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    names = {f"GIT_{role}_{part}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **settings, **names})


@needs_git
def test_subjects_since_the_last_tag_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_text, "TOP", tmp_path)
    assert lint_text.check_commits() == 0
    git(tmp_path, "init", "--quiet")
    assert lint_text.check_commits() == 0
    commit(tmp_path, "what was found")
    assert lint_text.check_commits() == 1
    git(tmp_path, "tag", "v1")
    commit(tmp_path, "Mesh: relay once")
    assert lint_text.recent_subjects()[0][1] == "Mesh: relay once"
    assert lint_text.check_commits() == 0


@needs_git
def test_shallow_clone_has_the_subjects_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, shallow = tmp_path / "full", tmp_path / "shallow"
    full.mkdir()
    git(full, "init", "--quiet")
    commit(full, "what was found", "Mesh: relay once")
    git(tmp_path, "clone", "--quiet", "--depth", "1", full.as_uri(), str(shallow))
    monkeypatch.setattr(lint_text, "TOP", shallow)
    assert [subject for _, subject in lint_text.recent_subjects()] == ["Mesh: relay once"]
    assert lint_text.check_commits() == 0


def test_file_that_the_page_names_must_exist(tmp_path: Path) -> None:
    (tmp_path / "Host").mkdir()
    (tmp_path / "Host" / "A.swift").touch()
    page = "1. `Host/A.swift`, `Host/B.swift`: `B.swift` reads `Package.swift` and `Host/A.swift:7`."
    assert lint_text.missing_files(page, tmp_path) == ["Host/B.swift"]


def test_comment_of_121_columns_is_reported_and_a_wide_table_or_code_block_is_not() -> None:
    wide = "/// " + "a" * 117
    assert lint_text.wide_comments(f'{wide[:-1]}\n{wide}\n  // {"a" * 120}\nlet a = "{"a" * 120}"') == [2, 3]
    assert lint_text.wide_comments(f"/// | {'a' * 120} |\n///     {'a' * 120}\n///") == []


def test_comments_of_sources_and_tests_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_text, "TOP", tmp_path)
    for folder in ("Sources/Host", "Tests/Host"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "A.swift").write_text("/// A link.\n", encoding="utf-8")
    (tmp_path / "Package.swift").write_text("let package = 1\n", encoding="utf-8")
    assert lint_text.check_width() == 0
    for name in ("Package.swift", "Sources/Host/A.swift", "Tests/Host/A.swift"):
        before = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(f"// {'a' * 118}\n", encoding="utf-8")
        assert lint_text.check_width() == 1
        (tmp_path / name).write_text(before, encoding="utf-8")
