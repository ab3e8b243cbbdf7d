"""A client process: the orders that it takes, and what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.service import Service
from streamer.commands.traffic.clients import BEYOND_S, Ear, Order, Process, Speech, pauses
from streamer.commands.traffic.conversations import Heard, Kind
from streamer.testing import say, silence
from tests.samples import pcm

TEXT = "somebody speaks"
LIMIT_S = 60
COMMAND = (sys.executable, "-m", "streamer.commands.traffic.clients")


class Client:
    """A client process, its orders and its answers."""

    def __init__(self, url: str, recording: Path) -> None:
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        recordings = [{"name": recording.name, "path": str(recording)}]
        self.order({"url": url, "format": "native", "options": {}, "recordings": recordings})

    def order(self, content: Mapping[str, Any]) -> None:
        """Give it an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(content) + "\n")
        self.process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """Wait for its next message."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def level(self, speakers: list[int], seconds: float) -> list[dict[str, Any]]:
        """Order a level of this length, and return all that it tells about it."""
        now = time.monotonic()
        self.order({"speakers": speakers, "all_speakers": 2, "begin": now, "measure": now + 0.2, "end": now + seconds})
        messages: list[dict[str, Any]] = []
        while "over" not in (message := self.told()):
            messages.append(message)
        return messages

    def end(self) -> int:
        """End its orders, and wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(LIMIT_S)


def test_two_levels(exact_service: Service, tmp_path: Path) -> None:
    """Sessions follow one another; without speakers there is nothing to do; the end of orders ends the process."""
    recording = tmp_path / "speech.pcm"
    recording.write_bytes(say(TEXT).tobytes())
    client = Client(exact_service.url, recording)
    assert client.told() == {"ready": True}
    messages = client.level([0], 6.0)
    counts: Counter[str] = Counter()
    for message in messages:
        counts.update({name: value for name, value in message["found"].items() if isinstance(value, (int, float))})
    said = [tuple(each) for message in messages for each in message["found"].get("said", ())]
    assert said
    assert set(said) == {(0, 0, TEXT)}
    # The last session is broken off, unless its words came after the level.
    assert counts["opened"] == counts["done"] in (len(said), len(said) + 1)
    assert 0 < counts["audio_s"] < 6
    assert messages[-1]["cpu_s"] > 0
    assert not any("failed" in message["found"] or "refused" in message["found"] for message in messages)
    assert not any(message["found"].get("opened") for message in client.level([], 1.0))
    assert client.end() == 0


def test_orders_end_within_a_level(exact_service: Service, tmp_path: Path) -> None:
    """If its orders end while sessions are open, it ends at once."""
    recording = tmp_path / "speech.pcm"
    recording.write_bytes(say(TEXT).tobytes())
    client = Client(exact_service.url, recording)
    assert client.told() == {"ready": True}
    now = time.monotonic()
    client.order({"speakers": [0, 1], "all_speakers": 2, "begin": now, "measure": now, "end": now + 600})
    while not client.told().get("live"):
        pass
    assert client.end() == 0


def test_speakers_begin_one_after_the_other() -> None:
    """They begin so that each is at a place of its own when the measurement begins, if there is time for that."""
    order = Order([0, 1], 4, begin=100.0, measure=102.0, end=110.0)
    assert [order.start_of(speaker, 1.5) for speaker in range(4)] == [100.5] * 4
    late = [order.start_of(speaker, 30.0) for speaker in range(4)]
    assert len(set(late)) == 4
    assert all(100 <= start <= 102 for start in late)
    places = [order.place_of(speaker) for speaker in range(1000)]
    assert [sum(place < limit for place in places) / 1000 for limit in (0.25, 0.5, 0.75)] == pytest.approx(
        [0.25, 0.5, 0.75], abs=0.05
    )
    assert Order([0], 1, 100.0, 102.0, 110.0).place_of(0) == 0.0


def test_only_what_is_spoken_in_the_measurement_counts() -> None:
    """Neither what was spoken before counts, nor what is spoken after."""
    order = Order([0, 1], 4, begin=100.0, measure=102.0, end=110.0)
    assert [order.counts(at) for at in (101.9, 102.0, 109.9, 110.0)] == [False, True, True, False]


def test_speakers_stop_after_the_measurement(exact_service: Service, tmp_path: Path) -> None:
    """The last words that are measured do not come while all sessions want theirs."""
    recording = tmp_path / "speech.pcm"
    recording.write_bytes(say(TEXT).tobytes() * 20)
    client = Client(exact_service.url, recording)
    assert client.told() == {"ready": True}
    began = time.monotonic()
    client.level([0, 1], 1.0)
    assert time.monotonic() - began >= 1.0 + BEYOND_S
    assert client.end() == 0


def heard_at(ear: Ear, now: float, heard: Heard) -> None:
    """Let something be heard at this time."""
    ear._take(heard, now)


def test_delays() -> None:
    """A word counts from its end to the first message with it in its place; a final from its last word."""
    process = Process()
    ear = Ear(100.0, Order([0], 1, 100.0, 100.0, 200.0), process, from_beginning=True)
    heard_at(ear, 100.9, Heard(Kind.PARTIAL, ("a",), 0.64))
    heard_at(ear, 101.4, Heard(Kind.PARTIAL, ("a", "bat"), 1.28))
    heard_at(ear, 103.0, Heard(Kind.FINAL, ("a", "bad", "day"), 2.56, (0.5, 1.0, 1.6)))
    heard_at(ear, 104.5, Heard(Kind.FINAL, ("over",), 3.84, (3.5,)))
    ear.ended = 104.0
    ear.leave()
    tally = process.tally
    assert tally.first == pytest.approx([0.9])
    assert tally.partial == pytest.approx([0.26, 0.12])
    assert tally.word == pytest.approx([0.4, 2.0, 1.4, 1.0])
    assert tally.final == pytest.approx([1.4])
    assert tally.last == pytest.approx([0.5])
    assert ear.words == ["a", "bad", "day", "over"]


def test_what_does_not_count() -> None:
    """Audio from before or after the measurement does not count, whenever its words come."""
    process = Process()
    ear = Ear(100.0, Order([0], 1, 100.0, 101.0, 102.0), process, from_beginning=True)
    heard_at(ear, 101.2, Heard(Kind.PARTIAL, ("a",), 0.64))
    heard_at(ear, 101.6, Heard(Kind.PARTIAL, ("a", "b"), 1.28))
    heard_at(ear, 103.0, Heard(Kind.FINAL, ("a", "b", "c"), 2.56, (0.5, 1.2, 2.2)))
    ear.ended = 102.6
    ear.leave()
    tally = process.tally
    assert (tally.first, tally.final, tally.last) == ([], [], [])
    assert tally.partial == pytest.approx([0.32])
    assert tally.word == pytest.approx([0.4])


def test_a_final_before_the_end() -> None:
    """If a pause ended the last segment before the audio ended, the end of the session makes the words certain."""
    process = Process()
    ear = Ear(100.0, Order([0], 1, 100.0, 100.0, 200.0), process, from_beginning=False)
    heard_at(ear, 102.0, Heard(Kind.FINAL, ("a",), 1.9, (0.8,)))
    ear.ended = 103.0
    ear._over = 103.2
    ear.leave()
    assert process.tally.first == []
    assert process.tally.final == pytest.approx([1.2])
    assert process.tally.last == pytest.approx([0.2])


def test_a_word_beside_its_place() -> None:
    """A word that was shown one place earlier was shown, although an earlier word became two since."""
    process = Process()
    ear = Ear(100.0, Order([0], 1, 100.0, 100.0, 200.0), process, from_beginning=False)
    heard_at(ear, 101.5, Heard(Kind.PARTIAL, ("cannot", "go"), 1.28))
    heard_at(ear, 103.0, Heard(Kind.FINAL, ("can", "not", "go"), 2.56, (0.5, 0.8, 1.0)))
    assert process.tally.word == pytest.approx([2.5, 2.2, 0.5])


def test_sessions_begin_at_pauses() -> None:
    """Between words is a pause if it is long enough; speech without one has only its beginning."""
    audio = b"".join(
        each.tobytes() for each in (say("one"), silence(800), say("two words"), silence(400), say("three"))
    )
    first, second = pauses(audio)
    lengths = [len(each.tobytes()) for each in (say("one"), silence(800), say("two words"), silence(400))]
    assert lengths[0] < first < sum(lengths[:2])
    assert sum(lengths[:3]) < second < sum(lengths)
    speech = Speech(audio)
    places = (0, first - 1, first, second - 1, len(audio))
    assert [speech.beginning_before(place) for place in places] == [0, 0, first, first, second]
    assert pauses(say("none").tobytes()) == []
    assert pauses(b"") == []
    assert Speech(silence(1000).tobytes()).beginning_before(16_000) == 0


def test_the_talk_has_pauses() -> None:
    """In real speech with faint noise there are pauses, spread over the talk."""
    audio = pcm("talk.flac")
    found = [each / len(audio) for each in pauses(audio)]
    assert len(found) >= 4
    assert found[0] < 0.4
    assert found[-1] > 0.6
