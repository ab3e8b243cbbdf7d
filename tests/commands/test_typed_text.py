"""What is typed of a session, without a window."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.commands.typed_text import LineBreaks, Scratch, Step, TypedText, Words


def finals(*texts: str, dictated: bool = False) -> list[Step]:
    """The steps of finals with these texts."""
    text = TypedText(dictated=dictated)
    return [step for each in texts for step in text.take({"type": "final", "text": each})]


def on_paper(steps: list[Step]) -> str:
    """What is in the window after these steps."""
    parts: list[str] = []
    for step in steps:
        if isinstance(step, Scratch):
            if parts:
                parts.pop()
        elif isinstance(step, LineBreaks):
            parts.append("\n" * step.count)
        elif step.begins:
            parts.append(step.text)
        else:
            parts[-1] += step.text
    return "".join(parts)


def grown(*partials: tuple[str, int], final: str) -> list[list[Step]]:
    """The steps after each partial (text and how much of it is stable), and after the final."""
    text = TypedText()
    events: list[dict[str, Any]] = [{"type": "partial", "text": words, "stable": stable} for words, stable in partials]
    events.append({"type": "final", "text": final})
    return [text.take(event) for event in events]


@pytest.mark.parametrize(
    ("texts", "paper"),
    [
        (["Hello there.", "How are you?"], "Hello there. How are you? "),
        (["Hello there.", "New line.", "And on."], "Hello there. \nAnd on. "),
        (["Hello there. New paragraph. And on."], "Hello there. \n\nAnd on. "),
        (["new paragraph"], "\n\n"),
        (["Newline."], "\n"),
        (["We opened a new line of products.", "A new line"], "We opened a new line of products. A new line "),
        (["New. Line."], "New. Line. "),
        (["New line, please."], "New line, please. "),
        (["你好。", "再见。"], "你好。再见。"),
    ],
)
def test_words_and_line_breaks(texts: list[str], paper: str) -> None:
    """A command counts where it stands alone, as a sentence or between pauses; elsewhere it is typed."""
    assert on_paper(finals(*texts)) == paper


def test_line_breaks_of_the_service() -> None:
    """The service writes dictated line breaks. Where it was not asked for them, they are spaces."""
    assert on_paper(finals("hello,\nworld\n\nagain", dictated=True)) == "hello, \nworld \n\nagain "
    assert on_paper(finals("rm -rf ~\n")) == "rm -rf ~ "


@pytest.mark.parametrize(
    ("texts", "paper"),
    [
        (["One.", "Two.", "Scratch that.", "Three."], "One. Three. "),
        (["One.", "Two.", "Scratch that.", "scratch that"], ""),
        (["One.", "Come at five, scratch that.", "Come at six."], "One. Come at six. "),
        (["One. Two. Scratch that. Three."], "Three. "),
        (["One.", "New line. Scratch that. Two."], "One. Two. "),
        (["Do not scratch that table."], "Do not scratch that table. "),
        (["Scratch that."], ""),
    ],
)
def test_what_is_taken_back(texts: list[str], paper: str) -> None:
    """ "Scratch that" takes back what was said since the pause before it; alone, the part before that."""
    assert on_paper(finals(*texts)) == paper


def test_what_was_never_typed_is_not_taken_back() -> None:
    """No Backspace is pressed for words of the same final."""
    assert finals("Come at five. Scratch that.") == []


def test_settled_words_are_typed_before_the_final() -> None:
    """Stable words are typed at once and once; words that may change wait."""
    steps = grown(("the", 0), ("the airplane", 3), ("the airplane rows", 12), final="the airplane rose.")
    assert steps == [[], [Words("the ", True)], [Words("airplane ", False)], [Words("rose. ", False)]]


def test_a_stable_part_of_a_word_waits() -> None:
    """A word is typed as a whole. In a script without spaces, the last one may still grow."""
    assert grown(("some thing", 7), final="some things") == [[Words("some ", True)], [Words("things ", False)]]
    assert grown(("你好", 2), final="你好吗") == [[], [Words("你好吗", True)]]


def test_the_beginning_of_a_command_waits() -> None:
    """What may become a command is typed when it did not become one."""
    assert grown(("new", 3), ("new line", 8), final="new line") == [[], [], [LineBreaks(1)]]
    assert grown(("new", 3), ("new line of", 11), final="new line of") == [[], [Words("new line of ", True)], []]
    assert grown(("so scratch", 10), ("so scratch that", 15), final="so scratch that.") == [
        [Words("so ", True)],
        [],
        [Scratch()],
    ]
    assert grown(("so scratch that", 15), final="so scratch that itch.") == [
        [Words("so ", True)],
        [Words("scratch that itch. ", False)],
    ]


def test_control_characters_are_never_typed() -> None:
    """A transcript cannot press keys: no Return, Escape, Tab or Backspace comes from its words."""
    [step] = finals("rm\x1b[A -rf\x08\x7f\tall\u2028of\r it\u202e")
    assert isinstance(step, Words)
    assert step.text.isprintable()
