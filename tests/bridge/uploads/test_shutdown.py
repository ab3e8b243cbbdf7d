"""Uploads while the service shuts down, and a service that takes none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say
from streamer.wire.native_upload import PATH
from tests.bridge.access.bare_port import listening
from tests.bridge.uploads.uploading import Wire, error, post, recording, sentences

HEAD = f"POST {PATH}?stream=true HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


async def test_shutdown_ends_an_upload_with_its_words(tmp_path: Path) -> None:
    """The words that have come are made final; an upload without any audio is refused. Nobody waits for the rest."""
    wav = recording(sentences(say("first"), say("and then")))
    async with Service(TritonServer(exact_repository(tmp_path), slots=4), port=0) as service:
        started, waiting = Wire(service.url), Wire(service.url)
        started.send(HEAD)
        started.chunk(wav[: len(wav) * 3 // 4])
        waiting.send(HEAD.replace(b"?stream=true", b""))
        seen = await asyncio.to_thread(started.until, b'"text":"and')
    seen += started.rest()
    assert b'"text":"first"' in seen
    assert b"event: final" in seen[seen.rindex(b'"text":"and') - 200 :]
    last = [line for line in seen.splitlines() if line.startswith(b"data: ")][-1]
    assert (json.loads(last[6:])["type"], error_code(last)) == ("error", "shutting_down")
    answer = waiting.rest()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert error(answer[answer.index(b"\r\n\r\n") :].strip()) == "shutting_down"


def error_code(line: bytes) -> str:
    """Return the code of an event that says why a session has ended."""
    return str(json.loads(line[6:])["code"])


async def test_a_service_may_take_no_uploads() -> None:
    """If a service takes no uploads, neither their paths nor their description exist."""
    async with listening(uploads=UploadLimits(most=0)) as server:
        url = f"http://127.0.0.1:{server.port}"
        for method, path in (("POST", PATH), ("POST", "/v1/audio/transcriptions"), ("GET", "/openapi.json")):
            status, _, content = await asyncio.to_thread(post, url, path, b"x", method)
            assert (status, error(content)) == (404, "not_found")
