"""The slot of a stream: where it is, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping

from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.supervision import RemoteTriton, Supervisor
from streamer.bridge.upstreams.tritons import Tritons
from streamer.triton import MODEL
from streamer.triton.server import TritonServer


class TwoNames(Tritons):
    """One Triton that is known by two names."""

    def __init__(self, address: str) -> None:
        super().__init__([])
        self._both: Mapping[str, Supervisor] = {name: RemoteTriton(name, address) for name in ("one", "other")}

    @property
    def present(self) -> list[Supervisor]:
        return list(self._both.values())


async def test_least_loaded(triton: TritonServer) -> None:
    """Streams go where most is free, and one that goes on does so elsewhere while there is an elsewhere."""
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
