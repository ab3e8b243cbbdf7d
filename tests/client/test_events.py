"""The types of a session's events, with the real service and with a type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

import streamer
from streamer.client import connect, events, transcribe
from tests.project import ROOT
from tests.samples import TWO_SEGMENTS_S, pcm

if TYPE_CHECKING:
    from streamer.bridge.service import Service

KINDS = {get_args(get_type_hints(kind)["type"])[0]: kind for kind in get_args(events.Event)}

# What a program may do and what it may not. Each marked line must be an error.
PROGRAM = """
from streamer.client import Event, Session, SessionError, Transcript, connect, transcribe
from streamer.client.events import Final, Word


def told(event: Event) -> str:
    if event["type"] == "final":
        words: list[Word] = event.get("words", [])
        final: Final = event
        return final["text"] + str(words[0]["start_ms"])
    if event["type"] == "partial":
        return event["text"][: event["stable"]]
    return event["text"]  # wrong


def plain() -> None:
    with connect("127.0.0.1:8080", {"step_ms": 160}) as session:
        session.send(b"")
        session.send("sound")  # wrong
        for event in session:
            told(event)
    transcript: Transcript = transcribe("talk.wav").result()
    transcript.render("srt")
    text: str = transcribe("talk.wav")  # wrong


async def asynchronous() -> None:
    async with connect() as session:
        await session.send(b"")
        opened: Session = session
        async for event in opened:
            told(event)
    async for event in transcribe([b""]):
        told(event)
    transcript: Transcript = await transcribe("talk.wav", channels="both")  # wrong
    try:
        pass
    except SessionError as error:
        code: str = error.code
"""


async def test_each_event_of_the_service_has_its_type(service: Service) -> None:
    """Every event has the fields of its type, and all those that need no option."""
    wishes = {"alternatives": 2, "written": True, "partial_words": True, "endpoint": {"after_text_ms": 400}}
    told: list[Any] = [
        event async for event in transcribe([pcm("talk.flac", TWO_SEGMENTS_S)], service.url, options=wishes)
    ]
    async with connect(service.url) as session:
        await session.send(pcm("airplane.mp3"))
        await session.flush()
        await session.stop()
        await session.stop()
        told += [event async for event in session]
    assert {event["type"] for event in told} >= {"ready", "partial", "final", "speech", "flushed", "done"}
    for event in told:
        kind = KINDS[event["type"]]
        assert kind.__required_keys__ <= event.keys() <= kind.__annotations__.keys(), event
    words = [word for event in told if event["type"] == "final" for word in event["words"]]
    assert all(events.Word.__required_keys__ <= word.keys() <= events.Word.__annotations__.keys() for word in words)


def test_a_type_checker_sees_them(tmp_path: Path) -> None:
    """A correct program passes the strict type checker, and each mistake in it is found."""
    assert (Path(streamer.__file__).parent / "py.typed").exists()
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True, timeout=110, check=False
    )
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    complaints = [line for line in done.stdout.splitlines() if line.startswith("program.py") and "error" in line]
    found = {int(line.split(":")[1]) for line in complaints}
    assert found == wrong, done.stdout


@pytest.mark.parametrize("kind", KINDS.values())
def test_each_has_a_number(kind: Any) -> None:
    """Every event has a number."""
    assert {"type", "n"} <= kind.__required_keys__
