"""Runs the commands that README.md, docs and the manual pages show.

Each command either succeeds on the simulated radio, or is in commands.toml with the reason why it is not run there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("EARSHOT_BIN", TOP / ".build" / "debug"))
RULES = tomllib.loads((Path(__file__).parent / "commands.toml").read_text())
#: The first words of commands. An indented line with another first word is output, a diagram or a file.
PROGRAMS = (
    r"(sudo|make|mkdir|printf|head|path=\$\(dbus-send|earshot|earshotd|earshot-[a-z]+|systemctl|journalctl|bluetoothctl"
    r"|btmgmt|rfkill|dbus-send|busctl|\.build/release/[a-z-]+)( |$)"
)
#: Its commands are one shell script, which SocialPageTests run as a whole.
SCRIPTS = {"social"}
#: Time limit in seconds for one command and for the start of a service.
LIMIT = 120


@dataclass(frozen=True)
class Command:
    """A command in a page, without its comment."""

    place: str
    text: str


def shown(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the indented lines of a Markdown page outside of fences, or the unfilled lines of a manual page."""
    is_shown = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md":
            if line.startswith("```"):
                is_shown = not is_shown
            elif line.startswith("    ") and not is_shown:
                yield number, line[4:]
        elif line in (".nf", ".fi"):
            is_shown = line == ".nf"
        elif is_shown:
            yield number, line.replace("\\-", "-").replace("\\(dq", '"').replace("\\e", "\\")


def commands() -> list[Command]:
    pages = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), *sorted((TOP / "docs" / "man").glob("*.[1-8]"))]
    found = []
    for page in pages:
        if page.stem in SCRIPTS:
            continue
        above = ""
        for number, line in shown(page):
            text = above + line.strip()
            if text.endswith(("\\", "|")):
                above = text.removesuffix("\\")
                continue
            above = ""
            text = re.sub(r"\s+#( .*)?$", "", text)
            if re.match(PROGRAMS, text):
                found.append(Command(f"{page.relative_to(TOP)}:{number}", text))
    return found


COMMANDS = commands()


def matches(kind: str, text: str) -> bool:
    return any(re.fullmatch(rule["pattern"], text) for rule in RULES[kind])


RUN = [command for command in COMMANDS if not matches("skipped", command.text)]


def test_the_pages_have_commands() -> None:
    assert len(RUN) >= 15
    assert {"README.md", "docs/operating.md"} <= {command.place.split(":")[0] for command in RUN}


@pytest.mark.parametrize("kind", ["skipped", "endless"])
def test_every_rule_has_a_reason_and_matches_a_command(kind: str) -> None:
    for rule in RULES[kind]:
        assert rule["reason"].endswith(".")
        assert any(re.fullmatch(rule["pattern"], command.text) for command in COMMANDS), rule["pattern"]


def test_a_comment_is_not_part_of_a_command_and_a_continued_line_is(tmp_path: Path) -> None:
    page = (tmp_path / "page").with_suffix(".md")
    page.write_text(
        "Text:\n\n    earshot status   # a comment\n    dbus-send a \\\n      b\n\n```\n    earshot no\n```\n"
    )
    assert [line for _, line in shown(page)] == ["earshot status   # a comment", "dbus-send a \\", "  b"]


def test_no_command_that_is_run_changes_the_machine() -> None:
    assert [command for command in RUN if re.search(r"\bsudo\b", command.text)] == []


#: The words between backquotes in a sentence that are a command of a program with the grammar of `earshot --help`.
INLINE = re.compile(r"`((?:earshot|earshotd|earshot-air|earshot-nostrd|earshot-presenced|earshot-sociald) [^`]+)`")


def inline_commands() -> list[Command]:
    """Returns the commands in the sentences and tables of the pages, each once."""
    found: dict[str, Command] = {}
    for page in [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for line in text.splitlines():
            if not line.startswith("    "):
                for words in INLINE.findall(line):
                    found.setdefault(words, Command(f"{page.relative_to(TOP)}", words))
    return list(found.values())


def without_placeholders(text: str) -> list[str]:
    """Returns the words of a command with a value for each placeholder such as FILE, and without optional ones."""
    words = [word for word in shlex.split(text) if not re.fullmatch(r"\[.*\]|VERB|COMMAND|…", word)]
    return ["1" if re.fullmatch(r"[A-Z]+…?", word) else word for word in words]


def described(page: str) -> dict[tuple[str, str], str]:
    """Returns the signature of the arguments of each method in docs/dbus.md, by interface and name."""
    found, interface = {}, ""
    for line in page.splitlines():
        if heading := re.match(r"#+ .*`?(org\.earshot\.[A-Za-z0-9]+)`?", line):
            interface = heading[1]
        elif row := re.match(r"\| `(\w+)` \| ([^|]*) \|", line):
            found[interface, row[1]] = "".join(re.findall(r"`([^`]+)`", row[2]))
    return found


def test_the_arguments_of_a_busctl_call_are_those_in_the_reference() -> None:
    methods = described((TOP / "docs" / "dbus").with_suffix(".md").read_text())
    calls = [shlex.split(command.text) for command in COMMANDS if command.text.startswith("busctl call org.earshot")]
    assert calls
    for _, _, _, _, interface, method, *arguments in calls:
        assert methods[interface, method] == (arguments or [""])[0]


needs_programs = pytest.mark.skipif(
    not all((BIN / name).exists() for name in ("earshotd", "earshot", "earshot-air", "earshot-nostrd")),
    reason=f"{BIN} lacks a program",
)


@needs_programs
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.place} {command.text}")
def test_the_syntax_of_a_command_of_the_tool_is_valid(command: Command) -> None:
    words = shlex.split(command.text) if command.text.startswith(("earshot ", "sudo earshot ")) else []
    words = words[1:] if words[:1] == ["sudo"] else words
    if not words:
        pytest.skip("It is not a command of the tool.")
    result = subprocess.run([BIN / "earshot", *words[1:], "--help"], capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == 0, result.stderr


@needs_programs
@pytest.mark.parametrize("command", inline_commands(), ids=lambda command: f"{command.place} {command.text}")
def test_the_syntax_of_a_command_in_a_sentence_is_valid(command: Command) -> None:
    program, *words = without_placeholders(command.text)
    if not (BIN / program).exists():
        pytest.skip(f"{program} is not built.")
    result = subprocess.run([BIN / program, *words, "--help"], capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that the commands name, a service with all parts on a simulated radio, and its uplink."""
    # The path of a socket has at most 107 bytes.
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/earshot.XXXXXX"], text=True).strip())  # noqa: S108
    work = tmp_path_factory.mktemp("work")
    shutil.copytree(TOP / "config", work / "config")
    shutil.copy(TOP / "config" / "credential.json", work)
    (folder / "bus.conf").write_text(
        '<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"\n'
        ' "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">\n'
        f"<busconfig><type>session</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>"
        '<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>'
        '<allow own="*"/></policy></busconfig>\n'
    )
    (folder / "earshot.conf").write_text(
        f"[Radio]\nBackend=air\n[Store]\nDirectory={folder}/state\n[Verifier]\nEnabled=no\n"
        "[Mesh]\nEnabled=yes\nTrustClock=yes\n[Broadcast]\nEnabled=yes\n"
    )
    (folder / "uplink.conf").write_text(f"[Store]\nDirectory={folder}/uplink\n")
    processes = [start(folder, ["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--nopidfile"])]
    try:
        until((folder / "bus").exists)
        processes.append(start(folder, [str(BIN / "earshotd"), "--config", str(folder / "earshot.conf")]))
        wait = ["earshot", "status", "--wait", str(LIMIT)]
        subprocess.run(wait, env=environment(folder), check=True, capture_output=True, timeout=LIMIT)
        # Without its proxy, the uplink sends nothing.
        processes.append(start(folder, [str(BIN / "earshot-nostrd"), "--config", str(folder / "uplink.conf")]))
        until(
            lambda: (
                subprocess.run(["earshot", "mesh", "uplink"], env=environment(folder), capture_output=True).returncode
                == 0
            )
        )
        (work / ".folder").write_text(str(folder))
        yield work
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(LIMIT)
        shutil.rmtree(folder)


def environment(folder: Path) -> dict[str, str]:
    path = f"{BIN}:{TOP / 'Sources' / 'Check'}:/usr/bin:/bin"
    return {
        "PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "dumb", "SWIFT_BACKTRACE": "enable=no",
        "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder}/bus",
    }  # fmt: skip


def start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(words, env=environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@needs_programs
@pytest.mark.parametrize("command", RUN, ids=lambda command: f"{command.place} {command.text}")
def test_a_command_of_the_pages_succeeds(command: Command, place: Path) -> None:
    folder = Path((place / ".folder").read_text())
    # A shell without job control starts background jobs, such as these tests, with SIGINT ignored.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", "bash", "-c", command.text],
        cwd=place, env=environment(folder), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    is_endless = matches("endless", command.text)
    try:
        output, _ = process.communicate(timeout=2 if is_endless else LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT if is_endless else signal.SIGKILL)
        output, _ = process.communicate(timeout=LIMIT)
        assert is_endless, f"{command.place}: no end within {LIMIT} s\n{output}"
        # A program that is interrupted may end with the signal, or with the exit status that shells give it.
        assert process.returncode in (0, 130, -signal.SIGINT), output
        return
    # earshot-check exits with 1 if the credential is not valid: the sample's issuer is not trusted here. So does
    # earshot doctor, because it finds neither systemd nor an adapter.
    expected = (0, 1) if re.match("earshot-check (verify|trust test) |earshot doctor", command.text) else (0,)
    assert process.returncode in expected, f"{command.place}: {output}"
