"""The service that a command starts for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.base.limits import READER
from streamer.base.timing import Timing
from streamer.commands.capacity.reader_choice import ChosenReader
from streamer.commands.embedded import Embedded


def test_public_models_have_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader is started beside the shipped model and those of its kind, and not where nothing would ask it."""
    monkeypatch.setattr("streamer.commands.embedded.choose_reader", lambda **_: ChosenReader("any", tmp_path))
    public, own = tmp_path / "public", tmp_path / "own"
    for folder, file in ((public, "encoder.onnx"), (own, "config.pbtxt")):
        folder.mkdir()
        (folder / file).write_text("")
    found = [Embedded(Timing(), folder)._triton.reader for folder in (None, public, own)]
    assert found == [READER, None, READER]
