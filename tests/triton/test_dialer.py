"""Connecting to a real Triton that requires TLS and a key."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from streamer.bridge.service import Service
from streamer.testing.exact_repository import exact_repository
from streamer.testing.exact_speech import say
from streamer.triton import TritonError, server
from streamer.triton.dialer import secure_dialer
from streamer.triton.link import Link, LinkError
from streamer.triton.server import TritonServer
from tests.bridge.service_client import recognise, text

SECRET = "opensesame"


@dataclass(frozen=True)
class Guarded:
    """A Triton that requires client certificates and a key, and the files for that."""

    address: str
    roots: Path
    chain: Path
    key: Path
    metadata: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    roots, metadata = folder / "roots.pem", folder / "metadata"
    authority.cert_pem.write_to_path(str(roots))
    metadata.write_text(f"# for Triton\ntriton-grpc-protocol-door: {SECRET}\n")
    for name in ("localhost", "bridge"):
        issued = authority.issue_cert(name)
        (folder / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (folder / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
    options = {
        "grpc-use-ssl": 1,
        "grpc-use-ssl-mutual": 1,
        "grpc-server-cert": folder / "localhost.pem",
        "grpc-server-key": folder / "localhost.key",
        "grpc-root-cert": roots,
        "grpc-restricted-protocol": f"inference,model-config:door={SECRET}",
    }
    plain = server._command

    @functools.wraps(plain)
    def command(*arguments: object) -> list[str]:
        return [*plain(*arguments), *(f"--{name}={value}" for name, value in options.items())]  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "_command", command)
        with TritonServer(exact_repository(folder / "models"), instances=1, slots=4) as running:
            address = running.grpc_address.replace("127.0.0.1", "localhost")
            yield Guarded(address, roots, folder / "bridge.pem", folder / "bridge.key", metadata)


async def test_sessions_over_tls_with_a_key(guarded: Guarded) -> None:
    """A service with such a Triton recognises as usual; addresses are checked against the name that they stand for."""
    dial = secure_dialer(guarded.roots, guarded.chain, guarded.key, guarded.metadata)
    async with Service(guarded.address, port=0, dial=dial) as service:
        assert text(await recognise(service.url, say("open sesame").tobytes())) == "open sesame"


async def test_who_lacks_something_is_not_served(guarded: Guarded) -> None:
    """Clients without TLS, roots, certificate or key, or with another name, are not served."""
    all_of_it = (guarded.roots, guarded.chain, guarded.key, guarded.metadata)
    link = await Link.connect(guarded.address, dial=secure_dialer(*all_of_it))
    await link.close()
    with pytest.raises(LinkError):
        await Link.connect(guarded.address)
    for missing in (0, 1, 3):
        given = [
            None if place == missing or (missing, place) == (1, 2) else file for place, file in enumerate(all_of_it)
        ]
        with pytest.raises(LinkError):
            await Link.connect(guarded.address, timeout=2, dial=secure_dialer(*given))
    with pytest.raises(LinkError):
        await Link.connect(guarded.address, timeout=2, dial=secure_dialer(*all_of_it).to("elsewhere:8001"))


@pytest.mark.parametrize("line", ["door", "door:", ": value", "dör: value"])
def test_metadata_that_is_none_is_named_but_not_shown(tmp_path: Path, line: str) -> None:
    """The message does not show the line, because it is a secret."""
    (tmp_path / "metadata").write_text(f"a: b\n{line}\n")
    with pytest.raises(TritonError, match="Line 2 of") as caught:
        secure_dialer(metadata=tmp_path / "metadata")
    assert line not in str(caught.value).replace(str(tmp_path), "").replace("'name: value'", "")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """Missing files are reported before anything connects."""
    with pytest.raises(TritonError, match="none cannot be read: No such file"):
        secure_dialer(tmp_path / "none")
