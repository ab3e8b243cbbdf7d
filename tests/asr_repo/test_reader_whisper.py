"""Whisper as the reader of a real Triton: languages, translation, and a model whose words are its alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from streamer.base.codes import FailureCode
from streamer.base.events import ReadBy
from streamer.base.limits import READER
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from tests.asr_repo.model_client import Events, recognise, text
from tests.engine.reader.scripted_whisper import write_whisper
from tests.samples import pcm
from tests.triton_processes import stubs

SPEECH = pcm("quilter.ogg")
SAID = ("ĠGuten", "ĠTag", ".")
ALONE = "german"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    weights = tmp_path_factory.mktemp("whisper")
    write_whisper(weights, SAID)
    with TritonServer(
        asr_repository(),
        models=[MODEL, ALONE],
        folders={ALONE: asr_repository() / MODEL},
        slots=8,
        reader=weights,
        reads_alone=[ALONE],
    ) as server:
        yield server


@pytest.fixture
async def link(server: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(server.grpc_address) as link:
        yield link


@pytest.fixture
async def alone(server: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(server.grpc_address, ALONE) as link:
        yield link


def read_by(events: Events) -> set[str]:
    return {event["read_by"] for event in events if event["type"] == "final"}


async def test_another_language_has_the_words_of_whisper(link: Link) -> None:
    """The model says which languages there are, and finals have the words as they were written."""
    events = await recognise(link, SPEECH, language="de", written=True)
    assert events[0]["languages"] == ["auto", "en", "zh", "de", "es", "ja"]
    assert text(events) == "Guten Tag."
    assert read_by(events) == {ReadBy.READER}
    [final] = [event for event in events if event["type"] == "final"]
    assert [word["word"] for word in final["words"]] == ["Guten", "Tag."]


async def test_english_is_combined(link: Link) -> None:
    """The words of Whisper, which is sure of them, become spoken words with the times of the phones."""
    events = await recognise(link, SPEECH, second_pass=True, reader=True)
    assert text(events) == "guten tag"
    assert read_by(events) == {ReadBy.READER}


async def test_a_model_with_the_words_of_whisper_alone(alone: Link) -> None:
    """It needs no option, and translates as well."""
    events = await recognise(alone, SPEECH)
    assert text(events) == "Guten Tag."
    assert {event["language"] for event in events if event["type"] == "final"} == {"de"}
    assert text(await recognise(alone, SPEECH, translate=True, partials=False)) == "Guten Tag."


async def test_a_language_that_nobody_reads(link: Link) -> None:
    """The refusal names those that there are."""
    with pytest.raises(LinkError, match="the reader has no language 'fr'; it has en, zh, de, es, ja") as error:
        await recognise(link, SPEECH, language="fr")
    assert error.value.code == FailureCode.BAD_OPTIONS


async def test_a_prompt_reaches_whisper(link: Link) -> None:
    """The script begins later by each token of a prompt."""
    assert text(await recognise(link, SPEECH, language="de", prompt="x")) == ""


async def test_without_its_process_no_words_are_made_up(server: TritonServer, link: Link) -> None:
    """The stream fails, so the service begins it again elsewhere: the recogniser has no words of this language."""
    [process] = [each for each in stubs(server.pid) if f"/{READER}/" in " ".join(each.cmdline())]
    process.kill()
    with pytest.raises(LinkError, match="the reader, which has the only words, did not answer in time"):
        await recognise(link, SPEECH, language="de", partials=False)
