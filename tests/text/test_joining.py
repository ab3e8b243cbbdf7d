"""Words become text, and a text its words again."""

from __future__ import annotations

import pytest

from streamer.text.joining import columns, joined, separator, words_of


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
