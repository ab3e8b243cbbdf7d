"""A request as its handler sees it: already split into its parts, and its body only when somebody reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field


class Headers:
    """The header fields of a request. Names are compared without case, and a name may come several times."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple(fields)

    def all(self, name: str) -> list[str]:
        """Every value of this name, in order."""
        wanted = name.lower()
        return [value for given, value in self._fields if given.lower() == wanted]

    def get(self, name: str, default: str = "") -> str:
        """The first value of this name."""
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
    """One request. `path` and `query` are as they were sent: percent signs are not decoded, and nothing is resolved."""

    method: str
    path: str
    query: str = ""
    headers: Headers = field(default_factory=Headers)
    peer: str = ""  # the address at the other end of the connection: a proxy's, if there is one
    version: str = "1.1"
    # Pieces as they come. HttpError when the body is larger than its path allows, too slow, or broken.
    body: AsyncIterator[bytes] = field(default_factory=_nothing)

    async def content(self) -> bytes:
        """The whole body; its path says how large it may be."""
        return b"".join([piece async for piece in self.body])


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request's target, which can be anything: whatever it is, it is not an error here."""
    if not target.startswith("/"):
        # A proxy may name the whole address.
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() in ("http", "https", "ws", "wss"):
            host, slash, path = rest.partition("/")
            if "?" in host:
                path, slash = host.partition("?")[2] + slash + path, "/?"
            target = (slash or "/") + path
    path, _, query = target.partition("?")
    return path, query
