"""The slot of a stream: the choice of the first upstream and of the next one."""

from __future__ import annotations

from collections.abc import Mapping

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.supervision import RemoteTriton, Supervisor, Tritons


class TwoNames(Tritons):
    """One Triton under two names."""

    def __init__(self, address: str) -> None:
        super().__init__([])
        self._both: Mapping[str, Supervisor] = {name: RemoteTriton(name, address) for name in ("one", "other")}

    @property
    def present(self) -> list[Supervisor]:
        return list(self._both.values())


async def test_least_loaded(triton: TritonServer) -> None:
    """Streams go to the least loaded upstream; one that goes on uses another upstream if there is one."""
    models = Models(TwoNames(triton.grpc_address), {"default": MODEL})
    await models.open()
    try:
        reservations = [models.default.reserve({}) for _ in range(4)]
        first = reservations[0]
        assert first is not None
        names = [reservation.upstream.name for reservation in reservations if reservation is not None]
        assert sorted(names) == ["one", "one", "other", "other"]
        before = first.upstream
        await first.begin({})
        assert first.upstream is before
        await first.begin({})
        assert first.upstream is not before
        assert models.default.held == {MODEL: 4}
    finally:
        await models.close()
