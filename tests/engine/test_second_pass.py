"""The second pass: the words of a segment that has ended come from the whole of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.endpointing import EndpointRule
from streamer.engine.models.streaming_model import Emissions, ModelState
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Search
from streamer.engine.segment_audio import SegmentAudio, TimeScale
from streamer.engine.stream_events import Final, Partial, StreamEvent
from streamer.engine.stream_options import BadOptions, StreamOptions
from streamer.engine.text.calibration import Calibration, StepCalibration
from streamer.limits import WHOLE_MS
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import hear, lexicon_search, text

TWICE = StreamOptions(second_pass=True)
G, H = UNITS.index("g"), UNITS.index("h")


class HastyModel(ExactModel):
    """Hears each g as an h, and each h as a g, until a segment is complete."""

    def __init__(self) -> None:
        self.wholes: list[int] = []  # the samples of each segment that it has read as a whole

    def step(self, state: ModelState, slots: list[int], samples: NDArray[np.int16]) -> Emissions:  # type: ignore[override]
        emissions = super().step(state, slots, samples)
        emissions["characters"][..., [G, H]] = emissions["characters"][..., [H, G]]
        return emissions

    def whole(self, samples: NDArray[np.int16]) -> Emissions:
        self.wholes.append(len(samples))
        return super().whole(samples)


class OnePassModel(HastyModel):
    """Cannot read whole segments."""

    whole = None  # type: ignore[assignment]


def make(model: ExactModel, search: Search | None = None, **options: object) -> Recogniser:
    searches: dict[str, Search] = {"lexicon": search or GreedySearch(UNITS, 4)}
    return Recogniser(model, searches, slots=4, **options)  # type: ignore[arg-type]


def partials(events: list[StreamEvent]) -> list[Partial]:
    return [event for event in events if isinstance(event, Partial)]


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def shown(events: list[StreamEvent]) -> list[str]:
    return list(dict.fromkeys(event.text for event in partials(events)))


SPOKEN = [say("bag"), silence(1500), say("head cage"), silence(200)]


def test_finals_have_the_words_of_the_second_pass() -> None:
    """Without it they have those of the first one, which partials always have."""
    once, twice = (hear(make(HastyModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert text(once) == "bah gead cahe"
    assert text(twice) == "bag head cage"
    assert shown(once) == shown(twice)


def test_nothing_is_stable_before_a_segment_ends() -> None:
    """A partial must not promise what the second pass may change."""
    once, twice = (hear(make(HastyModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert any(event.stable for event in partials(once))
    assert partials(twice)
    assert not any(event.stable for event in partials(twice))


@pytest.mark.parametrize("wish", [{"settle_ms": 500}, {"stability": "high"}])
def test_it_goes_with_no_wish_for_stable_words(wish: dict[str, object]) -> None:
    """Both promises cannot be kept."""
    with pytest.raises(BadOptions, match="'second_pass' goes with neither"):
        StreamOptions.from_dict({"second_pass": True, **wish}, (320,), ["lexicon"])


def test_a_segment_without_words_is_not_read_again() -> None:
    """Silence costs nothing, and each segment with words is read once, as far as it was computed."""
    model = HastyModel()
    hear(make(model), [silence(3000), say("bag"), silence(9000)], TWICE)
    [samples] = model.wholes
    assert samples % ExactModel.frame_samples == 0
    assert samples < 16 * 6000


class DeafModel(ExactModel):
    """Hears nothing in whole segments."""

    def whole(self, samples: NDArray[np.int16]) -> Emissions:
        return super().whole(np.zeros_like(samples))


@pytest.mark.parametrize("alternatives", [0, 2])
def test_words_that_were_shown_have_a_final(alternatives: int) -> None:
    """If the second pass finds none, those of the first one stay."""
    options = StreamOptions(second_pass=True, alternatives=alternatives)
    events = hear(make(DeafModel()), SPOKEN, options)
    assert text(events) == "bag head cage"


def test_alternatives_are_those_of_the_second_pass() -> None:
    """The first alternative is the text of the final, although the first pass preferred another one."""
    search = lexicon_search("bag bah", 4)
    events = hear(
        make(HastyModel(), search), [say("bag"), silence(100)], StreamOptions(second_pass=True, alternatives=2)
    )
    [final] = finals(events)
    assert final.text == "bag"
    assert final.alternatives is not None
    assert final.alternatives[0].text == "bag"
    assert [event.text for event in partials(events)][-1] == "bah"


def test_the_second_pass_may_have_a_search_of_its_own() -> None:
    """Here one that knows other words than the first."""
    first, second = lexicon_search("bah", 4), lexicon_search("bag", 4)
    recogniser = make(HastyModel(), first, second_searches={"lexicon": second})
    once, twice = (hear(recogniser, [say("bag"), silence(100)], options) for options in (StreamOptions(), TWICE))
    assert (text(once), text(twice)) == ("bah", "bag")


def test_a_cut_without_a_pause_loses_no_word() -> None:
    """Where a segment has its greatest length, the words after the cut belong to the next one."""
    words = " ".join(["bag", "head", "cage", "gab"] * 8)
    options = StreamOptions(second_pass=True, endpoint=EndpointRule(silence=False, longest_ms=6000))
    events = hear(make(HastyModel()), [say(words)], options)
    assert text(events) == words
    assert len(finals(events)) > 1


def test_the_next_segment_begins_afresh() -> None:
    """Nothing of the second pass remains in the search: two segments are what each is alone."""
    together = hear(make(HastyModel()), [say("bag"), silence(1500), say("head"), silence(1500)], TWICE)
    alone = hear(make(HastyModel()), [say("head"), silence(1500)], TWICE)
    assert [final.text for final in finals(together)] == ["bag", finals(alone)[0].text]


def test_times_are_corrected_as_measured_for_whole_segments() -> None:
    """A whole segment brings its words out sooner than steps do, so it has corrections of its own."""
    fits = {"lexicon": {320: StepCalibration(start_ms=-40.0), WHOLE_MS: StepCalibration(start_ms=40.0)}}
    once, twice = (
        finals(hear(make(HastyModel(), calibration=Calibration(fits)), [silence(400), say("bag")], options))[0]
        for options in (StreamOptions(), TWICE)
    )
    assert twice.start_ms - once.start_ms == 80


def test_a_model_that_cannot_do_it_goes_without() -> None:
    """The stream is recognised as usual, with stable words."""
    once, asked = (hear(make(OnePassModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert asked == once
    assert any(event.stable for event in partials(asked))


def test_the_segment_has_all_steps_and_the_tail() -> None:
    """Its samples are those of the steps, with faint noise where a flush has filled up the last ones."""
    audio = SegmentAudio(TimeScale(16_000, 640), 2560)
    audio.append(np.arange(1, 3001, dtype=np.int16))
    steps = []
    while (step := audio.next_step(flushing=True)) is not None:
        steps.append(step)
        audio.advance()
    segment = audio.segment()
    assert len(segment) == audio.computed == sum(map(len, steps))
    assert segment[:3000].tolist() == np.concatenate(steps)[:3000].tolist() == list(range(1, 3001))
    assert 0 < np.abs(segment[3000:]).max() <= 4
