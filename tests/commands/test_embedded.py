"""The service that a command starts for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.base.limits import READER
from streamer.base.timing import Timing
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.embedded import Embedded
from streamer.models.readers import ChosenReader
from tests.engine.reader.scripted_whisper import write_whisper


def test_public_models_have_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader is started beside the shipped model and those of its kind, and not where nothing would ask it."""
    monkeypatch.setattr("streamer.commands.embedded.choose_reader", lambda **_: ChosenReader("any", tmp_path))
    public, own = tmp_path / "public", tmp_path / "own"
    for folder, file in ((public, "encoder.onnx"), (own, "config.pbtxt")):
        folder.mkdir()
        (folder / file).write_text("")
    found = [Embedded(Timing(), folder)._triton.reader for folder in (None, public, own)]
    assert found == [READER, None, READER]


def test_a_whisper_model_is_read_beside_the_shipped_recogniser(tmp_path: Path) -> None:
    """The recogniser hears where segments end, and leaves all words to the reader."""
    write_whisper(tmp_path / "many", ("ĠGuten",))
    triton = Embedded(Timing(), tmp_path / "many")._triton
    assert (triton.reader, triton._reads_alone) == (READER, ["many"])
    assert triton._folders == {"many": asr_repository() / MODEL}
