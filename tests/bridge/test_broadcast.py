"""What listeners of a shared session get, and what happens to one that does not read."""

from __future__ import annotations

import asyncio
import json

import pytest

from streamer.base.events import Acknowledgement, Final, Partial, ServerMessage, Word
from streamer.bridge.broadcast import MOST_KEPT, MOST_WAITING, Broadcast, Form, Listener
from streamer.bridge.http.request import HttpError
from streamer.bridge.session.messages import Numbered


def numbered(n: int, message: ServerMessage) -> Numbered:
    """A message as the driver notes it."""
    return Numbered(n, message, "")


def final(n: int, text: str, start_ms: int = 0) -> Numbered:
    words = tuple(
        Word(each, start_ms + 300 * place, start_ms + 300 * (place + 1)) for place, each in enumerate(text.split())
    )
    end_ms = words[-1].end_ms
    return numbered(n, Final(n, text, start_ms, end_ms, end_ms, 0.9, words, spoken="secret"))


def partial(n: int, text: str, start_ms: int = 0) -> Numbered:
    return numbered(n, Partial(n, text, 0, start_ms, start_ms + 500))


class Heard:
    """Broadcasts for tests, with what they report."""

    def __init__(self) -> None:
        self.forgotten: list[Broadcast] = []
        self.dropped: list[str] = []
        self.names: list[str] = []
        self.broadcast = Broadcast(self.forgotten.append, self.dropped.append, lambda: self.names)


async def rest(listener: Listener) -> str:
    """All that a listener gets until it ends."""
    return b"".join([piece async for piece in listener.pieces()]).decode()


def events(text: str) -> list[tuple[str, str]]:
    """The kinds and texts of server-sent events."""
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block]
    return [(block["event"], json.loads(block["data"]).get("text", "")) for block in blocks]


async def test_a_page_gets_partials_and_finals() -> None:
    """A listener gets each result as it comes, with its number, and nothing that only the client should have."""
    heard = Heard()
    listener = heard.broadcast.listen(Form.EVENTS)
    for each in (partial(1, "hello"), final(2, "Hello there."), numbered(3, Acknowledgement(900))):
        heard.broadcast.note(each)
    heard.broadcast.close()
    text = await rest(listener)
    assert events(text) == [("partial", "hello"), ("final", "Hello there."), ("end", "")]
    assert text.startswith('id: 1\nevent: partial\ndata: {"text": "hello", "stable": 0, "start_ms": 0}\n\n')
    assert "secret" not in text
    assert heard.forgotten == [heard.broadcast]


async def test_a_page_gets_who_speaks() -> None:
    """A final has its speaker, and its parts if several speakers say it. Subtitles have the same voices."""
    heard = Heard()
    listeners = [heard.broadcast.listen(form) for form in (Form.EVENTS, Form.CUES)]
    words = [Word(text, 300 * at, 300 * at + 300, speaker=at // 2) for at, text in enumerate(("are", "you", "I", "am"))]
    heard.broadcast.note(numbered(1, Final(0, "are you I am", 0, 1200, 1200, 0.9, tuple(words), speaker=0)))
    heard.broadcast.note(numbered(2, Final(1, "I am", 1500, 2100, 2100, 0.9, tuple(words[2:]), speaker=1)))
    heard.broadcast.close()
    page, player = [await rest(listener) for listener in listeners]
    first, second, _ = [json.loads(block.partition("data: ")[2]) for block in page.strip().split("\n\n")]
    assert (first["speaker"], second["speaker"]) == (0, 1)
    assert first["parts"] == [{"text": "are you", "speaker": 0}, {"text": "I am", "speaker": 1}]
    assert "parts" not in second
    assert [line for line in player.splitlines() if line.startswith("<v")] == ["<v 1>are you", "<v 2>I am", "<v 2>I am"]


async def test_speakers_have_their_present_names() -> None:
    """Names stand in what is told after they were given, in both forms. A cue is told when the next one begins."""
    heard = Heard()
    listeners = [heard.broadcast.listen(form) for form in (Form.EVENTS, Form.CUES)]
    for n, names in enumerate(([], ["Ada"], ["Grace"])):
        heard.names = names
        words = (Word("yes", 5000 * n, 5000 * n + 900, speaker=0),)
        heard.broadcast.note(numbered(n, Final(n, "yes", 5000 * n, 5000 * n + 900, 5000 * n, 0.9, words, speaker=0)))
    heard.broadcast.note(partial(3, "and", 20_000))
    heard.broadcast.close()
    page, player = [await rest(listener) for listener in listeners]
    told = [json.loads(block.partition("data: ")[2]) for block in page.strip().split("\n\n")[:4]]
    assert [event.get("speaker_names") for event in told] == [None, ["Ada"], ["Grace"], None]
    assert [line[3:] for line in player.splitlines() if line.startswith("<v")] == ["Ada>yes", "Grace>yes", "Grace>yes"]


async def test_a_player_gets_subtitles() -> None:
    """A player gets the same subtitles as a file, each when it is complete; the last one comes at the end."""
    heard = Heard()
    listener = heard.broadcast.listen(Form.CUES)
    heard.broadcast.note(final(1, "Hello there."))
    heard.broadcast.note(partial(2, "and", 900))
    heard.broadcast.note(final(3, "And more.", 900))
    heard.broadcast.close()
    assert await rest(listener) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.820\nHello there.\n\n00:00:00.900 --> 00:00:01.900\nAnd more.\n"
    )


async def test_who_comes_later_gets_the_finals_and_the_present_words() -> None:
    """A listener that comes later gets what was said since the session was shared, as far as it is kept."""
    heard = Heard()
    for each in (partial(1, "gone"), final(2, "Said before."), partial(3, "now")):
        heard.broadcast.note(each)
    listener = heard.broadcast.listen(Form.EVENTS)
    heard.broadcast.close()
    assert events(await rest(listener)) == [("final", "Said before."), ("partial", "now"), ("end", "")]
    heard = Heard()
    for number in range(1, 300):
        heard.broadcast.note(final(number, f"number {number} " + "x" * 1000))
    late = heard.broadcast.listen(Form.EVENTS)
    heard.broadcast.close()
    text = await rest(late)
    assert len(text) <= MOST_KEPT + 100
    assert events(text)[-2][1].startswith("number 299 ")


async def test_who_does_not_read_is_dropped() -> None:
    """A listener that does not read is dropped when too much waits for it; others get everything."""
    heard = Heard()
    slow, fast = heard.broadcast.listen(Form.EVENTS), heard.broadcast.listen(Form.EVENTS)
    reading = asyncio.create_task(rest(fast))
    for number in range(2 * MOST_WAITING):
        heard.broadcast.note(final(number, f"number {number}"))
        await asyncio.sleep(0)
    assert (len(heard.broadcast), heard.dropped) == (1, ["not_read"])
    with pytest.raises(HttpError):
        await rest(slow)
    heard.broadcast.close()
    assert len(events(await reading)) == 2 * MOST_WAITING + 1


async def test_silence_keeps_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody speaks, each form gets something that means nothing to it."""
    monkeypatch.setattr("streamer.bridge.broadcast.KEEPALIVE_S", 0.01)
    for form, nothing in ((Form.EVENTS, b":\n\n"), (Form.CUES, b"\nNOTE\n")):
        pieces = Heard().broadcast.listen(form).pieces()
        await anext(pieces)
        assert await anext(pieces) == nothing
        await pieces.aclose()


async def test_a_listener_counts_until_it_leaves() -> None:
    """The number of listeners follows them, also if one never begins to read."""
    broadcast = Heard().broadcast
    listener, other = broadcast.listen(Form.CUES), broadcast.listen(Form.EVENTS)
    assert len(broadcast) == 2
    await listener.leave()
    await listener.leave()
    assert len(broadcast) == 1
    await other.leave()
    assert len(broadcast) == 0
