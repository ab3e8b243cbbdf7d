"""Recordings from pages of other sites: the answers to their browsers, before and after the upload."""

from __future__ import annotations

import asyncio

import pytest

from streamer.bridge.access.rules import AccessRules
from streamer.wire import native_upload
from streamer.wire.dialects import openai_upload
from tests.bridge.access.bare_port import listening
from tests.bridge.uploads.uploading import error, post

FRIEND, STRANGER = "https://friend.example", "https://stranger.example"
ASKED = "authorization,content-type,x-stainless-os"


@pytest.mark.parametrize(
    ("path", "method"),
    [(native_upload.PATH, "POST"), (openai_upload.PATH, "POST"), (openai_upload.MODELS, "GET")],
)
async def test_a_browser_is_told_what_a_page_may_send(path: str, method: str) -> None:
    """A browser asks without a key. Only pages that may use the service get a permission."""
    async with listening(AccessRules(origins=[FRIEND])) as server:
        url = f"http://127.0.0.1:{server.port}"
        asking = {"Access_Control_Request_Method": method, "Access_Control_Request_Headers": ASKED}
        status, permitted, _ = await asyncio.to_thread(post, url, path, b"", "OPTIONS", Origin=FRIEND, **asking)
        assert status == 204
        assert permitted["access-control-allow-origin"] == FRIEND
        assert permitted["access-control-allow-methods"] == method
        assert permitted["access-control-allow-headers"] == ASKED
        assert permitted["vary"] == "Origin"
        status, refused, _ = await asyncio.to_thread(post, url, path, b"", "OPTIONS", Origin=STRANGER, **asking)
        assert status == 204
        assert not [name for name in refused if name.startswith("access-control-")]


async def test_a_page_reads_answers_and_refusals() -> None:
    """An allowed page can read answers, refusals and when to try again; pages of strangers read nothing."""
    async with listening(AccessRules(origins=[FRIEND])) as server:
        url = f"http://127.0.0.1:{server.port}"
        for origin, code in ((FRIEND, "not_ready"), (STRANGER, "bad_origin")):
            status, headers, content = await asyncio.to_thread(post, url, native_upload.PATH, b"x", Origin=origin)
            assert (status, error(content)) == ({"not_ready": 503, "bad_origin": 403}[code], code)
            assert headers.get("access-control-allow-origin") == (FRIEND if origin == FRIEND else None)
            assert ("retry-after" in headers) == ("access-control-expose-headers" in headers)
        status, headers, _ = await asyncio.to_thread(post, url, "/healthz", b"", "OPTIONS", Origin=FRIEND)
        assert (status, headers.get("access-control-allow-origin")) == (405, None)


async def test_names_of_header_fields_are_not_repeated_unseen() -> None:
    """A list of header fields is repeated only if it has nothing but names."""
    async with listening(AccessRules(origins=["*"])) as server:
        url = f"http://127.0.0.1:{server.port}"
        for asked in ("a b", "a;b", "<x>", ""):
            _, headers, _ = await asyncio.to_thread(
                post, url, native_upload.PATH, b"", "OPTIONS", Origin=STRANGER, Access_Control_Request_Headers=asked
            )
            assert headers["access-control-allow-origin"] == STRANGER
            assert "access-control-allow-headers" not in headers
