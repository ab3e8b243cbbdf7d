"""Opens connections to a Triton: unencrypted, or with TLS, which also allows metadata such as a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from streamer.triton import TritonError

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # ignore a proxy that the environment names
    ("grpc.use_local_subchannel_pool", 1),  # open a connection for every link
)


@dataclass(frozen=True)
class Dialer:
    """Opens gRPC channels. They are encrypted if there are credentials."""

    credentials: Any = None  # grpc.ChannelCredentials
    host: str = ""  # the host that the certificate must name, if the address was resolved from a name

    def to(self, name: str) -> Dialer:
        """Return a dialer for the addresses of this name, which is host:port."""
        return replace(self, host=name.rpartition(":")[0].strip("[]"))

    def channel(self, address: str) -> Any:
        """Open a new channel to this address."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
        override = (("grpc.ssl_target_name_override", self.host),) if self.host else ()
        return grpc.aio.secure_channel(address, self.credentials, (*CHANNEL_OPTIONS, *override))


PLAIN = Dialer()


def secure_dialer(
    roots: Path | None = None, chain: Path | None = None, key: Path | None = None, metadata: Path | None = None
) -> Dialer:
    """Return a dialer that uses TLS. Raise TritonError if a file cannot be used.

    `roots` replaces the root certificates of gRPC. `chain` and `key` are our own certificate, for a Triton that
    requires one. `metadata` is a file of lines `name: value`, which go with every call.
    """
    credentials = grpc.ssl_channel_credentials(_content(roots), _content(key), _content(chain))
    if metadata is not None:
        calls = grpc.metadata_call_credentials(_Metadata(_pairs(metadata)))
        credentials = grpc.composite_channel_credentials(credentials, calls)
    return Dialer(credentials)


class _Metadata(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """A plugin that adds the same metadata to every call. gRPC allows this only with TLS."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)

    def __call__(self, context: object, callback: Callable[[Sequence[tuple[str, str]], None], None]) -> None:
        callback(self._pairs, None)


def _content(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise TritonError(f"{path} cannot be read: {error.strerror}.") from error


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = (_content(path) or b"").decode(errors="replace").splitlines()
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        # The message does not quote the line, because the line may have a secret.
        if not (colon and name and value) or not (name + value).isascii() or not (name + value).isprintable():
            raise TritonError(f"Line {number} of {path} is not valid metadata: write 'name: value'.")
        pairs.append((name.lower(), value))
    return pairs
