"""New connections, before they send anything, are counted and bounded, and never stop the listener."""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus

import pytest

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.http import channel, listener
from streamer.bridge.http.request import Request, Response, text
from streamer.bridge.http.routes import Route
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.access.proxy_headers import LOCAL, block, line
from tests.bridge.descriptors import no_descriptors
from tests.bridge.http.reader import Port, port

LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def answer(_: Request) -> Response:
    return text(HTTPStatus.OK, "here")


ROUTES = {"/": Route({"GET": answer})}


async def test_opening_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection above the limit is cut off at once; connections with a request do not count."""
    monkeypatch.setattr(channel, "MOST_OPENING", 2)
    async with port(ROUTES) as opened:
        await bounded(opened)


async def test_tls_counts_from_the_first_byte(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent clients of a TLS port are bounded like those of any other port."""
    monkeypatch.setattr(channel, "MOST_OPENING", 2)
    async with port(ROUTES, certificate=Certificate(authority.chain, authority.key)) as opened:
        await bounded(opened)
        reader, writer = await asyncio.open_connection("localhost", opened.number, ssl=authority.trusted)
        writer.write(LAST)
        assert b"here" in await asyncio.wait_for(reader.read(), 60)
        writer.close()


async def bounded(opened: Port) -> None:
    """Limit the number of silent clients to two."""
    silent = [await opened.connect(), await opened.connect()]
    await opened.until(opening=2)
    assert await opened.told(b"") == b""
    assert opened.dropped == ["too_many"]
    assert opened.numbers["opening"] == 2
    for peer in silent:
        peer.close()
    await opened.until(opening=0)


async def test_silence(authority: Authority) -> None:
    """A silent client is cut off after the time for TLS and a request together."""
    for certificate in (None, Certificate(authority.chain, authority.key)):
        async with port(ROUTES, head_limit_s=0.2, certificate=certificate) as opened:
            assert await opened.told(b"") == b""
            assert opened.dropped == ["too_slow"]
            assert await opened.told(b"GET /" if certificate is None else b"\x16\x03\x01") == b""
            assert opened.dropped == ["too_slow"] * 2


async def test_no_tls(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A client without TLS at a TLS port is counted, but not logged."""
    async with port(ROUTES, certificate=Certificate(authority.chain, authority.key)) as opened:
        with caplog.at_level(logging.WARNING):
            await opened.told(LAST)
            (await opened.connect()).close()
            for _ in range(6000):
                if len(opened.dropped) == 2:
                    break
                await asyncio.sleep(0.01)
        assert opened.dropped == ["tls", "tls"]
        assert opened.failed == 0
        assert caplog.text == ""


async def test_out_of_descriptors(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing descriptors are counted and logged once a minute; waiting clients are served later."""
    monkeypatch.setattr(listener, "ACCEPT_PAUSE_S", 0.02)
    with caplog.at_level(logging.WARNING):
        async with port(ROUTES) as opened:
            client = socket.create_connection(("127.0.0.1", opened.number))
            client.sendall(LAST)
            with no_descriptors():
                while opened.unaccepted < 5:  # noqa: ASYNC110 nothing tells
                    await asyncio.sleep(0.01)
            client.setblocking(False)
            assert b"here" in await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1000), 60)
            client.close()
    assert [record.getMessage() for record in caplog.records] == ["connections cannot be accepted"]
    assert caplog.records[0].exc_info is None


async def shown(request: Request) -> Response:
    return text(HTTPStatus.OK, f"from {request.peer}.")


SHOWN = {"/": Route({"GET": shown})}
HERE = Proxies(["127.0.0.1"])


async def test_the_proxy_protocol() -> None:
    """A proxy's connection has the address that its header names, however the header is divided."""
    async with port(SHOWN, header_proxies=HERE) as opened:
        for header, source in ((line("192.0.2.7"), "192.0.2.7"), (block("2001:db8::7"), "2001:db8::7")):
            assert f"from {source}.".encode() in await opened.told(header + LAST)
        assert b"from 127.0.0.1." in await opened.told(LOCAL + LAST)
        peer = await opened.connect()
        for place in range(len(whole := line("192.0.2.8") + LAST)):
            peer.writer.write(whole[place : place + 1])
            await asyncio.sleep(0)
        assert b"from 192.0.2.8." in await asyncio.wait_for(peer.reader.read(), 60)
        peer.close()
        assert opened.dropped == []


async def test_the_proxy_protocol_before_tls(authority: Authority) -> None:
    """The header comes before TLS, and TLS gets every byte behind it."""
    async with port(SHOWN, certificate=Certificate(authority.chain, authority.key), header_proxies=HERE) as opened:
        plain = socket.create_connection(("127.0.0.1", opened.number))
        plain.sendall(block("192.0.2.7", more=b"\x04\x00\x01x"))
        plain.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=plain, ssl=authority.trusted, server_hostname="localhost")
        writer.write(LAST)
        assert b"from 192.0.2.7." in await asyncio.wait_for(reader.read(), 60)
        writer.close()


async def test_connections_without_a_valid_header(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy without a valid header is cut off, and that is logged once. One that only connects is not counted."""
    async with port(SHOWN, header_proxies=HERE) as opened:
        with caplog.at_level(logging.WARNING):
            for sent in (LAST, b"PROXY TCP4 nonsense\r\n" + LAST):
                assert await opened.told(sent) == b""
            for sent in (line("192.0.2.7")[:20], b""):
                peer = await opened.connect(sent)
                peer.writer.write_eof()
                assert await peer.rest() == b""
                peer.close()
        assert opened.dropped == ["proxy_header"] * 3
    [record] = caplog.records
    assert record.getMessage() == "a trusted proxy sent no valid header of the PROXY protocol"


async def test_a_header_from_somebody_else() -> None:
    """A header of anybody who is not trusted is not HTTP, and so is answered with 400."""
    async with port(SHOWN, header_proxies=Proxies(["192.0.2.0/24"])) as opened:
        for header in (line("192.0.2.7"), block("192.0.2.7")):
            assert b"HTTP/1.1 400 " in await opened.told(header + LAST)
        assert b"from 127.0.0.1." in await opened.told(LAST)


async def test_a_header_that_does_not_come() -> None:
    """A proxy that sends no header in time is cut off."""
    async with port(SHOWN, head_limit_s=0.2, header_proxies=HERE) as opened:
        assert await opened.told(b"PROXY ") == b""
        assert opened.dropped == ["too_slow"]


async def test_all_addresses_of_a_name() -> None:
    """All addresses of a name get the same port."""
    async with port(ROUTES) as opened:
        second = listener.Listener(opened.terms)
        number = await second.open("localhost", 0)
        for family, _, _, _, address in socket.getaddrinfo("localhost", number, type=socket.SOCK_STREAM):
            reader, writer = await asyncio.open_connection(str(address[0]), number, family=family)
            writer.write(LAST)
            assert b"here" in await asyncio.wait_for(reader.read(), 60)
            writer.close()
        second.close()
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", number)
        await second.finish(1.0)
