"""Attacks by recordings in Deepgram's format: wild options, addresses and JSON in place of audio, and bombs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from streamer.wire.dialects.deepgram import PATH
from workshop.attack import recordings
from workshop.attack.attack import Attack, Strike, Target, at_once, wild_json
from workshop.attack.families.deepgram_live import wild_query
from workshop.attack.recordings import FORM, NO_FORM, form, posted, recording, wild_recording

FAMILY: Final = "deepgram recorded"
_ADDRESSES: Final = (
    "file:///etc/passwd",
    "\ud800",
    "",
    "a" * 50_000,
    "http://a.invalid/",
    "http://user:word@127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
)
# Names of this machine. The service must not fetch from itself.
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0", "127.1", "2130706433", "[::]")


async def wild_options(target: Target, rng: random.Random) -> Strike:
    """Upload a recording with any value for any option."""
    wav = recording()
    return await at_once(6, lambda _: posted(target, f"{PATH}?{wild_query(rng)}"[:30_000], wav, rng))


async def wild_recordings(target: Target, rng: random.Random) -> Strike:
    """Upload damaged recordings, random bytes, and small files that are enormous once decoded."""
    bodies = [wild_recording(rng) for _ in range(5)] + [rng.choice(recordings.bombs(rng))]
    query = rng.choice(("utterances=true", "multichannel=true", "encoding=linear16&sample_rate=192000&channels=8"))
    return await at_once(len(bodies), lambda number: posted(target, f"{PATH}?{query}", bodies[number], rng))


async def json_bodies(target: Target, rng: random.Random) -> Strike:
    """Send JSON in place of a recording: addresses that may not be fetched, wrong types, and values nested too deep."""

    async def one(_: int) -> str:
        body = wild_json(rng, ("url", "source"), ("url", "type", "callback"))
        if rng.random() < 0.3:
            own = f"http://{rng.choice(_HOSTS)}:{target.port}/{rng.choice(('readyz', 'v1/transcribe', ''))}"
            body = f'{{"url": "{rng.choice((own, *_ADDRESSES))}"}}'
        kind = rng.choice(("Content-Type: application/json", "Content-Type: audio/wav", NO_FORM, FORM))
        return await posted(target, PATH, body.encode("utf-8", "surrogatepass"), rng, kind)

    return await at_once(10, one)


async def forms(target: Target, rng: random.Random) -> Strike:
    """Send forms, which this format does not have, with queries that are cut anywhere."""
    body = form(("url", b"http://127.0.0.1"), ("file", recording()))
    query = quote(f"model=nova-3&keyterm={chr(rng.randrange(0x10000))}", safe="=&", errors="replace")
    return await at_once(4, lambda _: posted(target, f"{PATH}?{query[: rng.randrange(len(query))]}", body, rng, FORM))


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point of an upload."""
    return await recordings.gone(target, (PATH, f"{PATH}?utterances=true"), rng)


async def flood(target: Target, rng: random.Random) -> Strike:
    """Upload far more recordings at once than the service accepts."""
    return await recordings.flood(target, PATH, recording(), rng)


ATTACKS: Sequence[Attack] = (
    Attack("wild options of a recording", FAMILY, wild_options, 3),
    Attack("wild recordings for Deepgram", FAMILY, wild_recordings, 3),
    Attack("JSON in place of a recording", FAMILY, json_bodies, 3),
    Attack("forms for Deepgram", FAMILY, forms),
    Attack("clients of Deepgram that go away", FAMILY, gone),
    Attack("a flood of recordings for Deepgram", FAMILY, flood, every_s=30.0),
)
