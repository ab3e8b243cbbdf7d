"""The options of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.base.limits import MOST_HOTWORDS
from streamer.engine.endpointing import EndpointRule
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import BadOptions, StreamOptions

STEPS = (160, 320, 640)
SEARCHES = ("lexicon", "greedy")


def read(given: dict[str, Any]) -> StreamOptions:
    return StreamOptions.from_dict(given, STEPS, SEARCHES)


def test_defaults() -> None:
    """No options mean 320 ms steps, partials, words and speech events, the lexicon, and nothing else."""
    options = read({})
    assert options == StreamOptions()
    assert (options.step_ms, options.partials, options.words, options.speech) == (320, True, True, True)
    assert (options.search, options.alternatives, options.written, options.hotwords) == ("lexicon", 0, False, ())
    assert options.endpoint == EndpointRule()


def test_an_endpoint_is_what_is_given_and_the_default_else() -> None:
    """Missing limits of an endpoint have their defaults; `off` leaves only the maximum length."""
    rule = EndpointRule()
    found = read({"endpoint": {"after_text_ms": 500, "longest_ms": 8000}}).endpoint
    assert (found.after_text_ms, found.without_text_ms, found.longest_ms) == (500, rule.without_text_ms, 8000)
    assert found.silence
    off = read({"endpoint": "off"}).endpoint
    assert not off.silence
    assert off.longest_ms == rule.longest_ms
    assert read({"endpoint": {"silence": False}}).endpoint == off


def test_hotwords_are_texts_or_texts_with_a_weight() -> None:
    """A hotword without a weight has weight 1."""
    found = read({"hotwords": ["anna karenina", {"text": "vronsky", "weight": 2}]}).hotwords
    assert found == (Hotword("anna karenina", 1.0), Hotword("vronsky", 2.0))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"colour": 1},
            "unknown option 'colour'; known are step_ms, search, language, translate, prompt, hotwords, endpoint",
        ),
        ({"written": 1}, "'written' must be a JSON true or false, not 1"),
        ({"partials": 1}, 'partials must be true, false or "reader", not 1'),
        ({"step_ms": True}, "'step_ms' must be a JSON integer, not true"),
        ({"step_ms": "320"}, "'step_ms' must be a JSON integer"),
        ({"step_ms": 100}, "step_ms must be one of 160, 320, 640, not 100"),
        ({"search": "best"}, "search must be one of lexicon, greedy, not best"),
        ({"search": None}, "'search' must be a JSON string, not null"),
        ({"language": "x" * 36}, 'language must be "auto" or the name of a language such as "de" or "de-DE", not xxx'),
        ({"stability": "rock"}, "stability must be low, medium or high, not rock"),
        ({"alternatives": 11}, "alternatives must be a whole number from 0 to 10, not 11"),
        ({"settle_ms": 20}, "settle_ms must be 0 or a whole number from 500 to 10000, not 20"),
        ({"endpoint": "on"}, "'endpoint' must be \"off\" or a JSON object"),
        ({"endpoint": {"silence": 1}}, "'silence' of the endpoint must be a JSON true or false"),
        ({"endpoint": {"after_text_ms": 1.5}}, "'after_text_ms' of the endpoint must be a JSON integer"),
        (
            {"endpoint": {"after_text_ms": 100}},
            "after_text_ms of the endpoint must be a whole number from 400 to 10000, not 100",
        ),
        (
            {"endpoint": {"patience": 1}},
            "the endpoint has no option 'patience'; known are silence, after_text_ms, without_text_ms,",
        ),
        ({"hotwords": "anna"}, "'hotwords' must be a JSON list"),
        ({"hotwords": ["a"] * 201}, "at most 200 hotwords, not 201"),
        ({"hotwords": [1]}, "a hotword must be a string or"),
        ({"hotwords": [{"text": "a", "boost": 1}]}, "a hotword must be a string or"),
        ({"hotwords": [" "]}, "the text of a hotword must be a phrase of 1 to 6 words"),
        ({"hotwords": ["a b c d e f g"]}, "the text of a hotword must be a phrase of 1 to 6 words"),
        ({"hotwords": ["?!"]}, "with letters or digits"),
        ({"hotwords": ["a" * 61]}, "at most 60 characters"),
        ({"hotwords": [{"text": "a", "weight": 5.1}]}, "the weight of a hotword must be a number from 0 to 5, not 5.1"),
        ({"hotwords": [{"text": "a", "weight": True}]}, "the weight of a hotword must be a JSON number"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], complaint: str) -> None:
    """An invalid option is refused, and the message says what would be right."""
    with pytest.raises(BadOptions, match=complaint):
        read(given)


def test_a_hotword_with_figures_is_listened_for_as_it_is_said() -> None:
    """A hotword with figures is expected in each likely way to say it, up to the most hotwords."""
    found = read({"hotwords": [{"text": "K8s", "weight": 2}, "talk"]}).hotwords
    assert found == (Hotword("k eight s", 2.0, "K8s"), Hotword("k eights", 2.0, "K8s"), Hotword("talk"))
    assert len(read({"hotwords": [f"K{number}s" for number in range(MOST_HOTWORDS)]}).hotwords) == MOST_HOTWORDS
    with pytest.raises(BadOptions, match="'A1B2C3D4' has more than 6 words when it is said"):
        read({"hotwords": ["A1B2C3D4"]})


# What a bridge told a model before there was `profanity`: every option, also those with their defaults.
BEFORE: dict[str, Any] = {
    "partials": True,
    "words": True,
    "partial_words": True,
    "speech": True,
    "turns": False,
    "step_ms": 160,
    "search": "lexicon",
    "language": "auto",
    "alternatives": 2,
    "written": True,
    "dictation": False,
    "stability": "low",
    "settle_ms": 0,
    "second_pass": True,
    "endpoint": {
        "silence": True,
        "after_text_ms": 1000,
        "without_text_ms": 2400,
        "longest_ms": 20000,
        "turn": False,
        "eagerness": "medium",
        "longest_pause_ms": 2000,
    },
    "hotwords": [{"text": "anna", "weight": 1.0}],
    "caller": "c",
    "speaking": True,
    "told": False,
    "begins": False,
    "context": [{"word": "so", "pause_ms": 40}],
}


def test_an_older_bridge_says_all_that_it_knows() -> None:
    """The options of before mean what they meant, and a later one has its default."""
    changed = ("partial_words", "step_ms", "alternatives", "written", "second_pass", "hotwords")
    cut = ("caller", "speaking", "told", "begins", "context")
    found = read(BEFORE)
    assert found == read({name: BEFORE[name] for name in (*changed, *cut)})
    assert found.profanity == "keep"


def test_a_model_without_a_choice() -> None:
    """A model with a single step takes it, and one without the usual search uses its own."""
    found = StreamOptions.from_dict({"step_ms": 320, "search": "lexicon"}, [640], ["greedy", "beam"])
    assert (found.step_ms, found.search) == (640, "greedy")
    with pytest.raises(BadOptions, match="search must be greedy, not best; this model has no other"):
        StreamOptions.from_dict({"search": "best"}, [640], ["greedy"])


def test_a_model_with_other_steps() -> None:
    """A model whose frames fill no usual step takes the nearest one of its own; others that it lacks are refused."""
    steps = (144, 336, 624)
    for asked, own in ((160, 144), (320, 336), (640, 624), (336, 336)):
        assert StreamOptions.from_dict({"step_ms": asked}, steps, ["lexicon"]).step_ms == own
    assert StreamOptions.from_dict({}, steps, ["lexicon"]).step_ms == 336
    with pytest.raises(BadOptions, match="step_ms must be one of 144, 336, 624, not 200"):
        StreamOptions.from_dict({"step_ms": 200}, steps, ["lexicon"])
    with pytest.raises(BadOptions, match="step_ms must be one of 320, 640, not 160"):
        StreamOptions.from_dict({"step_ms": 160}, (320, 640), ["lexicon"])
