"""Deepgram's clients at its paths for models, projects and tokens, with a real service and real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.server import BridgeServer
from streamer.wire.dialects.deepgram import model_info
from streamer.wire.dialects.deepgram_models import PROJECT_ID
from tests.bridge.access.bare_port import ALICE, listening
from tests.bridge.uploads.uploading import post

TOKEN = {"Authorization": f"Token {ALICE.secret}"}
BEARER = {"Authorization": f"Bearer {ALICE.secret}"}
PROJECT = f"/v1/projects/{PROJECT_ID}"
UUID = model_info("default")[0]


@pytest.fixture
async def guarded(keys: KeyFile) -> AsyncIterator[BridgeServer]:
    """Provide a port with keys."""
    async with listening(AccessRules(keys)) as server:
        yield server


async def get(server: BridgeServer, path: str, **headers: str) -> tuple[int, Any]:
    status, _, content = await asyncio.to_thread(lambda: post(server.url, path, method="GET", **headers))
    return status, json.loads(content)


async def test_models(guarded: BridgeServer) -> None:
    """Models have Deepgram's form for its scheme of keys, in a project too; OpenAI's clients get their own form."""
    for path in ("/v1/models", f"{PROJECT}/models"):
        status, told = await get(guarded, path, **TOKEN)
        [model] = told["stt"]
        assert (status, told["tts"]) == (200, [])
        assert model["name"] == model["canonical_name"] == "default"
        assert (model["uuid"], model["streaming"], model["batch"]) == (UUID, True, True)
    assert (await get(guarded, "/v1/models", **BEARER))[1]["object"] == "list"


async def test_a_body_without_a_meaning(guarded: BridgeServer) -> None:
    """Older clients send a body where there is nothing to say; it is no reason to refuse them."""
    status, _, content = await asyncio.to_thread(lambda: post(guarded.url, "/v1/models", b"{}", "GET", **TOKEN))
    assert (status, list(json.loads(content))) == (200, ["stt", "tts"])


@pytest.mark.parametrize("base", ["/v1/models", f"{PROJECT}/models"])
async def test_one_model(guarded: BridgeServer, base: str) -> None:
    """A model is found by its UUID and by its name; others are not there."""
    for wanted in (UUID, "default"):
        status, told = await get(guarded, f"{base}/{wanted}", **TOKEN)
        assert (status, told["uuid"], told["version"] != "") == (200, UUID, True)
    status, told = await get(guarded, f"{base}/nova-3", **TOKEN)
    assert (status, told["err_code"], "default" in str(told["err_msg"])) == (404, "NOT_FOUND", True)


async def test_projects(guarded: BridgeServer) -> None:
    """There is one project, which has models and nothing else."""
    [project] = (await get(guarded, "/v1/projects", **TOKEN))[1]["projects"]
    assert (await get(guarded, f"/v1/projects/{project['project_id']}", **TOKEN)) == (200, project)
    for path in (f"{PROJECT}/keys", f"{PROJECT}/", "/v1/projects/another/models"):
        status, told = await get(guarded, path, **TOKEN)
        assert (status, told["err_code"]) == (404, "NOT_FOUND")
        assert told["request_id"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/projects", PROJECT, f"{PROJECT}/models", f"{PROJECT}/keys"])
async def test_a_wrong_key(guarded: BridgeServer, path: str) -> None:
    """A wrong key is refused in Deepgram's form."""
    status, told = await get(guarded, path, Authorization="Token wrong")
    assert (status, told["err_code"]) == (401, "INVALID_AUTH")


@pytest.mark.parametrize(("body", "seconds"), [(b"", 30), (b'{"ttl_seconds": 5.0}', 5), (b"{}", 30)])
async def test_a_token_for_a_short_time(guarded: BridgeServer, body: bytes, seconds: int) -> None:
    """A token admits in its maker's place, and makes no others."""

    def ask(path: str, body: bytes, method: str, **headers: str) -> tuple[int, Any]:
        status, _, content = post(guarded.url, path, body, method, **headers)
        return status, json.loads(content)

    status, told = await asyncio.to_thread(lambda: ask("/v1/auth/grant", body, "POST", **TOKEN))
    assert (status, told["expires_in"]) == (200, seconds)
    short = {"Authorization": f"Bearer {told['access_token']}"}
    assert (await get(guarded, "/v1/projects", **short))[0] == 200
    status, told = await asyncio.to_thread(lambda: ask("/v1/auth/grant", b"", "POST", **short))
    assert (status, told["err_code"]) == (401, "INVALID_AUTH")


@pytest.mark.parametrize("body", [b'{"ttl_seconds": 0}', b'{"ttl_seconds": 3601}', b'{"ttl_seconds": true}', b"[]"])
async def test_refused_requests_for_tokens(guarded: BridgeServer, body: bytes) -> None:
    """A lifetime that cannot be is refused in Deepgram's form."""
    status, _, content = await asyncio.to_thread(lambda: post(guarded.url, "/v1/auth/grant", body, **TOKEN))
    assert (status, json.loads(content)["err_code"]) == (400, "Bad Request")
