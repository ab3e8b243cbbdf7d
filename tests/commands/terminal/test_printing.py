"""What reaches standard output, standard error and files when a service or a name is hostile: no control characters."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import sys
import traceback
from pathlib import Path

import pytest

from streamer.base.text import printable_lines
from streamer.base.transcript import FORMATS
from streamer.commands.terminal.printing import PrintableStream, make_output_printable, stream_for_codes
from tests.client.scripted_peer import READY, Script, peer, says
from tests.command_run import AWAY, Said, streamer, streamer_here
from tests.pseudo_terminal import Terminal

# It writes the clipboard, hides the line, and shows what follows in another order.
HOSTILE = "a\x1b]52;c;cm0gLXJm\x07\x9b2K\u202eb"
# The codes with which Streamer itself draws on a terminal: lines that change, and dim words.
OWN_CODES = re.compile(r"\x1b\[K|\x1b\[A|\x1b\[2m|\x1b\[0m|\r")


def hostile_words() -> list[str]:
    """The messages of a session whose words are hostile."""
    words = [{"word": f"{HOSTILE}\n\n9", "start_ms": 0, "end_ms": 400, "confidence": 0.5}]
    segment = {"segment": 0, "start_ms": 0, "text": HOSTILE}
    final = segment | {"end_ms": 400, "confidence": 0.5, "words": words, "reason": "end"}
    return [
        READY,
        json.dumps({"type": "partial", "n": 2, "stable": 3, "audio_ms": 300, **segment}),
        json.dumps({"type": "error", "n": 3, "fatal": False, "code": HOSTILE, "message": f"{HOSTILE}\nstreamer: b."}),
        json.dumps({"type": "final", "n": 4, "audio_ms": 400, **final}),
        json.dumps({"type": "done", "n": 5, "audio_ms": 400}),
    ]


def hostile_ends() -> dict[str, Script]:
    """The ways in which a service puts its own words into an error."""
    fatal = {"type": "error", "n": 2, "code": f"failed{HOSTILE}", "message": f"{HOSTILE}\nstreamer: all is well."}
    starting = {"type": "starting", "n": 1, "model": HOSTILE, "estimated_ms": 1}
    return {
        "error": says(READY, json.dumps(fatal)),
        "no protocol": says(HOSTILE),
        "close": says(READY, code=4001, reason=HOSTILE),
        "full": says(code=1013, reason=HOSTILE),
        "loading": says(json.dumps(starting), json.dumps(fatal)),
    }


@pytest.mark.parametrize("format", FORMATS)
async def test_hostile_words_in_every_format(said: Said, tmp_path: Path, format: str) -> None:
    """Neither standard output nor a file has control characters, and JSON means what the service said."""
    async with peer(says(*hostile_words())) as address:
        command = said.phrase, "--server", address, "--format", format
        done = await asyncio.to_thread(streamer, *command)
        saved = await asyncio.to_thread(streamer, *command, "-o", str(tmp_path / "saved"))
    assert (done.returncode, saved.returncode, saved.stdout) == (0, 0, "")
    written = (tmp_path / "saved").read_text("utf-8")
    assert written == done.stdout
    assert "cm0gLXJm" in written
    for text in (written, done.stderr, saved.stderr):
        assert printable_lines(text) == text
    assert all(line.startswith("streamer: ") for line in done.stderr.splitlines())
    assert len(done.stderr.splitlines()) == 1  # the service cannot add a line of its own
    if format == "json":
        assert json.loads(written)["segments"][0]["text"] == HOSTILE
    elif format == "jsonl":
        assert [json.loads(line)["text"] for line in written.splitlines() if '"final"' in line] == [HOSTILE]
    elif format in ("srt", "vtt"):
        assert written.count("-->") == 1
        assert "\n\n9" not in written


async def test_hostile_words_on_a_terminal(said: Said) -> None:
    """A terminal gets no codes but those that draw the changing line."""
    async with peer(says(*hostile_words())) as address:

        def run() -> str:
            terminal = Terminal(said.phrase, "--server", address, width=200)
            assert terminal.status() == 0
            return terminal.shown

        shown = await asyncio.to_thread(run)
    own = OWN_CODES.sub("", shown)
    assert "cm0gLXJm" in own
    assert printable_lines(own) == own


@pytest.mark.parametrize("way", hostile_ends())
async def test_hostile_errors(said: Said, way: str) -> None:
    """Whatever a service says when it refuses or ends a session becomes a line of its own."""
    async with peer(hostile_ends()[way]) as address:
        done = await asyncio.to_thread(streamer, said.phrase, "--server", address)
    assert done.returncode == 1
    assert done.stderr
    assert printable_lines(done.stderr) == done.stderr
    assert all(line.startswith("streamer: ") for line in done.stderr.splitlines())
    assert "\nstreamer: all is well" not in done.stderr


def test_hostile_names(said: Said, tmp_path: Path) -> None:
    """Names of files and words of the command line are printed without control characters, too."""
    name = tmp_path / f"{HOSTILE.replace('/', '')}.flac"
    shutil.copy(said.phrase, name)
    broken = tmp_path / "\x1b[2Jbroken.wav"
    broken.write_bytes(b"no audio at all")
    outputs = [
        streamer_here(str(name), str(broken), str(tmp_path / "\x1b]0;away\x07"), "--server", AWAY),
        streamer_here("--no-such\x1b]0;option\x07"),
        streamer_here("models", "default", "\x1b]0;model\x07"),
        streamer_here("serve", "--config", str(tmp_path / "\x9b2J.toml")),
        streamer_here("roll", "--control", str(tmp_path / "\x9b2J")),
    ]
    for done in outputs:
        assert done.returncode
        assert done.stderr
        assert printable_lines(done.stderr) == done.stderr


def test_a_traceback_is_printed_the_same_way() -> None:
    """Even an error that nobody expected cannot bring the words of strangers to the terminal."""
    inner = io.StringIO()
    stream = PrintableStream(inner)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        traceback.print_exc(file=stream)
    assert "cm0gLXJm" in inner.getvalue()
    assert printable_lines(inner.getvalue()) == inner.getvalue()


def test_streams_are_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call changes nothing, a stream that was exchanged is replaced again, and codes have their own way."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", first)
    make_output_printable()
    replaced = sys.stdout
    make_output_printable()
    assert sys.stdout is replaced
    sys.stdout.writelines(["a\x1b", "b\n"])
    stream_for_codes(sys.stdout).write("\x1b[K")
    assert first.getvalue() == "a b\n\x1b[K"
    monkeypatch.setattr(sys, "stdout", second)
    make_output_printable()
    print("c\x07", end="", flush=True)
    assert second.getvalue() == "c "
    assert stream_for_codes(second) is second
