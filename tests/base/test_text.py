"""Singular and plural, words of all scripts, text that is safe to print, and suggestions for unknown names."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from streamer.base.text import (
    QUOTED,
    as_sentence,
    columns,
    counted,
    did_you_mean,
    did_you_mean_one_of,
    either,
    joined,
    json_text,
    noun,
    part_of,
    printable,
    printable_lines,
    separator,
    words_of,
)


@pytest.mark.parametrize(("number", "words"), [(0, "0 sessions"), (1, "1 session"), (2, "2 sessions")])
def test_counts(number: int, words: str) -> None:
    """Only one thing is a singular."""
    assert counted(number, "session") == words
    assert f"{number} {noun(number, 'session')}" == words


def test_parts() -> None:
    """How many of all things: the word follows the number of all."""
    assert (part_of(1, 2, "word"), part_of(0, 1, "word")) == ("1 of 2 words", "0 of 1 word")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't stop, 'tis f(x) (now)", ["don't", "stop,", "'tis", "f(x)", "(now)"]),
        ("¿Qué? «No» — yes", ["¿Qué?", "«No»", "—", "yes"]),
        ("你好，世界。", ["你", "好，", "世", "界。"]),
        ("他说“你好”。", ["他", "说", "“你", "好”。"]),
        ("「はい」と言った", ["「は", "い」", "と", "言", "っ", "た"]),
        ("我用 Python 写的", ["我", "用", "Python", "写", "的"]),
        ("2024年5月", ["2024", "年", "5", "月"]),
        ("か\u3099ん", ["か\u3099", "ん"]),
        ("", []),
        (" \n。 ", ["。"]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    """Marks belong to a word, and a character of a script without spaces is one."""
    assert words_of(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "one two, (three) 'tis",
        "你好，世界。",
        "他说“你好”。「はい」",
        "我用 Python 写的",
        "2024年5月",
        "안녕 하세요",
        "a\n\nb",
        "好\nb",
    ],
)
def test_joining_undoes_it(text: str) -> None:
    """The words of a text are joined to the same text. A line break is a word of its own."""
    parts = [part for line in text.split("\n") for part in [*words_of(line), "\n"]][:-1]
    assert joined(parts) == text


def test_texts_are_joined_like_words() -> None:
    """The outermost letters decide, not the marks; nothing stands beside an empty text."""
    assert joined(["今日は。", "「はい」", "", "OK.", "3", "本"]) == "今日は。「はい」 OK. 3本"
    assert separator("…", "あ") == " "
    assert separator("", "a") == separator("a", "") == ""


def test_columns() -> None:
    """A character of a script without spaces counts twice."""
    assert columns("ab c") == 4
    assert columns("你，a") == 5


NAMES = ("port", "mic", "format", "tls-cert", "tls-key", "triton-metadata")


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("prot", "port"),
        ("tls_key", "tls-key"),
        ("triton-meta", "triton-metadata"),
        ("fromat", "format"),
        ("mik", "mic"),
    ],
)
def test_a_slip_is_understood(name: str, likely: str) -> None:
    """Swapped letters and incomplete names are understood."""
    assert did_you_mean(name, NAMES) == f"; did you mean {likely}?"
    assert did_you_mean(name, NAMES, QUOTED) == f"; did you mean '{likely}'?"


@pytest.mark.parametrize("name", ["tls", "zebra", ""])
def test_nothing_is_guessed(name: str) -> None:
    """Nothing is suggested if two names are as likely, or none is."""
    assert did_you_mean(name, NAMES) == ""


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("zipformer-en", "; did you mean sherpa-zipformer-en-2023 or sherpa-zipformer-small-en?"),
        ("ZIPFORMER-de", "; did you mean sherpa-zipformer-de?"),
        ("zipformer", "; did you mean sherpa-zipformer-en-2023, sherpa-zipformer-small-en or sherpa-zipformer-de?"),
        ("sherpa-zipfomer-de", "; did you mean sherpa-zipformer-de?"),
        ("conformer", ""),
    ],
)
def test_parts_of_a_long_name(name: str, likely: str) -> None:
    """All names with these parts are offered, up to three; without one, a slip is understood as usual."""
    known = ["sherpa-zipformer-en-2023", "sherpa-zipformer-small-en", "sherpa-zipformer-de", "sherpa-zipformer-fr"]
    assert did_you_mean_one_of(name, known) == likely


@pytest.mark.parametrize(
    ("choices", "words"),
    [((), ""), ([8000], "8000"), (("a", "b"), "a or b"), (("keep", "mask", "remove"), "keep, mask or remove")],
)
def test_choices_in_a_sentence(choices: Sequence[object], words: str) -> None:
    """Only the last choice follows an "or"."""
    assert either(choices) == words


@pytest.mark.parametrize("whole", ["it is wrong.", "it is wrong; did you mean right?"])
def test_a_sentence_ends_once(whole: str) -> None:
    """A full stop is added only to an error that has none and is no question."""
    assert as_sentence(whole) == whole
    assert as_sentence(ValueError("it is wrong")) == "it is wrong."


# The codes of a terminal that writes the clipboard, in 7 and in 8 bits, line ends of all kinds, and marks of direction.
HOSTILE = "a\x1b]52;c;cm0=\x07b\x9dc\x9cd\r\ne\tf\u2028g\u202ehi\u2069j\ufeffk\u00adl\U000e0041m\x7f"


def test_text_cannot_steer_a_terminal() -> None:
    """Control characters become spaces, and invisible ones are dropped; of several lines, breaks and tabs stay."""
    assert printable(HOSTILE) == "a ]52;c;cm0= b c d  e f ghijklm "
    assert printable_lines(HOSTILE) == "a ]52;c;cm0= b c d \ne\tf ghijklm "


@pytest.mark.parametrize("text", ["plain 字 é", "\u0645\u06cc\u200c\u062e", "\u0915\u094d\u200d\u0937", "👩\u200d💻"])
def test_text_of_people_stays(text: str) -> None:
    """Letters of every script stay as they are, with the joiners that some need."""
    assert printable(text) == printable_lines(text) == text
    assert json_text(text) == f'"{text}"'


def test_json_is_escaped() -> None:
    """JSON has none of these characters either, and means the same."""
    content = {HOSTILE: [HOSTILE, 1, None]}
    for written in (json_text(content), json_text(content, indent=1), json_text(content, separators=(",", ":"))):
        assert json.loads(written) == content
        assert printable_lines(written) == written
    assert json_text({"a": {1}}, default=sorted) == '{"a": [1]}'


def test_json_of_half_a_character() -> None:
    """JSON may name what no encoding of Unicode has. It is escaped, so that the text can be sent."""
    assert json_text("a\ud800").encode() == rb'"a\ud800"'
