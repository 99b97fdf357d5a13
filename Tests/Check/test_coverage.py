"""The coverage of a signature: a search over many values at once equals a search over each alone."""

from __future__ import annotations

import pytest
import subjects

from earshot_check import coverage
from earshot_check.canonical import Canonicaliser
from earshot_check.contexts import ContextLibrary
from earshot_check.coverage import Coverage
from earshot_check.trust import TrustFolder
from earshot_check.trustentry import TrustEntry


def measured(document: object, entry: TrustEntry) -> tuple[Coverage, int]:
    """Returns the coverage of a document, and the number of conversions to RDF."""
    count = 0
    library = ContextLibrary(entry.contexts)

    class Counting(Canonicaliser):
        def dataset(self, document: object) -> dict[str, list[dict[str, object]]]:
            nonlocal count
            count += 1
            return super().dataset(document)

    assert isinstance(document, dict)
    plain = {key: value for key, value in document.items() if key != "proof"}
    return coverage.measure(plain, Counting(library), library), count


def test_values_tried_together_or_alone_have_one_coverage(trust: TrustFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [subject for subject in [*subjects.ours(trust), *subjects.others()] if subjects.credential_of(subject.text)]
    assert len(found) >= 14
    saved = 0
    for subject in found:
        document = subjects.credential_of(subject.text)
        entry = next(entry for entry in subject.trust.entries if entry.contexts or len(subject.trust.entries) == 1)
        together, few = measured(document, entry)
        with monkeypatch.context() as patch:
            patch.setattr(coverage._Measurement, "_try_together", lambda *_: set())
            alone, many = measured(document, entry)
        assert together == alone, subject.name
        saved += many - few
    assert saved > 100
