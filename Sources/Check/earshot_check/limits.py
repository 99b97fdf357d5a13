"""Runs a check in a child process with limits of processor time, memory and time.

A hostile credential can make a parser or a canonicaliser take any time and memory. What the child does not finish,
the parent answers: undecided.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from datetime import datetime, timezone

from .reasons import Finding
from .verdict import VERDICT_LIMIT, Result

#: Processor time of a check, in seconds, unless the caller says otherwise.
CPU_SECONDS = 5
#: Memory that a check may take besides its code, in bytes.
MEMORY = 224 * 1024 * 1024


def run(work: Callable[[], Result], seconds: float, cpu_seconds: int = CPU_SECONDS) -> Result | str:
    """Returns the verdict of `work` as JSON text, or an undecided Result where the child did not give one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(work, writer, cpu_seconds)
    os.close(writer)
    deadline = time.monotonic() + seconds
    try:
        output = _read(reader, deadline)
    finally:
        os.close(reader)
        status = _end(child, deadline)
    if output is not None and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 and output:
        return output.decode("utf-8")
    return _undecided(status, seconds if output is None else None, cpu_seconds)


def _work(work: Callable[[], Result], writer: int, cpu_seconds: int) -> None:
    """The child: sets its limits, works, writes. Never returns."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _lower(resource.RLIMIT_CPU, cpu_seconds)
        _lower(resource.RLIMIT_DATA, MEMORY)
        data = work().text().encode("utf-8")
        while data:
            data = data[os.write(writer, data) :]
        status = 0
    except MemoryError:
        status = 2
    except BaseException as error:  # noqa: BLE001 - whatever happens, the child ends here, and the parent answers
        os.write(2, f"earshot-check: {type(error).__name__}\n".encode())
    finally:
        os._exit(status)


def _lower(limit: int, value: int) -> None:
    """Sets a limit, unless a smaller one is in force."""
    soft, hard = resource.getrlimit(limit)
    known = [item for item in (soft, hard, value) if item != resource.RLIM_INFINITY]
    resource.setrlimit(limit, (min(known), hard))


def _read(reader: int, deadline: float) -> bytes | None:
    """Returns what the child wrote until it closed the pipe; None when it was too late."""
    output = b""
    while len(output) <= VERDICT_LIMIT:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        data = os.read(reader, 65536)
        if not data:
            return output
        output += data
    return b""


def _end(child: int, deadline: float) -> int:
    """Waits for the child, ends it at the deadline, and returns its wait status."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitpid(child, 0)[1]


def _undecided(status: int, late: float | None, cpu_seconds: int) -> Result:
    result = Result(checked_at=datetime.now(timezone.utc))
    if late is not None:
        finding = Finding("limitExceeded", f"over {late:g} s")
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        finding = Finding("limitExceeded", f"over {cpu_seconds} s of processor time, or too much memory")
    elif os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2:
        finding = Finding("limitExceeded", f"over {MEMORY >> 20} MiB of memory")
    else:
        finding = Finding("checkerFailed")
    result.findings.append(finding)
    return result
