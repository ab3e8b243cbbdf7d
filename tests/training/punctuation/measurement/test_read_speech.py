"""The printed text of recordings."""

from __future__ import annotations

from streamer.engine.punctuation.marks import Mark
from streamer.training.data.corpus import Utterance
from streamer.training.punctuation.measurement.read_speech import PrintedText

PRINTED = PrintedText(["In the morning, Tom was", "He was not at home, was he?", "In the morning, Tom was out."])


def utterance(text: str) -> Utterance:
    """A recording of these words."""
    return Utterance("a", 0, 16000, "c", "s", text)


def test_the_longest_printed_sentence_counts() -> None:
    """The longest printed sentence gives the marks."""
    clip = PRINTED.clip(utterance("in the morning tom was out"))
    assert [word.mark for word in clip.words] == [*[Mark.NONE] * 2, Mark.COMMA, *[Mark.NONE] * 2, Mark.FULL_STOP]
    assert clip.known == 1.0


def test_several_sentences_are_found_in_one_recording() -> None:
    """Words between the sentences of a recording have no labels."""
    clip = PRINTED.clip(utterance("well he was not at home was he in the morning tom was"))
    assert [word.word for word in clip.words if word.mark is None] == ["well", "was"]
    assert [word.word for word in clip.words if word.begins] == ["he", "in"]
