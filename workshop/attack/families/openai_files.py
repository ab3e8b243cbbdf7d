"""Attacks by recordings in OpenAI's format: wild fields and forms, bombs, floods, and events that are not read."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from typing import Final

from streamer.wire.dialects.openai_upload import FORMATS, PATH, TRANSLATIONS, deployed, with_bases
from workshop.attack import recordings
from workshop.attack.attack import ODD, Attack, Strike, Target, at_once, mutated, nested_json, wild_json
from workshop.attack.recordings import BOUNDARY, FORM, NO_FORM, form, posted, recording, wild_recording

FAMILY: Final = "openai files"
_JSON: Final = "Content-Type: application/json"
_FIELDS: Final = (
    "model",
    "language",
    "prompt",
    "response_format",
    "temperature",
    "stream",
    "timestamp_granularities[]",
    "include[]",
    "keywords[]",
    "languages[]",
    "chunking_strategy",
    "chunking_strategy[type]",
    "file",
    "",
)
_VALUES: Final = (
    *FORMATS,
    "diarized_json",
    "true",
    "false",
    "word",
    "segment",
    "en",
    "de",
    "auto",
    "whisper-1",
    "logprobs",
    "9" * 5000,
    "1e308",
    "NaN",
    "\0",
    "\u202e",
    "[" * 5000,
    "a" * 5000,
    "",
)


async def wild_fields(target: Target, rng: random.Random) -> Strike:
    """Send any value for any field, before and after the file, of which there may be several."""
    wav = recording()

    async def one(_: int) -> str:
        fields = [(rng.choice(_FIELDS), _value(rng)) for _ in range(rng.choice((1, 3, 10, 60)))]
        fields.insert(rng.randrange(len(fields) + 1), ("file", wav))
        return await posted(target, rng.choice((PATH, PATH, TRANSLATIONS)), form(*fields), rng, FORM)

    return await at_once(6, one)


async def broken_forms(target: Target, rng: random.Random) -> Strike:
    """Send forms with bytes changed or cut off, endless heads or boundaries within boundaries, and other bodies."""
    whole = form(("model", b"x"), ("stream", b"true"), ("file", recording()), ("late", b"1" * rng.randrange(200)))
    beginning = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="'.encode()
    bodies = (
        mutated(whole[:300], rng) + whole[300:],
        whole[: rng.randrange(len(whole))],
        beginning + b"a" * rng.randrange(100_000),
        (f"\r\n--{BOUNDARY}" * 5000).encode(),
        json.dumps({"file": "a", "model": "x"}).encode(),
        wild_json(rng, ("file",), ("file", "model")).encode("utf-8", "surrogatepass"),
        nested_json(rng)[1].encode(),
    )
    kinds = (FORM, FORM, FORM, NO_FORM, _JSON, "Content-Type: multipart/form-data")
    return await at_once(len(bodies), lambda number: posted(target, PATH, bodies[number], rng, rng.choice(kinds)))


async def wild_json_bodies(target: Target, rng: random.Random) -> Strike:
    """Send JSON with the recording in base64: with bytes changed or cut off, endless, or with wild fields."""
    values = (rng.choice(_VALUES), rng.choice(ODD), [1, True, None])
    fields = {rng.choice(_FIELDS): rng.choice(values) for _ in range(5)}
    recorded = {"input_audio": {"data": base64.b64encode(wild_recording(rng)).decode(), "format": "wav"}}
    whole = json.dumps({**fields, **recorded, **fields}).encode("utf-8", "surrogatepass")
    bodies = (
        whole,
        mutated(whole[:300], rng) + whole[300:],
        whole[: rng.randrange(len(whole))],
        whole.replace(b"/", rng.choice((b"\\/", b"\\u002f", b"\\"))),
        b'{"input_audio": {"data": "' + rng.choice((b"A", b"\\", b"=", b"data:,", b'"', b'{"')) * 200_000,
        b'{"input_audio": {' + b" " * 200_000,
        wild_json(rng, ("input_audio",), ("input_audio", "data")).encode("utf-8", "surrogatepass"),
        nested_json(rng)[1].encode(),
    )
    return await at_once(len(bodies), lambda number: posted(target, PATH, bodies[number], rng, _JSON))


async def paths(target: Target, rng: random.Random) -> Strike:
    """Ask for models and deployments of wild names, with every base. None may be answered with a failure."""

    async def one(_: int) -> str:
        name = rng.choice(("default", "..", "%2e%2e/%00", "a/b/c", "%", "%ff", "{model}", "a" * 3000, "?", "//"))
        path = rng.choice((*with_bases(f"/v1/audio/{name}"), deployed(PATH).replace("{model}", name)))
        return await posted(target, path, form(("model", b"x"), ("file", recording())), rng, FORM)

    return await at_once(6, one)


async def wild_recordings(target: Target, rng: random.Random) -> Strike:
    """Upload damaged recordings, random bytes, and small files that are enormous once decoded."""
    bodies = [wild_recording(rng) for _ in range(5)] + [rng.choice(recordings.bombs(rng))]
    fields = [("response_format", rng.choice(FORMATS).encode()), ("stream", rng.choice((b"true", b"false")))]
    return await at_once(
        len(bodies), lambda number: posted(target, PATH, form(*fields, ("file", bodies[number])), rng, FORM)
    )


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point of an upload."""
    return await recordings.gone(target, (PATH,), rng, FORM, form(("stream", b"true"), ("file", recording())))


async def flood(target: Target, rng: random.Random) -> Strike:
    """Upload far more recordings at once than the service accepts."""
    return await recordings.flood(target, PATH, form(("model", b"whisper-1"), ("file", recording())), rng, FORM)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send an endless file, and read no event. The service must stop reading."""
    header = recording()[:44]
    endless = header[:4] + b"\xff\xff\xff\xff" + header[8:40] + b"\xff\xff\xff\xff"
    before = form(("stream", b"true"), ("file", endless)).removesuffix(f"\r\n--{BOUNDARY}--\r\n".encode())
    return await recordings.unread(target, PATH, FORM, before)


def _value(rng: random.Random) -> bytes:
    value = rng.choice(_VALUES) if rng.random() < 0.7 else str(rng.choice(ODD))[:5000]
    return value.encode("utf-8", "surrogatepass") if rng.random() < 0.9 else rng.randbytes(rng.randrange(100))


ATTACKS: Sequence[Attack] = (
    Attack("wild fields", FAMILY, wild_fields, 3),
    Attack("broken forms for OpenAI", FAMILY, broken_forms, 3),
    Attack("wild JSON for OpenAI", FAMILY, wild_json_bodies, 2),
    Attack("wild paths of OpenAI", FAMILY, paths),
    Attack("wild recordings for OpenAI", FAMILY, wild_recordings, 3),
    Attack("clients of OpenAI that go away", FAMILY, gone),
    Attack("a flood of recordings for OpenAI", FAMILY, flood, every_s=30.0),
    Attack("OpenAI's events that are not read", FAMILY, unread),
)
