"""What a reader answers."""

from __future__ import annotations

import json

import pytest

from streamer.engine.reader.reading import Difference, Reading, ReadingOptions, TimedWord, Token

READING = Reading(" Caf\u00e9.", (Token(" Caf\u00e9", -0.25), Token(".", 0.0)), -0.5, complete=False, width=288)
TIMED = Reading("A", (Token(" A", -1.0),), -1.0, language="de", words=(TimedWord("A", 20, 400, 0.5),))
COMPARED = Reading("A.", (Token(" A.", -1.0),), -1.0, differences=(Difference(1, 2, ("b", "c"), -1.0, 2.5),))


@pytest.mark.parametrize("reading", [READING, COMPARED, TIMED, Reading()])
def test_a_reading_stays_what_it_is(reading: Reading) -> None:
    """The answer of the model has all of a reading."""
    assert Reading.from_json(reading.as_json()) == reading
    assert Reading.from_json(reading.as_json().encode()) == reading


def test_a_later_reader_may_say_more() -> None:
    """Fields that are not known are left out."""
    answer = json.loads(READING.as_json())
    answer["tokens"][0]["start_ms"] = 40
    assert Reading.from_json(json.dumps(answer | {"speaker": "A"})) == READING


@pytest.mark.parametrize(
    "answer",
    [
        *("", "no JSON", "null", "7", "[]", "{}", '{"text":"a"}'),
        '{"text":"a","tokens":[7],"log_probability":0,"complete":true}',
        '{"text":"a","tokens":[{"text":"a"}],"log_probability":0,"complete":true}',
        '{"text":"a","tokens":[],"log_probability":"sure","complete":true}',
        '{"text":"a","tokens":[],"log_probability":NaN,"complete":true}',
        '{"text":"a","tokens":[{"text":"a","log_probability":0.1}],"log_probability":0,"complete":true}',
        '{"text":"a","tokens":[{"text":"a","log_probability":-Infinity}],"log_probability":0,"complete":true}',
        '{"text":"a","tokens":[],"log_probability":0,"complete":true,"differences":[{"start":0}]}',
        COMPARED.as_json().replace("2.5", "NaN"),
        TIMED.as_json().replace("400", "10"),
        TIMED.as_json().replace("0.5", "1.5"),
    ],
)
def test_what_is_no_reading(answer: str) -> None:
    """Another answer is one kind of error, so it leaves the segment to the second pass and ends no stream."""
    with pytest.raises(
        ValueError, match=r"answer of the reader|Expecting value|not the logarithm|no difference of|no word with"
    ):
        Reading.from_json(answer)


def test_options_stay_what_they_are() -> None:
    """The input of the model has all of them, and what is left out has its default."""
    options = ReadingOptions("de", translate=True, prompt="Müller", times=True)
    assert ReadingOptions.from_json(options.as_json()) == options
    assert ReadingOptions.from_json("{}") == ReadingOptions()


@pytest.mark.parametrize("content", ["", "7", "[]", '{"speed":2}', '{"language":7}', '{"translate":"yes"}'])
def test_what_are_no_options(content: str) -> None:
    """Anything else is one kind of error."""
    with pytest.raises(ValueError, match=r"no options of a reader|Expecting value"):
        ReadingOptions.from_json(content)
