"""What the service sees of the processes that decode recordings."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from streamer.audio.frames import Opened
from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.uploads.decoding import DecoderPlaces, Decoding, NotTaken, look_at_session
from tests.bridge.descriptors import no_descriptors
from tests.bridge.service_client import eventually


async def test_a_process_that_waits_rests() -> None:
    """Two looks at a session that waits are the same; without a free descriptor nothing is known about it."""
    process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        await eventually(lambda: look_at_session(process.pid) is not None)
        assert look_at_session(process.pid) == look_at_session(process.pid)
        with no_descriptors():
            assert look_at_session(process.pid) is None
    finally:
        process.kill()
        await process.wait()


def test_a_session_that_is_over() -> None:
    """Nothing is known of a session without processes, and this process, which works, does not rest."""
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
        assert look_at_session(process.pid) is None
    assert look_at_session(os.getsid(0)) is None


@pytest.mark.skipif(not os.environ.get("CI") and shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("ending", ["mp4", "mkv"])
async def test_a_decoder_is_killed_with_its_children(tmp_path: Path, ending: str) -> None:
    """Whether a recording is decoded while it arrives or must be whole before: ffmpeg never outlives its decoder."""
    path = tmp_path / f"a.{ending}"
    sound = ("-f", "lavfi", "-i", "sine=duration=600", "-c:a", "aac", "-b:a", "32k")
    await asyncio.to_thread(subprocess.run, ["ffmpeg", "-v", "error", *sound, str(path)], check=True, timeout=60)
    recording = await asyncio.to_thread(path.read_bytes)
    decoding = await Decoding.begin(UploadLimits(), None, separate=False)
    leader = decoding._process.pid

    async def feed() -> None:
        with suppress(NotTaken):
            await decoding.feed(recording)
            decoding.end()

    feeding = asyncio.ensure_future(feed())
    assert isinstance(await decoding.next(), Opened)
    family = [leader]

    def has_children() -> bool:
        family[1:] = [each.pid for each in psutil.Process(leader).children(recursive=True)]
        return len(family) > 1

    # Nobody reads its samples, so it waits, and ffmpeg too.
    await eventually(has_children)
    assert {os.getsid(pid) for pid in family} == {leader}
    await decoding.finish()
    await feeding
    await eventually(lambda: not any(map(runs, family)))


def runs(pid: int) -> bool:
    """Whether there is a process with this id that has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Guest:
    """An upload with this pace."""

    speed: float | None
    ended: bool = False

    def pace(self) -> float | None:
        return self.speed

    def give_way(self) -> None:
        self.ended = True


@pytest.mark.parametrize(
    ("paces", "newcomer", "who"),
    [
        ({"a": [None, None]}, "b", None),  # who decodes stays
        ({"a": [9e9, 1e5]}, "b", 1),
        ({"a": [None, 1e5]}, "b", 1),
        ({"a": [1e5, 1e5]}, "a", None),  # nobody is slow
        ({"a": [1e5, 10.0]}, "a", 1),
        ({"a": [1e5], "b": [1e5]}, "c", None),  # nobody has more than one
        ({"a": [1e5], "b": [10.0]}, "c", 1),
        ({"a": [1e5, 1e5], "b": [10.0]}, "c", 0),  # first who has the most
    ],
)
def test_who_gives_way(paces: dict[str, list[float | None]], newcomer: str, who: int | None) -> None:
    """The slowest of those that wait for their clients, if it is slow or its caller has more places."""
    guests = [(caller, Guest(pace)) for caller, each in paces.items() for pace in each]
    places = DecoderPlaces(len(guests))
    for number, (caller, guest) in enumerate(guests):
        assert places.take(number, caller, guest)
    assert places.take("new", newcomer) is (who is not None)
    assert [number for number, (_, guest) in enumerate(guests) if guest.ended] == ([] if who is None else [who])
    if who is not None:
        taken = len(places)
        places.give_back(who)  # has none any more
        assert len(places) == taken
