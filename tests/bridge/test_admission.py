"""Who gets a sequence."""

from __future__ import annotations

import pytest

from streamer.bridge.admission import Admission, Refused
from streamer.bridge.metrics import Metrics
from streamer.triton.link import Link
from streamer.triton.server import TritonServer


async def test_at_most(triton: TritonServer) -> None:
    """There are so many sequences and no more, until one is given back."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with await Link.connect(triton.grpc_address) as link:
        admission.open(link, 2)
        assert admission.take({})[0].id != admission.take({})[0].id
        with pytest.raises(Refused, match="All 2 sessions are taken") as refused:
            admission.take({})
        assert refused.value.code == "full"
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back()
        admission.take({})
        assert admission.taken == 2


async def test_all_or_none(triton: TritonServer) -> None:
    """A session of several channels gets a sequence for each, or none: it never waits with half of them."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with await Link.connect(triton.grpc_address) as link:
        admission.open(link, 3)
        assert len({sequence.id for sequence in admission.take({}, 2)}) == 2
        assert (admission.taken, admission.sessions) == (2, 1)
        with pytest.raises(Refused, match="2 channels need as many sessions, of which 1 of 3 are free") as refused:
            admission.take({}, 2)
        assert refused.value.code == "full"
        admission.take({})
        assert b"streamer_sequences 3.0" in metrics.exposition()
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back(2)
        assert (admission.taken, admission.sessions) == (1, 1)


async def test_when_there_is_none(triton: TritonServer) -> None:
    """Before the recogniser is there, when its link has ended and after the close nobody gets a sequence."""
    admission = Admission(Metrics())
    link = await Link.connect(triton.grpc_address)
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    admission.open(link, 2)
    await link.close()
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    admission.close()
    with pytest.raises(Refused, match="shutting down"):
        admission.take({})
    assert admission.taken == 0
