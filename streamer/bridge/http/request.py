"""A request as its handler sees it: already split into its parts. Its body is received only when it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field


class Headers:
    """The header fields of a request. Names are not case-sensitive, and a name may occur several times."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple(fields)

    def all(self, name: str) -> list[str]:
        """Return every value of this name, in order."""
        lower = name.lower()
        return [value for field_name, value in self._fields if field_name.lower() == lower]

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of this name, or the default."""
        return next(iter(self.all(name)), default)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


@dataclass(frozen=True)
class Request:
    """One request. `path` and `query` are as sent: percent-encoding is not decoded, and `..` is not resolved."""

    method: str
    path: str
    query: str = ""
    headers: Headers = field(default_factory=Headers)
    peer: str = ""  # the address at the other end of the connection: a proxy's, if there is one
    version: str = "1.1"
    # The pieces as they arrive. Reading them raises HttpError if the body is too large, too slow, or broken.
    body: AsyncIterator[bytes] = field(default_factory=_nothing)

    async def content(self) -> bytes:
        """Read the whole body. Its path limits its size."""
        return b"".join([piece async for piece in self.body])


def split_target(target: str) -> tuple[str, str]:
    """Split the target of a request into path and query. Any text is accepted."""
    if not target.startswith("/"):
        # A proxy may send a whole URL.
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() in ("http", "https", "ws", "wss"):
            host, slash, path = rest.partition("/")
            if "?" in host:
                path, slash = host.partition("?")[2] + slash + path, "/?"
            target = (slash or "/") + path
    path, _, query = target.partition("?")
    return path, query
