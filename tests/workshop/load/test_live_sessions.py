"""The capacity curve of a real service."""

from __future__ import annotations

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.capacity import Capacity, Level
from tests.samples import pcm
from workshop.load.live_sessions import live, step_table


def test_what_was_tried() -> None:
    """There is a line for each number of sessions, with its share of the time of a step."""
    found = Capacity(2, [Level(1, 0.04, [0.04]), Level(2, 0.08, [0.07, 0.09]), Level(4, 0.32, [0.3])])
    assert step_table(found).splitlines()[2:5] == [
        "| 1 | 0.040 | 12% | 0.040 | 0.040 |",
        "| 2 | 0.080 | 25% | 0.090 | 0.090 |",
        "| 4 | 0.320 | 100% | 0.300 | 0.300 |",
    ]


async def test_live(triton: TritonServer) -> None:
    """The given number of live sessions run, and end with their words."""
    async with Service(triton.grpc_address, port=0) as service:
        seen, ended = await live(service.url, pcm("talk.flac"), 2, 3.0)
    assert ended == {"done": 2}
    assert seen.sessions == 2
    assert seen.quantile(0.5) > 0


async def test_refused(triton: TritonServer) -> None:
    """A service that admits fewer sessions is an error, and is not measured with fewer."""
    async with Service(triton.grpc_address, port=0, sessions=1) as service:
        with pytest.raises(ConnectionError, match="was refused: full"):
            await live(service.url, pcm("talk.flac"), 2, 1.0)
