"""The comparison of HTTP readers, with our own reader: its bounds hold, and refusals say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.testing.http_readers import behaviours, candidate_process
from streamer.testing.http_readers.candidate_process import CandidateProcess
from streamer.testing.http_readers.measurements import gets
from tests.bridge.access.certificate_authority import Authority


def test_our_own_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our reader takes little for a handler that does not read, and answers everything else as a server should."""
    monkeypatch.setattr(candidate_process, "FLOOD_S", 2.0)
    authority = Authority(tmp_path)
    files = (str(authority.chain), str(authority.key))
    with CandidateProcess("streamer") as running, CandidateProcess("streamer", files) as secure:
        seen = behaviours.behaviours(running, secure)
    for what in ("read of a body", "read of messages"):
        assert float(seen.pop(f"{what} while the handler does not read, MB")) < 10
    seen.pop("read of a refused upload, MB")  # it discards what comes, so that the answer is not lost
    assert int(seen.pop("silent TLS connections kept, of 500")) < 500
    assert seen == {
        "a message of 1 MiB at a path with a limit of 1000 bytes": "refused",
        "`Expect`, and a handler that reads no body": "403",
        "three requests at once": "3 answers",
        "`GET //[`": "404",
        "a head that is not HTTP": "400",
    }


def test_requests_are_counted() -> None:
    """The speed of a candidate is measured with requests that it answers, and its CPU time and memory are read."""
    with CandidateProcess("streamer") as running:
        before = running.cpu_s
        assert gets(running, 0.2) > 0
        assert running.cpu_s > before
        assert running.megabytes > 1
