"""Streams that wait, in the real Triton with the shipped model: they do not delay other streams, and lose nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from string import ascii_lowercase
from typing import Any

import pytest

from streamer.bridge.triton.link import Link, LinkError, Sequence
from streamer.bridge.triton.server import TritonServer
from streamer.engine.adapters.held_requests import MOST_REQUESTS
from tests.asr_repo.model_client import STEP, plain, recognise, said, sent_at_once, text
from tests.samples import pcm


@pytest.fixture
async def link(triton: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(triton.grpc_address) as link:
        yield link


def unknown_words(seed: int, number: int = 1200) -> list[str]:
    """Return as many hotwords as a stream may have, of words that were never used before."""
    dice = random.Random(seed)
    words = ["".join(dice.choices(ascii_lowercase, k=9)) for _ in range(number)]
    return [" ".join(words[start : start + 6]) for start in range(0, number, 6)]


async def test_others_are_answered_while_a_stream_is_prepared(link: Link) -> None:
    """Steps sent after the START of a stream with many hotwords are answered before it."""
    other, costly = link.sequence(), link.sequence({"hotwords": unknown_words(1)})
    await other.send(bytes(STEP))
    opening = asyncio.create_task(costly.send(b""))
    await asyncio.sleep(0)
    assert await answered_meanwhile(other, opening) > 0
    assert (await opening)[0].type == "opened"
    for sequence in (other, costly):
        await sequence.send(b"", end=True)


async def answered_meanwhile(other: Sequence, task: asyncio.Task[Any]) -> int:
    """Return how many steps of another stream are answered before this is done. On a busy machine, not many are."""
    answered = 0
    while True:
        assert (await other.send(bytes(STEP)))[-1].type == "heard"
        if task.done():
            return answered
        answered += 1


async def test_audio_waits_for_the_preparation_without_loss(link: Link) -> None:
    """Audio behind a START without an answer gives the same events as audio sent later."""
    audio = pcm("airplane.mp3")
    hotwords = [*unknown_words(2, 600), {"text": "airplane", "weight": 2}]
    hasty = link.sequence({"hotwords": hotwords})
    for chunk in (b"", audio[:STEP]):  # both are on their way before there is an answer
        sending = asyncio.create_task(hasty.send(chunk))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    events = plain(await hasty.send(audio[STEP:], end=True))
    patient = await recognise(link, audio, hotwords=hotwords)
    assert "airplane" in text(events).split()
    assert [event for event in said(events) if event["type"] == "final"] == [
        event for event in said(patient) if event["type"] == "final"
    ]


async def test_a_hotword_is_refused_when_its_turn_comes(link: Link) -> None:
    """The START gets the reason for the refusal, and later requests get the error that there is no stream."""
    sequence = link.sequence({"hotwords": [*unknown_words(4, 600), "北京"]})
    opening = asyncio.create_task(sequence.send(b""))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    with pytest.raises(LinkError) as caught:
        await sequence.send(bytes(STEP))
    assert caught.value.code == "unknown_stream"
    with pytest.raises(LinkError, match="cannot be pronounced") as caught:
        await link.sequence({"hotwords": [*unknown_words(4, 600), "北京"]}).send(b"")
    assert caught.value.code == "bad_options"


async def test_small_lists_do_not_wait_for_those_of_another_caller(link: Link) -> None:
    """Callers take turns: one hotword is ready before the last of another caller's many lists that came first.

    The first of these may be ready before it. That depends on how much of its time is over when the other caller's list
    arrives.
    """
    greedy = [link.sequence({"hotwords": unknown_words(seed, 300), "caller": "greedy"}) for seed in range(10, 14)]
    opening = [asyncio.create_task(sequence.send(b"")) for sequence in greedy]
    await asyncio.sleep(0)
    modest = link.sequence({"hotwords": ["brobdingnag"], "caller": "modest"})
    assert (await modest.send(b""))[0].type == "opened"
    assert not opening[-1].done()
    assert [events[0].type for events in await asyncio.gather(*opening)] == ["opened"] * 4
    for sequence in (modest, *greedy):
        await sequence.send(b"", end=True)


async def test_others_are_answered_while_a_segment_is_read_again(link: Link) -> None:
    """Steps sent after the end of a long segment are answered before its final."""
    audio = pcm("talk.flac") * 3  # one of them is read again in 60 ms by a fast processor
    other, long = link.sequence(), link.sequence({"second_pass": True, "endpoint": "off"})
    for start in range(0, len(audio) - STEP, STEP):
        await long.send(audio[start : start + STEP])
    await other.send(bytes(STEP))
    ending = asyncio.create_task(long.send(b"", end=True))
    await asyncio.sleep(0)
    assert await answered_meanwhile(other, ending) > 0
    assert "final" in [event.type for event in await ending]
    await other.send(b"", end=True)


async def test_a_recording_may_be_sent_without_waiting_for_answers(link: Link, triton: TritonServer) -> None:
    """If far more requests come than are held for a stream, none is refused, and the events are the same."""
    audio = pcm("talk.flac")
    chunks = [audio[start : start + STEP // 8] for start in range(0, len(audio), STEP // 8)]
    assert len(chunks) > 8 * MOST_REQUESTS
    hasty = await asyncio.to_thread(sent_at_once, triton.grpc_address, chunks, {"second_pass": True})
    assert said(hasty) == said(await recognise(link, audio, second_pass=True))
