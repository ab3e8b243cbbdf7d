"""The exact reader: it reads what was said wherever it begins, and its words get the times of the exact model."""

from __future__ import annotations

import numpy as np

from streamer.base.events import Final, ReadBy
from streamer.engine.reader.segment_reader import LocalReader
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import exact_recogniser
from streamer.testing.exact_reader import ExactReader, exact_reader_pass, letters_of
from streamer.testing.exact_speech import FRAME, say, silence
from tests.engine.exact_streams import hear, text


def test_it_reads_wherever_the_audio_begins() -> None:
    """Frames of the audio need not begin where those of the segment do, and half a letter is none."""
    spoken = say("what's up")
    for offset in (0, 1, 37, 639):
        assert letters_of(np.concatenate([silence(100)[:offset], spoken])) == "what's up"
    assert letters_of(spoken[: 3 * FRAME + FRAME // 3]) == "w"
    assert letters_of(silence(500)) == ""


def test_it_writes_as_readers_do() -> None:
    """A reading has a capital and a full stop; silence has no text."""
    reading = ExactReader().read(say("hello world"))
    assert (reading.text, reading.complete) == ("Hello world.", True)
    assert "".join(token.text for token in reading.tokens).strip() == reading.text
    assert ExactReader().read(silence(500)).tokens == ()


def test_its_words_have_the_times_of_the_exact_model() -> None:
    """Every word is read, with the times of the first pass."""
    speech = [say("hello world"), silence(1500), say("good bye"), silence(300)]
    recogniser = exact_recogniser(2, reader_pass=exact_reader_pass(LocalReader(ExactReader())))  # type: ignore[arg-type]
    plain, read = (
        [event for event in hear(recogniser, speech, options) if isinstance(event, Final)]
        for options in (StreamOptions(), StreamOptions(second_pass=True, reader=True))
    )
    assert text(read) == text(plain) == "hello world good bye"
    assert {final.read_by for final in read} == {ReadBy.READER}
    for final, other in zip(read, plain, strict=True):
        for word, own in zip(final.words or (), other.words or (), strict=True):
            assert abs(word.start_ms - own.start_ms) <= 80
            assert abs(word.end_ms - own.end_ms) <= 80
