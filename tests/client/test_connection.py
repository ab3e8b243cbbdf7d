"""How a connection and its session fail, and what the error of the client says."""

from __future__ import annotations

import asyncio
import http
import ssl
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

import streamer.client.connection
from streamer.client import Session, SessionError, connect
from streamer.client.connection import CLOSE_S
from tests.bridge.access.certificate_authority import Authority
from tests.client.scripted_peer import READY, Polite, Script, events_of, failure, peer, says


async def test_a_service_that_is_away_is_one_sentence() -> None:
    """If the connection is refused, the message names the address."""
    async with peer(Polite()) as address:
        pass
    error = await failure(address)
    assert error.code == "away"
    assert str(error) == f"No service answers at {address}: the connection was refused."


@pytest.mark.parametrize("address", ["ftp://a", "a b", "host:99999"])
async def test_what_is_no_address_is_said(address: str) -> None:
    """An impossible address is refused before a connection is tried."""
    error = await failure(address)
    assert error.code == "bad_address"
    assert address in str(error)


@pytest.mark.parametrize(
    ("variable", "proxy", "words"),
    [
        ("http_proxy", "proxy.example:3128", "cannot be used: scheme proxy.example isn't supported."),
        ("http_proxy", "http://me:secret@proxy.example/way", "cannot be used: path is meaningless."),
        ("socks_proxy", "socks5://127.0.0.1:1", "pip install python-socks."),
    ],
)
async def test_a_proxy_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str, words: str
) -> None:
    """The proxy is that of the machine, so a sentence says what is wrong with it. It may have a password."""
    for name in ("http_proxy", "https_proxy", "socks_proxy", "ws_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(variable, proxy)
    error = await failure("no-such-host.invalid:1")
    assert error.code == "bad_address"
    assert str(error).endswith(words)
    assert "secret" not in str(error)


async def test_a_key_that_no_header_can_hold() -> None:
    """A key with a line break is refused before it is sent, and the error does not show it."""
    with pytest.raises(SessionError, match="The key has a line break") as refused:
        await connect("127.0.0.1:1", key="secret\n")
    assert refused.value.code == "unauthorized"
    assert "secret" not in str(refused.value)


async def test_an_unknown_host_is_one_sentence() -> None:
    """An unknown host is reported in the same way as a closed port."""
    error = await failure("no-such-host.invalid:1")
    assert error.code == "away"
    assert "\n" not in str(error)


async def test_a_refused_handshake_says_when_to_try_again() -> None:
    """If the answer is an HTTP status, the message repeats its Retry-After."""

    def refuse(connection: ServerConnection, request: Any) -> Any:
        response = connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "full\n")
        response.headers["Retry-After"] = "7"
        return response

    async with peer(Polite(), process_request=refuse) as address:
        error = await failure(address)
    assert error.code == "refused"
    assert "status 503; try again in 7 s" in str(error)


async def test_a_port_with_tls_is_said(tmp_path: Path) -> None:
    """A client without TLS is told the address with TLS; other services on a port are none."""
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.chain, authority.key)
    async with peer(Polite(), ssl=context) as address:
        for given in (address, f"ws://{address}/v1/stream?key=secret"):
            error = await failure(given)
            assert error.code == "bad_address"
            assert str(error).endswith(f" speaks TLS: use wss://{address}.")
            assert "secret" not in str(error)


async def test_a_session_that_is_given_up_ends_soon() -> None:
    """A service that reads nothing, because it has enough to do, does not delay the end of a client."""
    held = asyncio.Event()

    async def busy(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        websocket.transport.pause_reading()
        await held.wait()

    loop = asyncio.get_running_loop()
    async with peer(busy) as address:
        session = await connect(address)
        sending = asyncio.create_task(_send_for_ever(session))
        await asyncio.sleep(0.5)
        sending.cancel()
        began = loop.time()
        await session.close()
        assert loop.time() - began < CLOSE_S
        held.set()


async def _send_for_ever(session: Session) -> None:
    while True:
        await session.send(bytes(1 << 20))


async def test_a_connection_that_closed_itself() -> None:
    """If its last data was written when it was already closing, it is lost for who sends, and can be cut off."""
    served: list[ServerConnection] = []

    async def pause(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        websocket.transport.pause_reading()
        served.append(websocket)
        await websocket.wait_closed()

    async with peer(pause) as address:
        session = await connect(address)
        connection = session._connection
        transport = connection._websocket.transport
        while not transport.get_write_buffer_size():
            transport.write(bytes(1_000_000))
        transport.close()
        served[0].transport.resume_reading()
        await connection._websocket.wait_closed()
        with pytest.raises(SessionError) as caught:
            await connection.send(b"")
        assert caught.value.code == "lost"
        connection.abort()
        await session.close()


async def test_something_else_on_the_port_is_no_service() -> None:
    """A server of another kind is distinguished from a service that is away."""

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ready\r\n")
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(chatter, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(f"127.0.0.1:{port}")
    assert error.code == "no_service"


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (says('{"type":"error","code":"bad_option","message":"No.","fatal":true}'), "bad_option", "No."),
        (says(READY, '{"type":"error","code":"idle","message":"Slept."}'), "idle", "Slept."),
        (says(code=1013, reason="full: try again in 5 s"), "full", "try again in 5 s"),
        (says(r'{"type":"error","code":7,"message":"A\u001b]52;c;\u0007\n\u202eb."}'), "7", r"^A \]52;c;  b\.$"),
        (says(READY, code=1011, reason="Triton died"), "closed", r"Triton died \(code 1011\)"),
        (says(READY), "closed", "before its end"),
        (says("hello"), "not_understood", "hello"),
        (says("[1]"), "not_understood", "Streamer's protocol"),
        (says('{"type":"heard"}'), "not_understood", "Streamer's protocol"),
        (says(READY, b"\0\1"), "not_understood", "Streamer's protocol"),
    ],
)
async def test_each_way_a_session_fails(script: Script, code: str, words: str) -> None:
    """An error event, a close with a reason and a nonsensical peer each have a code and a message."""
    async with peer(script) as address:
        with pytest.raises(SessionError, match=words) as caught:
            await events_of(address)
    assert caught.value.code == code


async def test_an_error_that_is_not_fatal_is_an_event() -> None:
    """The session goes on after an error that is not fatal."""
    complaint = '{"type":"error","code":"odd","message":"Hm.","fatal":false}'
    async with peer(says(READY, complaint, '{"type":"done","audio_ms":0}')) as address:
        assert [event["type"] for event in await events_of(address)] == ["ready", "error", "done"]


async def test_a_lost_connection_is_said() -> None:
    """A connection that ends without a close frame is reported as lost."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        websocket.transport.abort()

    async with peer(script) as address:
        error = await failure(address)
    assert error.code == "lost"
    assert "was lost" in str(error)


@pytest.mark.parametrize("answers", [[], [READY]])
async def test_a_peer_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> None:
    """A peer that sends nothing is given up after a limit, before `ready` and after it."""
    monkeypatch.setattr(streamer.client.connection, "PATIENCE_S", 0.2)
    monkeypatch.setattr(streamer.client.connection, "CLOSE_S", 0.1)

    async def script(websocket: ServerConnection) -> None:
        for answer in answers:
            await websocket.send(answer)
        try:
            async for _ in websocket:
                pass
        except ConnectionClosed:
            pass

    async with peer(script) as address:
        error = await failure(address)
    assert error.code == "overdue"
    assert "for 0.2 s" in str(error)


async def test_the_next_address_serves() -> None:
    """Of several addresses, the first one that answers and does not refuse for now has the session."""
    polite = Polite()
    shutting_down = '{"type":"error","code":"shutting_down","message":"It shuts down.","fatal":true}'
    async with peer(Polite()) as away:
        pass
    async with peer(says(shutting_down, code=1013)) as ending, peer(polite) as address:
        events = await events_of(f"{away}, {ending},{address}")
    assert [event["type"] for event in events] == ["ready", "done"]
    assert [text["type"] for text in polite.texts] == ["start", "stop"]


async def test_no_address_serves() -> None:
    """If all addresses refuse, the error is that of the last one; one that does not pass is told at once."""
    unknown = '{"type":"error","code":"unknown_model","message":"There is none.","fatal":true}'
    async with peer(Polite()) as away:
        pass
    async with peer(says(unknown, code=4000)) as refusing:
        assert (await failure(f"{away},{away}")).code == "away"
        assert (await failure(f"{refusing},{away}")).code == "unknown_model"
