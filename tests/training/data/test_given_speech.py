"""Manifests of given speech are checked line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.data.given_speech import read_manifest
from tests.training.data.given_folder import HEADER


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "header"),
        (HEADER, "no utterance"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\n", "columns"),
        (HEADER + "t.tar\ta.wav\tlong\tx\ts1\tYES\n", "length in seconds"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tYES, 2\n", "capitals"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tYES\n" * 2, "listed before"),
    ],
)
def test_a_broken_manifest_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    """Each kind of mistake has its own message."""
    path = tmp_path / "train.tsv"
    path.write_text(content)
    with pytest.raises(CorpusError, match=complaint):
        read_manifest(path)
