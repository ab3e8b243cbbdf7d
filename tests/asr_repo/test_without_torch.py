"""No process of a model in a real Triton on a CPU has torch in its memory, whatever it computes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streamer.base.events import ReadBy
from streamer.base.torch_import import gpu_is_there
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link
from streamer.bridge.triton.repository import asr_repository, link_model
from streamer.bridge.triton.server import TritonServer
from streamer.models.readers import find_reader
from tests.asr_repo.model_client import recognise, text
from tests.samples import pcm
from tests.triton_processes import mapped
from workshop.graphs.exact_icefall import make_ctc_folder

AUDIO = pcm("airplane.mp3")
ENSEMBLE = "asr_heads"
TORCH = "libtorch"

pytestmark = pytest.mark.skipif(gpu_is_there(), reason="torch computes on a GPU")


@pytest.fixture
async def link(triton: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(triton.grpc_address) as link:
        yield link


@pytest.mark.parametrize(
    "options",
    [{}, {"second_pass": True}, {"written": True}, {"search": "greedy"}, {"hotwords": ["airplane"]}],
    ids=lambda options: next(iter(options), "words"),
)
async def test_the_shipped_model(options: dict[str, Any], triton: TritonServer, link: Link) -> None:
    """The shipped model recognises words, also with a second pass, with marks, and with hotwords."""
    assert text(await recognise(link, AUDIO, **options))
    assert mapped(triton, TORCH) == []


async def test_the_steps_of_an_ensemble() -> None:
    """So do the steps of `asr_heads`."""
    with TritonServer(asr_repository(), models=[ENSEMBLE]) as triton:
        async with await Link.connect(triton.grpc_address, ENSEMBLE) as link:
            assert text(await recognise(link, AUDIO, written=True))
        assert mapped(triton, TORCH) == []


async def test_a_reader() -> None:
    """The process of a reader, which has computed a segment, has none either."""
    with TritonServer(asr_repository(), models=[MODEL], reader=find_reader("moonshine-tiny")) as triton:
        async with await Link.connect(triton.grpc_address) as link:
            events = await recognise(link, AUDIO, second_pass=True, reader=True)
            assert [event["read_by"] for event in events if event["type"] == "final"] == [ReadBy.READER]
        assert mapped(triton, TORCH) == []


async def test_a_public_model(tmp_path: Path) -> None:
    """A public model computes with onnxruntime and numpy."""
    (tmp_path / "public").mkdir()
    (tmp_path / "models").mkdir()
    link_model(make_ctc_folder(tmp_path / "public"), tmp_path / "models" / MODEL, slots=4)
    with TritonServer(tmp_path / "models") as triton:
        async with await Link.connect(triton.grpc_address) as link:
            assert [event["type"] for event in await recognise(link, AUDIO)][-2:] == ["closed", "heard"]
        assert mapped(triton, TORCH) == []
