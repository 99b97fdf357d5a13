"""Makes the checker's package importable, as its program does, and shares the trust folder of the samples."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "Sources" / "Check"), str(HERE)]

from earshot_check.trust import TrustFolder  # noqa: E402


@pytest.fixture(scope="session")
def trust_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies the trust folder of the samples: a checkout may be writable by a group."""
    folder = tmp_path_factory.mktemp("trust")
    for path in (HERE / "samples" / "trust").iterdir():
        shutil.copyfile(path, folder / path.name)
        (folder / path.name).chmod(0o644)
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def trust(trust_folder: Path) -> TrustFolder:
    """Reads the trust folder of the samples."""
    found = TrustFolder.read(trust_folder)
    assert found.problems == []
    return found
