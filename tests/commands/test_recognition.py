"""The arguments about recognition."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from streamer.commands.arguments import Parser
from streamer.commands.evaluate import add_hearing_arguments
from streamer.commands.recognition import (
    add_form_arguments,
    add_recognition_arguments,
    options_with_second_pass,
    session_options,
)
from streamer.wire.native import encode, parse


def asked(*arguments: str) -> dict[str, Any]:
    """The session's options that these arguments give."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_recognition_arguments(parser)
    return session_options(parser.parse_args(arguments))


def test_nothing_is_asked_for() -> None:
    """Options that were not given are left to the service."""
    assert asked() == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--step-ms", "160", "--search", "greedy"], {"step_ms": 160, "search": "greedy"}),
        (["--alternatives", "3"], {"alternatives": 3}),
        (["--language", "pt_BR"], {"language": "pt_BR"}),
        (["--settle-ms", "0"], {"settle_ms": 0}),
        (["--stability", "medium"], {"stability": "medium"}),
        (["--second-pass", "on"], {"second_pass": True}),
        (["--second-pass", "off"], {"second_pass": False}),
        (["--second-pass", "reader"], {"second_pass": "reader"}),
        (["--endpoint", "off"], {"endpoint": "off"}),
        (["--endpoint", "800"], {"endpoint": {"after_text_ms": 800}}),
        (["--endpoint", "turn"], {"endpoint": {"turn": True}}),
        (
            ["--endpoint", "turn:high:1500"],
            {"endpoint": {"turn": True, "eagerness": "high", "longest_pause_ms": 1500}},
        ),
        (
            ["--endpoint", "800:2000:15000"],
            {"endpoint": {"after_text_ms": 800, "without_text_ms": 2000, "longest_ms": 15000}},
        ),
        (
            ["--hotword", "zoë", "--hotword", "new york"],
            {"hotwords": [{"text": "zoë", "weight": 1.0}, {"text": "new york", "weight": 1.0}]},
        ),
    ],
)
def test_what_is_asked_for(arguments: list[str], expected: dict[str, Any]) -> None:
    """Every argument becomes an option of the protocol."""
    found = asked(*arguments)
    assert found == expected
    assert parse(encode({"type": "start", **json.loads(json.dumps(found))}))


@pytest.mark.parametrize(
    ("arguments", "second_pass"),
    [
        ([], "reader"),
        (["--second-pass", "on"], True),
        (["--second-pass", "off"], False),
        (["--stability", "medium"], "reader"),
        (["--stability", "high"], None),
        (["--settle-ms", "500"], None),
        (["--settle-ms", "500", "--second-pass", "off"], False),
    ],
)
def test_commands_ask_for_a_second_pass(arguments: list[str], second_pass: bool | str | None) -> None:
    """Whoever wants stable words gets no second pass, and does not have to know why."""
    parser = argparse.ArgumentParser()
    add_recognition_arguments(parser)
    found = options_with_second_pass(parser.parse_args(arguments))
    assert found.get("second_pass") is second_pass
    assert parse(encode({"type": "start", **found}))


def in_form(*arguments: str) -> dict[str, Any]:
    """The options of a command that writes."""
    parser = Parser()
    add_form_arguments(parser.add_argument_group("form"))
    return session_options(parser.read(arguments))


def test_a_transcript_is_written_unless_the_spoken_words_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """--written is accepted as what is done anyway; both together are refused with a sentence."""
    assert in_form() == in_form("--written") == {"written": True}
    assert in_form("--spoken") == {"written": False}
    with pytest.raises(SystemExit):
        in_form("--spoken", "--written")
    assert "--written: not allowed with argument --spoken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alternatives", "11"], "from 0 to 10, not 11"),
        (["--alternatives", "many"], "must be a whole number, not 'many'"),
        (["--second-pass", "true"], "must be reader, on or off, not 'true'"),
        (["--settle-ms", "100"], "0 or a whole number from 500 to 10000"),
        (["--endpoint", "turn:soon"], "'eagerness' of 'endpoint' must be low, medium or high"),
        (["--endpoint", "turn:high:1500:2"], "must be 'turn', 'turn:high' or 'turn:high:1500'"),
        (["--endpoint", "300"], "'after_text_ms' of 'endpoint' must be a whole number from 400"),
        (["--endpoint", "800:2000:15000:1"], "must be 'off', 'turn', or milliseconds"),
        (["--endpoint", "-1"], "must be 'off', 'turn', or milliseconds"),
        (["--hotword", "a b c d e f g"], "1 to 6 words"),
        (["--hotword", "x"] * 201, "a session takes at most 200 hotwords, not 201"),
        (["--hotwords", "missing.txt"], "missing.txt cannot be read: No such file"),
    ],
)
def test_what_cannot_be(arguments: list[str], words: str) -> None:
    """A wrong value gives one sentence, the same as from the service."""
    with pytest.raises(argparse.ArgumentError) as caught:
        asked(*arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_hotwords_of_a_file(tmp_path: Path) -> None:
    """Each line has a phrase, optionally with a tab and a weight. Empty lines are ignored; --hotword adds more."""
    path = tmp_path / "names.txt"
    path.write_text("\ufeffkubernetes\r\nnew york\t2.5\n\n", encoding="utf-8")
    found = asked("--hotwords", str(path), "--hotword", "triton")["hotwords"]
    assert found == [
        {"text": "kubernetes", "weight": 1.0},
        {"text": "new york", "weight": 2.5},
        {"text": "triton", "weight": 1.0},
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"good\nbad\tmuch\n", "line 2: the weight must be a number, not 'much'"),
        (b"good\n\nbad\t9\n", "line 3: 'weight' of 'hotwords' must be a number from 0 to 5"),
        (b"?!\n", "line 1: 'text' of 'hotwords' must be a phrase of 1 to 6 words"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, content: bytes, words: str) -> None:
    """The message about a wrong file names the line."""
    path = tmp_path / "names.txt"
    path.write_bytes(content)
    with pytest.raises(argparse.ArgumentError) as caught:
        asked("--hotwords", str(path))
    assert words in str(caught.value)


def test_evaluate_has_them_too() -> None:
    """`evaluate` has the same arguments, and always sets the step."""
    parser = argparse.ArgumentParser()
    add_hearing_arguments(parser)
    options = parser.parse_args(["samples.tsv", "--stability", "medium"])
    assert session_options(options) == {"step_ms": 320, "stability": "medium"}
