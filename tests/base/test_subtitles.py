"""Subtitles that grow while somebody speaks."""

from __future__ import annotations

from itertools import product
from typing import Any

from streamer.base.subtitles import GrowingSubtitles
from streamer.base.transcript import Transcript

DONE = {"type": "done", "audio_ms": 1000}


def final(segment: int, *words: tuple[str, int, int], **more: int) -> dict[str, Any]:
    """A final with these words and their times."""
    timed = [{"word": word, "start_ms": start, "end_ms": end, "confidence": 0.9} for word, start, end in words]
    times = {"start_ms": words[0][1], "end_ms": words[-1][2]}
    text = " ".join(word for word, _, _ in words)
    return {"type": "final", "segment": segment, "text": text, "confidence": 0.9, "words": timed, **times, **more}


LONG = final(0, *((f"word{number}", number * 500, number * 500 + 400) for number in range(40)))
SHORT = final(1, ("yes", 21_000, 21_200))
SOON = final(2, ("no", 21_600, 23_000))


def test_each_final_adds_its_cues_and_nothing_changes() -> None:
    """Each final adds its cues, and the pieces together are the same as the whole document."""
    for format, last in product(("srt", "vtt"), ((), (DONE,))):
        transcript, growing = Transcript("microphone"), GrowingSubtitles(format)
        pieces = [growing.begin()]
        for event in (LONG, SHORT, SOON):
            transcript.add(event)
            pieces.append(growing.add(event))
        for event in last:  # otherwise it broke off, and says where
            transcript.add(event)
        pieces.append(growing.end(transcript))
        assert all(pieces[:2]) or format == "srt"
        assert pieces[1].count("-->") > 2
        assert "".join(pieces) == transcript.render(format)


def test_a_short_cue_waits_for_what_may_shorten_it() -> None:
    """A short cue is shown longer than it was spoken, but not into the next cue; silence releases it."""
    growing = GrowingSubtitles("srt")
    assert growing.add(SHORT) == ""
    assert growing.advance(22_000) == ""
    assert growing.advance(22_500) == "1\n00:00:21,000 --> 00:00:22,000\nyes\n"
    growing = GrowingSubtitles("srt")
    growing.add(SHORT)
    assert "00:00:21,000 --> 00:00:21,520" in growing.add(SOON)
    assert "00:00:21,600 --> 00:00:23,000" in growing.end(whole())


def test_a_cue_ends_before_words_that_are_not_final() -> None:
    """Somebody goes on speaking: the last cue does not wait for the final, and does not reach into its words."""
    growing = GrowingSubtitles("srt")
    growing.add(SHORT)
    assert growing.advance(22_000, 21_600) == "1\n00:00:21,000 --> 00:00:21,520\nyes\n"
    assert growing.add(SOON) == ""
    assert growing.end(whole()) == "\n2\n00:00:21,600 --> 00:00:23,000\nno\n"


def whole() -> Transcript:
    """A transcript of silence."""
    transcript = Transcript("microphone")
    transcript.add(DONE)
    return transcript


def test_a_document_without_words() -> None:
    """A document without words is complete."""
    assert GrowingSubtitles("vtt").begin() == "WEBVTT\n"
    assert GrowingSubtitles("srt").begin() + GrowingSubtitles("srt").end(whole()) == ""
