"""How a Triton is reached: in the clear, or with TLS and then perhaps with metadata, such as a key that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from streamer.triton import TritonError

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # Triton is asked directly, whatever the environment says about the web
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own for each link
)


@dataclass(frozen=True)
class Dialer:
    """Without credentials nothing is encrypted."""

    credentials: Any = None  # grpc.ChannelCredentials
    host: str = ""  # whose certificate it has to be, if an address stands for a name

    def to(self, name: str) -> Dialer:
        """For the addresses of this name, host:port."""
        return replace(self, host=name.rpartition(":")[0].strip("[]"))

    def channel(self, address: str) -> Any:
        """A new channel to this address."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
        named = (("grpc.ssl_target_name_override", self.host),) if self.host else ()
        return grpc.aio.secure_channel(address, self.credentials, (*CHANNEL_OPTIONS, *named))


PLAIN = Dialer()


def secure(
    roots: Path | None = None, chain: Path | None = None, key: Path | None = None, metadata: Path | None = None
) -> Dialer:
    """With TLS; TritonError if a file cannot be used.

    `roots` instead of those that gRPC knows; `chain` and `key` for a Triton that wants a certificate of ours;
    `metadata` has lines `name: value`, which go with every call.
    """
    credentials = grpc.ssl_channel_credentials(_content(roots), _content(key), _content(chain))
    if metadata is not None:
        calls = grpc.metadata_call_credentials(_Metadata(_pairs(metadata)))
        credentials = grpc.composite_channel_credentials(credentials, calls)
    return Dialer(credentials)


class _Metadata(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """Says the same for every call. gRPC lets it speak only where there is TLS."""

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
        # The line is not repeated: it has a secret in it.
        if not (colon and name and value) or not (name + value).isascii() or not (name + value).isprintable():
            raise TritonError(f"Line {number} of {path} is no metadata: it is 'name: value'.")
        pairs.append((name.lower(), value))
    return pairs
