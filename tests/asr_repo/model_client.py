"""Sends audio to a model in Triton over the link, and returns its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput

from streamer.base.events import ModelEvent, Other, content
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link

STEP = 10_240  # bytes of 320 ms
Events = list[dict[str, Any]]


async def recognise(link: Link, audio: bytes, sizes: Iterator[int] | None = None, **options: Any) -> Events:
    """Return all events for the audio, sent in chunks with these numbers of samples."""
    sequence = link.sequence(options)
    events: Events = []
    position = 0
    while position < len(audio):
        size = 2 * next(sizes) if sizes else STEP
        events += plain(await sequence.send(audio[position : position + size]))
        position += size
    return events + plain(await sequence.send(b"", end=True))


def sent_at_once(address: str, chunks: list[bytes], options: dict[str, Any] | None = None) -> Events:
    """Send all of these chunks without waiting for an answer. Returns all events."""
    answers: list[Any] = []
    with InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.append(error or result.as_numpy("EVENTS")[0]))
        for number, chunk in enumerate(chunks):
            audio = InferInput("AUDIO", [1, len(chunk) // 2], "INT16")
            audio.set_data_from_numpy(np.frombuffer(chunk, np.int16)[None])
            given = InferInput("OPTIONS", [1, 1], "BYTES")
            wishes = json.dumps({} if number or options is None else options)
            given.set_data_from_numpy(np.array([[wishes.encode()]], dtype=np.object_))
            place = {"sequence_start": not number, "sequence_end": number == len(chunks) - 1}
            client.async_stream_infer(MODEL, [audio, given], sequence_id=7, **place)
        client.stop_stream()
    return [json.loads(event) for events in answers for event in events]


def plain(events: Iterable[ModelEvent]) -> Events:
    """Return the events as the model wrote them."""
    return [{"type": event.type, **(event.fields if isinstance(event, Other) else content(event))} for event in events]


def said(events: Events) -> Events:
    """Return the recognised words and their times, with rounded confidences, which may differ in the last digit."""
    kept = []
    for event in events:
        if event["type"] in ("opened", "closed", "heard"):
            continue
        event = {**event, "confidence": round(event.get("confidence", 0), 1)}
        event["words"] = [(word["word"], word["start_ms"], word["end_ms"]) for word in event.get("words", ())]
        kept.append(event)
    return kept


def text(events: Events) -> str:
    return " ".join(event["text"] for event in events if event["type"] == "final")
