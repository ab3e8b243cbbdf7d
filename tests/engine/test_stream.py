"""Speech events of a stream, with a model that reports activity."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Cut, Final, Partial, Speech, StreamEvent
from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import MUSIC, NOTHING, HearingModel, hear, one, pieces, talk, text


def make(slots: int = 1) -> Recogniser:
    return Recogniser(HearingModel(), {"lexicon": GreedySearch(UNITS, slots)}, slots=slots)


def music(words: str) -> NDArray[np.int16]:
    """Return audio in which the model finds these words, but no speech."""
    return say(words) + np.int16(MUSIC)


def speech(events: list[StreamEvent]) -> list[tuple[str, int]]:
    return [(event.state, event.at_ms) for event in events if isinstance(event, Speech)]


def test_speech_starts_and_ends_without_waiting_for_words() -> None:
    """Speech starts where the audio becomes loud, and ends before the final, which waits for a longer silence."""
    spoken = say("abc")
    events = hear(make(), [silence(1200), spoken, silence(3000)])
    [(_, start), (_, end)] = speech(events)
    assert abs(start - 1200) <= 80
    assert abs(end - (1200 + len(spoken) // 16)) <= 160
    kinds = [event.state if isinstance(event, Speech) else type(event).__name__ for event in events]
    assert kinds.index("start") < kinds.index("Partial") < kinds.index("end") < kinds.index("Final")


def test_a_short_pause_ends_speech_and_no_segment() -> None:
    """A speaker who pauses for less than the silence of the endpoint starts twice within one final."""
    events = hear(make(), [say("abc"), silence(800), say("cab")])
    assert [state for state, _ in speech(events)] == ["start", "end", "start", "end"]
    assert [event.text for event in events if isinstance(event, Final)] == ["abc cab"]


def test_music_opens_no_utterance() -> None:
    """Words in audio that is not speech are not shown, do not become final, and cause no events of speech."""
    events = hear(make(), [music("abc"), silence(3000), music("abcde " * 12)])
    assert not [event for event in events if isinstance(event, (Partial, Final, Speech))]


def test_words_after_music_are_all_there() -> None:
    """A segment in which somebody speaks has all its words, from where the speech begins."""
    events = hear(make(), [music("d"), silence(3000), say("abc cab")])
    assert text(events) == "abc cab"


def test_the_end_of_the_audio_ends_speech() -> None:
    """Speech ends at a flush and at the end of the audio; after a flush it starts again."""
    recogniser = make()
    recogniser.open(1)
    first = one(recogniser, Chunk(1, say("abc"), flush=True))
    second = one(recogniser, Chunk(1, say("cab"), end=True))
    assert [state for state, _ in speech(first)] == ["start", "end"]
    assert [state for state, _ in speech(second)] == ["start", "end"]
    assert speech(first)[1][1] <= len(say("abc")) // 16
    assert (text(first), text(second)) == ("abc", "cab")


@pytest.mark.parametrize(("paused_ms", "steps"), [(0, 2), (600, 1)])
def test_a_flush_in_a_pause_computes_less(paused_ms: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause the model holds back no word, so a flush computes no further step."""
    computed, step = list[int](), HearingModel.step

    def noted(self: HearingModel, *given: Any) -> Emissions:
        computed.append(1)
        return step(self, *given)

    spoken = np.concatenate([say("abc cab"), silence(paused_ms)])
    audio = np.concatenate([silence(320 - len(spoken) // 16 % 320 + 100), spoken])  # 100 ms are left for the last step
    recogniser = make()
    recogniser.open(1)
    one(recogniser, Chunk(1, audio))
    monkeypatch.setattr(HearingModel, "step", noted)
    assert text(one(recogniser, Chunk(1, NOTHING, flush=True))) == "abc cab"
    assert len(computed) == steps


def test_the_noise_after_a_flush_is_no_silence() -> None:
    """A segment ends at the flush, and not where the noise that the model gets after it would have ended it."""
    audio = np.concatenate([say("abc"), silence(700)])
    recogniser = make()
    recogniser.open(1)
    events = one(recogniser, Chunk(1, audio, flush=True))
    assert [event.sample for event in events if isinstance(event, Cut)] == [len(audio)]
    assert text(events) == "abc"


def test_endless_speech_starts_once() -> None:
    """A cut at the maximum length does not end speech."""
    events = hear(make(), np.array_split(say("abcd efgh " * 30), 4))
    assert len([event for event in events if isinstance(event, Final)]) > 1
    assert [state for state, _ in speech(events)] == ["start", "end"]


@pytest.mark.parametrize("seed", range(8))
def test_every_word_is_in_one_final_in_any_chunking(seed: int) -> None:
    """With activity no word is lost, doubled or split either; starts and ends alternate and times only grow."""
    dice = random.Random(seed)
    words, audio = talk(seed, words=25)
    audio = audio[: 16_000 * 29]
    options = StreamOptions(step_ms=dice.choice([160, 320, 640]))
    rule = replace(options.endpoint, after_text_ms=dice.choice([400, 700, 1000]), without_text_ms=1500)
    options = replace(options, endpoint=rule)
    events = hear(make(), [audio], options)
    assert hear(make(), pieces(audio, dice), options) == events
    assert words.startswith(text(events)[:-6])  # the audio is cut off within a word
    told = speech(events)
    assert all(one != other for (one, _), (other, _) in itertools.pairwise(told))
    assert [at for _, at in told] == sorted(at for _, at in told)


def test_speech_events_can_be_left_out() -> None:
    """Without speech events all other events stay the same."""
    events = hear(make(), [say("abc"), silence(2000), NOTHING], StreamOptions(speech=False))
    assert not speech(events)
    assert text(events) == "abc"
