"""Events as JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from streamer.base.events import Alternative, Final, Heard, Partial, Word, as_json
from tests.project import ROOT


def test_an_event_is_one_json_object_with_its_type() -> None:
    """The type comes with the fields, words as objects, text as it is written."""
    final = Final(2, "naïve", 10, 20, 30, 0.5, (Word("naïve", 10, 20, 0.5),))
    assert json.loads(as_json(final)) == {
        "type": "final",
        "segment": 2,
        "text": "naïve",
        "start_ms": 10,
        "end_ms": 20,
        "audio_ms": 30,
        "confidence": 0.5,
        "words": [{"word": "naïve", "start_ms": 10, "end_ms": 20, "confidence": 0.5}],
    }
    assert "naïve" in as_json(final)


def test_missing_words_are_left_out() -> None:
    """A final without words has no such key."""
    assert "words" not in json.loads(as_json(Final(0, "a", 0, 1, 2, 1.0)))
    assert as_json(Heard(16, 1)) == '{"type":"heard","sample":16,"audio_ms":1}'


def test_what_is_inside_is_written_without_its_gaps() -> None:
    """Alternatives and words are lists of objects; one without a confidence has no such key."""
    final = Final(0, "21", 0, 9, 9, 0.5, None, "twenty one", (Alternative("21", 0.5), Alternative("20", 0.25)))
    content = json.loads(as_json(final))
    assert content["spoken"] == "twenty one"
    assert content["alternatives"] == [{"text": "21", "confidence": 0.5}, {"text": "20", "confidence": 0.25}]
    assert "words" not in content
    partial = json.loads(as_json(Partial(0, "a", 1, 0, 9, (Word("a", 0, 9),))))
    assert partial["words"] == [{"word": "a", "start_ms": 0, "end_ms": 9}]


LAUGHTER = '''@dataclass(frozen=True)
class Laughter:
    """Somebody laughed."""

    type: ClassVar[str] = "laughter"
    at_ms: Time
    channel: Added[int | None] = None  # with `multichannel`


@dataclass(frozen=True)
class Flushed:'''
# The model laughs at 100 ms, loses its sequence after a cut at 160 ms, and laughs again.
SESSION = """
from streamer.base.events import Cut, Heard, Laughter, as_json
from tests.project import ROOT
from streamer.bridge.session.session import Session
from streamer.wire.events import parse

session = Session("7", "secret", ["default"], 0.0)
session.receive_text('{"type":"start","channels":2,"multichannel":true}', 0.0)
events = [Heard(0)]
for now in (1.0, 2.0, 3.0, 40.0, 41.0):
    for stream, request in session.requests(now):
        if now == 3.0:
            session.fail(stream, "unavailable", "it broke", now, lost=True)
        else:
            session.answer(stream, [parse(as_json(event)) for event in events], now)
    if now == 1.0:
        session.receive_audio(bytes(2 * 20_480), now)
        events = [Laughter(100), Cut(2560), Heard(10_240)]
    elif now == 2.0:
        session.receive_audio(bytes(2 * 20_480), now)
        events = [Heard(0)]
    elif now == 40.0:
        events = [Laughter(100), Heard(10_240)]
print(*[message.text for message in session.take_messages() if "laughter" in message.text], sep="\\n")
"""


def test_an_event_is_declared_once(tmp_path: Path) -> None:
    """An event that is only described here is sent to clients, with the time of the session, and has its types."""
    shutil.copytree(ROOT / "streamer", tmp_path / "streamer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "scripts" / "docs", tmp_path / "scripts" / "docs")
    file = tmp_path / "streamer" / "base" / "events.py"
    text = file.read_text(encoding="utf-8").replace("@dataclass(frozen=True)\nclass Flushed:", LAUGHTER)
    file.write_text(re.sub(r"^((StreamEvent|StreamResult) = )", r"\1Laughter | ", text, flags=re.M), encoding="utf-8")

    def run(*arguments: str) -> str:
        command, surroundings = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=tmp_path, env=surroundings
        ).stdout

    told = [json.loads(line) for line in run("-c", SESSION).splitlines()]
    assert [(each["type"], each["at_ms"], each["channel"]) for each in told] == [
        ("laughter", 100, 0),
        ("laughter", 100, 1),
        ("laughter", 260, 0),
        ("laughter", 260, 1),
    ]
    run("scripts/docs/event_types.py")
    assert "class Laughter(" in (tmp_path / "streamer/client/events.py").read_text(encoding="utf-8")
    assert "@typedef {object} Laughter" in (tmp_path / "streamer/web/events.js").read_text(encoding="utf-8")
