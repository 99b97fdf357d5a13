#!/usr/bin/env python3
"""Checks docstrings, the width of comments, the subjects of commits, and paths in docs/design.md.

    scripts/lint_text.py docstrings            counts violations in each room, and fails above the listed count
    scripts/lint_text.py docstrings --show X   prints each violation in the paths that contain X
    scripts/lint_text.py docstrings --update   writes the present counts to scripts/docstring-limits.txt
    scripts/lint_text.py commits               fails if a subject since the last tag, at most 50 back, is malformed
    scripts/lint_text.py paths                 fails if a Swift file that docs/design.md names does not exist
    scripts/lint_text.py width                 fails if a comment in a Swift file is wider than 120 columns

A docstring is a run of lines that begin with `///`. Three rules apply to each of its paragraphs:

- opening: it starts with the name of a thing or with a verb, not with one of the words in OPENINGS;
- words: it has none of the house words in WORDS;
- length: none of its sentences has more than 30 words.

Code spans, indented blocks and tables are not text, and may be of any width. Rooms whose text still breaks the rules
are in scripts/docstring-limits.txt, each with its counts.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LIMITS = TOP / "scripts" / "docstring-limits.txt"
RULES = ("opening", "words", "length")

SENTENCE_WORDS = 30
COMMENT_COLUMNS = 120
SUBJECT_COLUMNS = 72
COMMITS = 50

OPENINGS = ("So", "Of", "Whoever", "As many", "The same", "Another", "What")
OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")

#: House words, as regular expressions, each with the terms that replace it.
WORDS = {
    r"the air": "the radio channel, the simulated radio, advertising",
    r"visit(?:s|ors?)?": "client, transfer session",
    r"(?<!in )(?<!in its )(?<!in their )(?<!takes )(?<!take )(?<!took )places?(?! in memory)": "session slot",
    r"(?:no|more|enough|makes?|has|have|is|the) room (?:for|to|in|left|there)": "capacity, buffer space",
    r"faces?": "D-Bus adaptor, D-Bus interface",
    r"tells?|told|says?|said": "notify, report, send, broadcast",
    r"(?:over)?hear[sd]?": "receive, handle",
    r"bags?|desks?|books|shelf|shelves|ledgers?|boards?": "courier store, index, store",
    r"keeps?|kept|keepers?|vaults?": "store, persist",
    r"(?:a|the|its|this|one|each|another|of|next|same|whose|first|last) turns?": "effects, time slice, iteration",
    r"standing|g[ia]ves? way|patience": "session health, evict, preempt, timeout",
    r"quiet|silence": "radio inhibit, idle timeout",
    r"garbage": "malformed packets",
    r"stranded": "orphaned subscription",
    r"mending": "gap repair",
    r"sightings?": "scan result",
    r"doors?": "kernel channel",
    r"of this kind": "Earshot peer",
    r"ticks?": "delivery state",
    r"feed nearby": "local broadcast channel",
}
WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)

#: In these folders a line is a public message, and a letter is a courier envelope. Elsewhere both are ordinary words.
MESH = re.compile(r"Protocols/Bitchat|Services/Mesh/(?:Mesh|MeshStore)/|Tools/MeshField/")
MESH_WORD = re.compile(r"\b(?:lines?|letters?)\b", re.IGNORECASE)

SUBJECT = re.compile(r"(?P<room>[^\s:][^:]*): (?P<summary>\S.*)")
ROOM = re.compile(r"[A-Za-z][\w.+/ -]*(?:, [A-Za-z][\w.+/ -]*)*")
#: Words with which no imperative begins, and verbs that end like a participle or like the third person.
NO_VERBS = frozenset(
    {"a", "an", "the", "this", "that", "what", "which", "of", "so", "no", "more", "some", "all", "two"}
)
VERBS = frozenset(
    {
        *("need", "feed", "embed", "speed", "seed", "shed", "bring", "ring", "ping", "string", "sing"),
        *("focus", "alias", "bias"),
    }
)


@dataclass(frozen=True)
class Violation:
    """One place where a docstring breaks a rule."""

    path: str
    line: int
    rule: str
    text: str


def paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of the docstrings in a Swift file, each with the number of its first line.

    Blank lines, list items and blocks of code end a paragraph. The marks of list items are removed.
    """
    start, words, fenced = 0, list[str](), False
    for number, line in enumerate([*source.split("\n"), ""], start=1):
        match = re.match(r"\s*///(.*)", line)
        text = match[1].removeprefix(" ") if match else ""
        if not match:
            fenced = False
        elif text.lstrip().startswith("```"):
            fenced = not fenced
            text = ""
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+(?:(?:Parameters?|Returns|Throws)\b[^:]*:\s*)?", text)
        is_code = fenced or text.startswith("|") or (text.startswith("    ") and not words)
        if (not text.strip() or item or is_code) and words:
            yield start, " ".join(words)
            words = []
        if not text.strip() or is_code:
            continue
        if not words:
            start = number
        words.append((text[item.end() :] if item else text).strip())


def plain(text: str) -> str:
    """Returns a paragraph with each code span and address as one neutral word."""
    text = re.sub(r"``[^`]*``|`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+", "ADDRESS", text)


def sentences(text: str) -> list[str]:
    """Returns the sentences of a plain paragraph. A colon or a semicolon ends none."""
    return [part for part in re.split(r"(?<=[.!?])[)\"]?\s+(?=[A-Z0-9\"(])", text) if part]


def violations(path: str, source: str) -> Iterator[Violation]:
    """Yields what breaks the rules in the docstrings of a file."""
    for line, paragraph in paragraphs(source):
        text = plain(paragraph)
        if OPENING.match(text):
            yield Violation(path, line, "opening", text[:60])
        found = [match[0] for match in WORD.finditer(text)]
        if MESH.search(path):
            found += [match[0] for match in MESH_WORD.finditer(text)]
        for word in found:
            yield Violation(path, line, "words", word)
        for sentence in sentences(text):
            length = len(sentence.split())
            if length > SENTENCE_WORDS:
                yield Violation(path, line, "length", f"{length} words: {sentence}")


def room(path: str) -> str:
    """Returns the room of a file: `Host/BlueZ`, or `Services/Mesh/Chat` where services share a folder."""
    parts = Path(path).parts[1:-1]
    return "/".join(parts[: 3 if parts[0] == "Services" else 2])


def count(found: Iterable[Violation]) -> dict[str, Counter[str]]:
    """Returns the number of violations by room and rule."""
    counts: dict[str, Counter[str]] = {}
    for violation in found:
        counts.setdefault(room(violation.path), Counter())[violation.rule] += 1
    return counts


def read_limits(text: str) -> dict[str, Counter[str]]:
    """Returns the limits that a list names: a line for each room, with a number for each rule."""
    limits: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, *numbers = line.split()
            limits[name] = Counter(dict(zip(RULES, map(int, numbers), strict=True)))
    return limits


def write_limits(counts: dict[str, Counter[str]]) -> str:
    """Returns the list with these counts as limits."""
    width = max((len(name) for name in counts), default=0)
    lines = [
        "# Known violations in docstrings, by room: opening, words, length. `make lint` fails where there are more.",
        "# Lower a number when the text has improved: scripts/lint_text.py docstrings --update",
    ]
    for name in sorted(counts):
        numbers = " ".join(f"{counts[name][rule]:4}" for rule in RULES)
        lines.append(f"{name:{width}} {numbers}")
    return "\n".join(lines) + "\n"


def compare(counts: dict[str, Counter[str]], limits: dict[str, Counter[str]]) -> tuple[list[str], list[str]]:
    """Returns sentences about counts above their limits, and about limits that can be lowered."""
    above, below = [], []
    for name in sorted({*counts, *limits}):
        for rule in RULES:
            number, limit = counts.get(name, Counter())[rule], limits.get(name, Counter())[rule]
            if number > limit:
                above.append(f"{name}: {number} violations of the rule `{rule}`, {limit} are listed")
            elif number < limit:
                below.append(f"{name}: {number} violations of the rule `{rule}`, {limit} are listed")
    return above, below


def subject_problem(subject: str) -> str | None:
    """Returns why a commit subject is malformed, or None."""
    if len(subject) > SUBJECT_COLUMNS:
        return f"has {len(subject)} columns, {SUBJECT_COLUMNS} are the limit"
    if subject.startswith(('Revert "', "Merge ")):
        return None
    match = SUBJECT.fullmatch(subject)
    if not match or not ROOM.fullmatch(match["room"]):
        return "is not `room: summary`"
    if subject.endswith("."):
        return "ends with a full stop"
    verb = re.match(r"[^\s,;:]+", match["summary"])
    word = verb[0] if verb else ""
    if not re.fullmatch(r"[a-z]+(?:-[a-z]+)*", word):
        return "has a summary that does not begin with a verb in lower case"
    if word in NO_VERBS or (word not in VERBS and re.search(r"(?:ing|ed|[^s]s)$", word)):
        return f"has a summary that begins with `{word}`, not with an imperative"
    return None


def git(*arguments: str) -> str | None:
    """Returns the output of a git command in this tree, or None if it fails."""
    command = ["git", "-C", str(TOP), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout if result.returncode == 0 else None


def recent_subjects() -> list[tuple[str, str]]:
    """Returns hash and subject of the commits since the last tag, at most 50. A shallow clone may have fewer."""
    tag = git("describe", "--tags", "--abbrev=0")
    commits = f"{tag.strip()}..HEAD" if tag else "HEAD"
    log = git("log", "--no-merges", f"--max-count={COMMITS}", "--format=%h %s", commits)
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in (log or "").splitlines()]


def check_commits() -> int:
    """Prints each malformed commit subject, and returns the exit status."""
    status = 0
    for commit, subject in recent_subjects():
        problem = subject_problem(subject)
        if problem:
            print(f"commit {commit}: the subject {problem}: {subject}", file=sys.stderr)
            status = 1
    return status


def missing_files(page: str, sources: Path) -> list[str]:
    """Returns the Swift files that a page names by their paths below Sources, and that do not exist."""
    return [path for path in re.findall(r"`([^`\s]+/[^`\s]+\.swift)`", page) if not (sources / path).is_file()]


def check_paths() -> int:
    """Prints each file that docs/design.md names and that does not exist, and returns the exit status."""
    page = TOP / "docs/design.md"
    missing = missing_files(page.read_text(encoding="utf-8"), TOP / "Sources")
    for path in missing:
        print(f"docs/design.md names {path}, which does not exist", file=sys.stderr)
    return 1 if missing else 0


def wide_comments(source: str) -> list[int]:
    """Returns the lines of a Swift file that are comments of more than 120 columns, which swift-format does not see."""
    found = []
    for number, line in enumerate(source.split("\n"), start=1):
        match = re.match(r"\s*///? ?(.*)", line)
        if match and len(line) > COMMENT_COLUMNS and not match[1].startswith(("|", "    ")):
            found.append(number)
    return found


def check_width() -> int:
    """Prints each comment that is too wide, and returns the exit status."""
    files = [TOP / "Package.swift", *(TOP / "Sources").rglob("*.swift"), *(TOP / "Tests").rglob("*.swift")]
    status = 0
    for file in sorted(files):
        for line in wide_comments(file.read_text(encoding="utf-8")):
            place = f"{file.relative_to(TOP)}:{line}"
            print(f"{place}: the comment is wider than {COMMENT_COLUMNS} columns", file=sys.stderr)
            status = 1
    return status


def check_docstrings(*, show: str | None, update: bool) -> int:
    """Compares the docstrings of Sources with the limits, and returns the exit status."""
    paths = sorted((TOP / "Sources").rglob("*.swift"))
    texts = ((str(path.relative_to(TOP)), path.read_text(encoding="utf-8")) for path in paths)
    found = [violation for path, text in texts for violation in violations(path, text)]
    if show is not None:
        for violation in found:
            if show in violation.path:
                print(f"{violation.path}:{violation.line}: {violation.rule}: {violation.text}")
        return 0
    counts = count(found)
    if update:
        LIMITS.write_text(write_limits(counts), encoding="utf-8")
        return 0
    above, below = compare(counts, read_limits(LIMITS.read_text(encoding="utf-8")))
    for sentence in above:
        print(sentence, file=sys.stderr)
    if above:
        print("scripts/lint_text.py docstrings --show PATH prints the violations in a file or folder.", file=sys.stderr)
    if below:
        print(f"  {len(below)} limits can be lowered: scripts/lint_text.py docstrings --update")
    return 1 if above else 0


def main() -> int:
    """Runs the check that the command line names."""
    parser = argparse.ArgumentParser(description="Checks docstrings, comments, commit subjects and paths.")
    commands = parser.add_subparsers(dest="command", required=True)
    docstrings = commands.add_parser("docstrings", help="compares the docstrings of Sources with the limits")
    docstrings.add_argument("--show", metavar="PATH", help="prints each violation in paths that contain PATH")
    docstrings.add_argument("--update", action="store_true", help=f"writes {LIMITS.relative_to(TOP)}")
    commands.add_parser("commits", help="checks the subjects of recent commits")
    commands.add_parser("paths", help="checks the paths in docs/design.md")
    commands.add_parser("width", help="checks the width of comments in Swift files")
    options = parser.parse_args()
    if options.command == "paths":
        return check_paths()
    if options.command == "width":
        return check_width()
    if options.command == "commits":
        return check_commits()
    return check_docstrings(show=options.show, update=options.update)


if __name__ == "__main__":
    sys.exit(main())
