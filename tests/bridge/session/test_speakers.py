"""A track asks for the voices in windows, and holds finals until the sound of their words was heard."""

from __future__ import annotations

import pytest

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.events import Final, Partial, Result, SpeakerTurn, Word
from streamer.bridge.session.speakers import (
    FIRST_PAUSE_S,
    LIMIT_S,
    MOST_UNHEARD,
    STEP,
    WINDOW,
    Answer,
    Question,
    SpeakerTrack,
)

SECOND = bytes(2 * SAMPLE_RATE)


def _final(end_ms: int, *, words: bool = True) -> Final:
    said = tuple(Word("word", at, at + 400, 1.0) for at in range(end_ms - 1000, end_ms, 500))
    return Final(0, "word word", end_ms - 1000, end_ms, end_ms + 500, 1.0, said if words else None)


def _asked(track: SpeakerTrack, now: float = 0.0) -> Question:
    question = track.question(now)
    assert question is not None
    assert track.question(now) is None, "only one question is under way"
    return question


def _answer(track: SpeakerTrack, question: Question, voice: int = 0) -> None:
    end = question.begin + len(question.pcm) // 2
    track.take(Answer([(question.since, end, voice)], end, f"memory of {end}".encode(), b"piece "))


def _released(track: SpeakerTrack, now: float = 0.0) -> list[Result]:
    return [result for results, _ in track.release(now) for result in results]


def test_windows_have_new_sound_and_what_was_before() -> None:
    track = SpeakerTrack(0, live=True)
    places = []
    for second in range(30):
        track.add(bytes([second]) * 2 * SAMPLE_RATE)
        while (question := track.question(0.0)) is not None:
            end = question.begin + len(question.pcm) // 2
            places.append((question.begin, question.since, end))
            assert question.memory == (f"memory of {question.since}".encode() if question.since else b"")
            assert question.pcm[0] == question.begin // SAMPLE_RATE
            _answer(track, question)
    assert [since for _, since, _ in places] == list(range(0, 30 * SAMPLE_RATE, STEP))
    assert all(end - since == STEP and begin == max(0, end - WINDOW) for begin, since, end in places)


def test_a_final_waits_for_its_sound_and_gets_its_speakers() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(2 * SECOND)
    track.hold([_final(1900)], False, 0.0)
    assert _released(track) == []
    question = _asked(track)  # before STEP is complete, because a final waits
    assert len(question.pcm) == len(2 * SECOND)
    _answer(track, question, voice=3)
    [final] = _released(track)
    assert isinstance(final, Final)
    assert final.speaker == 3
    assert final.words is not None
    assert [word.speaker for word in final.words] == [3, 3]


def test_after_a_merge_only_one_of_both_is_told() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(6 * SECOND)
    track.hold([_final(1900), _final(4900)], False, 0.0)
    _answer(track, _asked(track), voice=3)
    question = _asked(track)
    end = 5 * SAMPLE_RATE
    track.take(Answer([(question.since, end, 1)], end, b"memory", b"", (3, 1)))
    assert track.merge == (3, 1)
    finals = [result for result in _released(track) if isinstance(result, Final)]
    assert [final.speaker for final in finals] == [1, 1]


def test_voices_are_enrolled_before_anything_is_told() -> None:
    track = SpeakerTrack(0, live=False, enrolled=[SECOND, 2 * SECOND])
    assert track.question(0.0) is None, "a session without sound costs nothing"
    track.add(3 * SECOND)
    for voice in range(2):
        question = _asked(track)
        assert (question.enrolled, len(question.pcm)) == (voice, (voice + 1) * len(SECOND))
        assert question.begin + WINDOW <= 0
        track.take(Answer([], 0, f"{voice}".encode(), b"piece " if voice else b""))
    question = _asked(track)
    assert (question.enrolled, question.begin, question.memory) == (None, 0, b"1")
    assert track.silent == (0,)


def test_speech_that_has_just_begun_waits_for_the_next_window() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(3 * SECOND)
    question = _asked(track)
    assert not question.whole
    until = 2 * SAMPLE_RATE
    track.take(Answer([(0, until, 0)], until, b"memory", b""))
    track.add(2 * SECOND)
    assert _asked(track).since == until


def test_all_is_told_if_a_final_waits_or_nothing_follows_or_of_a_recording() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(3 * SECOND)
    track.hold([_final(2900)], False, 0.0)
    assert _asked(track).whole
    for live, expected in ((True, [False, True]), (False, [True, True])):
        ended = SpeakerTrack(0, live=live)
        ended.add(4 * SECOND)
        ended.finish()
        wholes = []
        while (question := ended.question(0.0)) is not None and not question.pieces:
            wholes.append(question.whole)
            _answer(ended, question)
        assert wholes == expected


@pytest.mark.parametrize("until", [0, 99 * SAMPLE_RATE])
def test_an_answer_that_tells_nothing_is_not_asked_for_again(until: int) -> None:
    track = SpeakerTrack(0, live=True)
    track.add(5 * SECOND)
    question = _asked(track)
    track.take(Answer([], until, b"", b""))
    assert _asked(track).since == len(question.pcm) // 2


def test_what_follows_a_waiting_final_waits_too() -> None:
    track = SpeakerTrack(0, live=True)
    partial = Partial(1, "more", 0, 2000, 2500)
    track.hold([partial], False, 0.0)
    assert _released(track) == [partial]
    track.add(SECOND)
    track.hold([_final(1000, words=False)], False, 0.0)
    track.hold([partial], True, 0.0)
    assert track.release(0.0) == []
    _answer(track, _asked(track), voice=1)
    (finals, first), (rest, second) = track.release(0.0)
    assert [result.speaker for result in finals if isinstance(result, Final)] == [1]
    assert (rest, first, second) == ([partial], False, True)


def test_a_failure_holds_nothing_up_and_is_tried_again_later() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(3 * SECOND)
    track.hold([_final(2900)], False, 0.0)
    _asked(track)
    track.fail("no such model", 1.0)
    [final] = _released(track, 1.0)
    assert isinstance(final, Final)
    assert final.speaker is None
    assert track.question(1.0 + FIRST_PAUSE_S / 2) is None
    _answer(track, _asked(track, 1.0 + FIRST_PAUSE_S))
    assert track.failure == ""


def test_a_silent_model_holds_nothing_up_for_long() -> None:
    track = SpeakerTrack(0, live=True)
    track.add(3 * SECOND)
    _asked(track, 0.0)
    track.hold([_final(2900)], False, 0.0)
    assert _released(track, LIMIT_S - 0.1) == []
    assert track.due_at == LIMIT_S
    assert len(_released(track, LIMIT_S)) == 1


def test_a_recording_gets_a_second_look() -> None:
    track = SpeakerTrack(2, live=False)
    track.add(4 * SECOND)
    track.finish()
    for _ in range(2):
        _answer(track, _asked(track))
    question = _asked(track)
    assert (question.pieces, question.voices) == (b"piece piece ", 2)
    assert not track.over
    track.take(Answer([(0, 16_000, 1)], 16_000, b"", b""))
    assert track.over
    assert track.turns == (SpeakerTurn(0, 1000, 1),)


@pytest.mark.parametrize("live", [True, False])
def test_a_live_stream_gets_none(live: bool) -> None:
    track = SpeakerTrack(0, live=live)
    track.add(SECOND)
    track.finish()
    _answer(track, _asked(track))
    assert track.over is live


def test_a_failure_at_the_end_ends_the_session() -> None:
    track = SpeakerTrack(0, live=False)
    track.add(4 * SECOND)
    track.finish()
    track.hold([_final(3900)], False, 0.0)
    _asked(track)
    track.fail("no such model", 0.0)
    assert len(_released(track)) == 1
    assert track.over


def test_a_recording_waits_and_a_live_stream_goes_on() -> None:
    recording, live = SpeakerTrack(0, live=False), SpeakerTrack(0, live=True)
    for track in (recording, live):
        for _ in range(2 * MOST_UNHEARD // SAMPLE_RATE):
            track.add(SECOND)
    assert recording.full
    assert not live.full
    question = _asked(live)
    assert question.since >= MOST_UNHEARD - STEP
    assert len(question.pcm) <= 2 * WINDOW


def test_the_memory_of_a_track_has_a_bound() -> None:
    track = SpeakerTrack(0, live=True)
    for _ in range(600):
        track.add(SECOND)
        while (question := track.question(0.0)) is not None:
            _answer(track, question)
    assert len(track._audio) <= 2 * (WINDOW + STEP)
    assert len(track._turns) <= 500
