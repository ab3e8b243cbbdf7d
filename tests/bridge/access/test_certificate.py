"""TLS with real certificates: trust, renewal without a restart, and other traffic at the port."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.access.certificate import Certificate, CertificateError
from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.server import BridgeServer
from streamer.client import SessionError, transcribe
from tests.bridge.access.bare_port import ADMITTED, ALICE, bearer, listening, outcome, started
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.descriptors import no_descriptors


def secure(server: BridgeServer) -> str:
    """Return the URL with the name that is in the certificate."""
    assert server.url.startswith("wss://127.0.0.1:")
    return server.url.replace("127.0.0.1", "localhost")


async def serial(url: str, context: ssl.SSLContext) -> object:
    """Return the serial number of the certificate that a new connection gets."""
    async with connect(url, ssl=context) as websocket:
        peer = websocket.transport.get_extra_info("peercert")
        return peer["serialNumber"]


async def test_tls(authority: Authority, keys: KeyFile) -> None:
    """A client that trusts the authority is served with its key; one that does not trust it gives up."""
    async with listening(AccessRules(keys), certificate=Certificate(authority.chain, authority.key)) as server:
        url = secure(server)
        assert await outcome(url, bearer(ALICE.secret), ssl=authority.trusted) == ADMITTED
        assert await outcome(url, ssl=authority.trusted) == ("unauthorized", 1008)
        with pytest.raises(ssl.SSLCertVerificationError):
            await outcome(url)


async def test_own_pages_over_tls(authority: Authority) -> None:
    """Over https, too, the service's own page counts as its own."""
    async with listening(certificate=Certificate(authority.chain, authority.key)) as server:
        own = {"Origin": f"https://localhost:{urlsplit(server.url).port}"}
        assert await outcome(secure(server), own, ssl=authority.trusted) == ADMITTED


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_old_tls_is_refused(authority: Authority) -> None:
    """Versions before TLS 1.2 are refused."""
    context = authority.trusted
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with listening(certificate=Certificate(authority.chain, authority.key)) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await outcome(secure(server), ssl=context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await outcome(secure(server), ssl=context) == ADMITTED


async def test_a_renewed_certificate_is_used_without_a_restart(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """New connections use a renewed certificate. Open ones stay open, and half a renewal changes nothing."""
    caplog.set_level(logging.INFO, logger="streamer")
    async with listening(certificate=Certificate(authority.chain, authority.key)) as server:
        url, trusted = secure(server), authority.trusted
        first = await serial(url, trusted)
        assert await serial(url, trusted) == first
        async with connect(url, ssl=trusted) as open_before:
            authority.renew(key=False)
            for _ in range(2):
                assert await serial(url, trusted) == first
            assert caplog.text.count("the old one stays") == 1
            authority.renew()
            assert await serial(url, trusted) != first
            assert await started(open_before) == ADMITTED
        authority.key.unlink()
        assert await serial(url, trusted) != first


async def test_a_renewed_certificate_is_used_after_a_reading_that_failed(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewed certificate is used although it could not be read when that was noticed."""
    certificate = Certificate(authority.chain, authority.key)
    async with listening(certificate=certificate) as server:
        first = await serial(secure(server), authority.trusted)
        authority.renew()
        for path in (authority.chain, authority.key):
            os.utime(path, (2, 2))
        with no_descriptors():
            certificate.refresh()
        assert "the old one" in caplog.text
        assert await serial(secure(server), authority.trusted) != first


async def test_silence_at_a_tls_port(authority: Authority) -> None:
    """A client that does not begin TLS is cut off after the set time."""
    async with listening(certificate=Certificate(authority.chain, authority.key), handshake_s=0.3) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_plain_text_at_a_tls_port(authority: Authority) -> None:
    """A client without TLS gets no answer, and the service goes on."""
    async with listening(certificate=Certificate(authority.chain, authority.key)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"alive" not in await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert await outcome(secure(server), ssl=authority.trusted) == ADMITTED


async def test_our_client_over_tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE names the root certificates; without it the client says what is wrong."""
    async with listening(certificate=Certificate(authority.chain, authority.key)) as server:
        url = secure(server)
        with pytest.raises(SessionError, match="set SSL_CERT_FILE to a file of trusted roots") as caught:
            await anext(transcribe([b""], url))
        assert caught.value.code == "untrusted"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
        with pytest.raises(SessionError) as caught:
            await anext(transcribe([b""], url))
        assert caught.value.code == "not_ready"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files: files.chain.unlink(), "chain.pem cannot be read"),
        (lambda files: files.key.unlink(), "key.pem cannot be read"),
        (lambda files: files.key.write_text("no key"), "cannot be used for TLS"),
        (lambda files: files.renew(key=False), "cannot be used for TLS: key values mismatch"),
        (lambda files: files.lock(), "has a password"),
    ],
)
def test_a_certificate_that_cannot_be_used(
    authority: Authority, spoil: Callable[[Authority], None], words: str
) -> None:
    """A certificate that cannot be used is refused with a sentence before anything starts."""
    spoil(authority)
    with pytest.raises(CertificateError, match=words):
        Certificate(authority.chain, authority.key)


def test_chain_and_key_in_one_file(authority: Authority) -> None:
    """The certificate and its key may be in the same file."""
    authority.chain.write_bytes(authority.chain.read_bytes() + authority.key.read_bytes())
    Certificate(authority.chain)
