"""Azure's Speech SDK, for Python and for JavaScript, with only the address changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.testing.exact_service import ExactService
from tests.clients.conftest import KEY
from tests.clients.running import HALF, run

PROGRAM = "azure_program.py"
SENTENCES = ["Hello world", "Goodbye"]
TICKS = 10_000_000  # in a second


def texts(results: list[dict[str, Any]]) -> list[str]:
    """Return the texts of results that have one."""
    return [result["text"] for result in results if result["text"]]


def test_continuous(exact: ExactService, talk: Path) -> None:
    """Each phrase comes once, after text that may change, at its time; then the SDK says that the stream is over."""
    told = run(PROGRAM, exact, talk, "continuous")
    assert texts(told["results"]) == SENTENCES
    assert {result["reason"] for result in told["results"]} == {"RecognizedSpeech"}
    assert len(told["partials"]) > 1
    assert told["speech"] == ["start", "end"]
    assert [reason for reason, *_ in told["cancellations"]] == ["EndOfStream"]
    first, second = told["results"]
    assert first["offset"] + first["duration"] <= second["offset"] + TICKS
    assert 0 < first["duration"] < 3 * TICKS


def test_a_killed_triton(exact: ExactService, talk: Path) -> None:
    """Each word comes once, and the client only waits."""
    told = run(PROGRAM, exact, talk, "continuous", when={HALF: exact.kill_recogniser})
    assert " ".join(texts(told["results"])).lower() == " ".join(SENTENCES).lower()
    assert [reason for reason, *_ in told["cancellations"]] == ["EndOfStream"]


def test_a_connection_that_is_cut(exact: ExactService, talk: Path) -> None:
    """The SDK connects again, and sends what no phrase has covered: each word comes once, at its time."""
    told = run(PROGRAM, exact, talk, "continuous", when={HALF: exact.cut})
    assert " ".join(texts(told["results"])).lower() == " ".join(SENTENCES).lower()
    assert [reason for reason, *_ in told["cancellations"]] == ["EndOfStream"]
    whole = run(PROGRAM, exact, talk, "continuous")
    assert abs(told["results"][-1]["offset"] - whole["results"][-1]["offset"]) < TICKS // 2


def test_another_rate(exact: ExactService, raw: Path) -> None:
    """A stream has any rate."""
    told = run(PROGRAM, exact, raw, "continuous", "any", "24000")
    assert " ".join(texts(told["results"])).lower() == "hello goodbye"


def test_once(exact: ExactService, talk: Path) -> None:
    """A phrase after another over one connection; words and times; silence; and two refusals with a sentence.

    The exact recogniser takes no hotwords, and says so: that is how the list of phrases shows here.
    """
    told = run(PROGRAM, exact, talk, "once")
    assert texts(told["phrases"]) == SENTENCES
    best = told["detailed"]["best"]
    assert (told["detailed"]["text"], best["Lexical"]) == ("Hello world", "hello world")
    assert [word["Word"] for word in best["Words"]] == ["hello", "world"]
    assert best["Words"][0]["Offset"] < best["Words"][1]["Offset"] < 3 * TICKS
    assert (told["silent"]["reason"], told["silent"]["no_match"]) == ("NoMatch", "InitialSilenceTimeout")
    for refused, why in ((told["listed"], "does not support hotwords"), (told["refused"][0], "400 Bad Request")):
        reason, code, sentence = refused["cancelled"]
        assert (refused["reason"], reason, code, why in sentence) == ("Canceled", "Error", "BadRequest", True)


def test_a_conversation(exact: ExactService, talk: Path) -> None:
    """Phrases have a speaker, who is not known here."""
    told = run(PROGRAM, exact, talk, "conversation")
    assert texts(told["results"]) == SENTENCES
    assert {result["speaker"] for result in told["results"] if result["text"]} == {"Unknown"}


@pytest.mark.parametrize("program", [PROGRAM, "azure_program.cjs"])
def test_keys(tmp_path: Path, talk: Path, program: str) -> None:
    """A wrong key is a cancellation; the right one is heard."""
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY.line}\n")
    way = ("key",) if program == PROGRAM else ()
    with ExactService(slots=2, policy=PortPolicy(AccessRules(KeyFile(keys)))) as service:
        told = [run(program, service, talk, *way, key) for key in ("wrong", KEY.secret)]
    refused, heard = [each[0] if program == PROGRAM else each["refused"] for each in told]
    assert (refused["reason"], heard["text"]) == ("Canceled", "Hello world")


def test_javascript(exact: ExactService, talk: Path) -> None:
    """The same in JavaScript."""
    told = run("azure_program.cjs", exact, talk)
    assert texts(told["continuous"]["results"]) == SENTENCES
    assert (len(told["continuous"]["partials"]) > 1, told["continuous"]["cancellations"]) == (True, ["EndOfStream"])
    detailed = told["detailed"]
    assert (detailed["text"], [word["Word"] for word in detailed["best"]["Words"]]) == (
        "Hello world",
        ["hello", "world"],
    )
