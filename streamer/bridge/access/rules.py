"""Who may come in: decided from a request's key, origin and address before anything else is done for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.quotas import Admittance, Caller, Denied, QuotaLimits, Quotas
from streamer.bridge.http.request import Headers, Request

# A browser cannot set headers on a websocket, only subprotocols: it offers the first of these, which is what the
# service answers with, and its key behind the second one.
SUBPROTOCOL = "streamer"
KEY_SUBPROTOCOL = "streamer.key."
ANY_ORIGIN = "*"
_PORTS = {"http": 80, "https": 443}


class AccessRules:
    """The rules of one service. Without keys everybody may come in who is not a page of somebody else."""

    def __init__(
        self,
        keys: KeyFile | None = None,
        *,
        origins: Iterable[str] = (),
        proxies: int = 0,
        shares: QuotaLimits | None = None,
        open_metrics: bool = False,
    ) -> None:
        """`proxies` stand in front and add to X-Forwarded-For; with none that header is not believed."""
        self._keys = keys
        self._origins = frozenset(origins)
        self._proxies = proxies
        self._allowances = Quotas(shares or QuotaLimits())
        self._open_metrics = open_metrics

    def refresh(self) -> None:
        """Looks at once whether the keys have changed, instead of at the next request."""
        if self._keys is not None:
            self._keys.refresh()

    def enter(self, request: Request) -> Admittance:
        """The visit of a websocket that is asked for so, to be left when it ends; Denied says why not."""
        return self._allowances.enter(self._admitted(request))

    def check(self, request: Request) -> None:
        """Denied if a websocket with this request would be."""
        self._allowances.check(self._admitted(request))

    def check_metrics(self, request: Request) -> None:
        """Denied if whoever asks may not read the metrics."""
        if not self._open_metrics:
            self._key_of(request)

    def caller(self, request: Request) -> Caller:
        """Who asks; Denied without a key that is known, where keys are asked for."""
        return Caller(self._address(request.headers, request.peer), self._key_of(request))

    def _admitted(self, request: Request) -> Caller:
        self._check_origin(request.headers, request.peer)
        return self.caller(request)

    def _key_of(self, request: Request) -> str:
        if self._keys is None:
            return ""
        presented = _presented(request)
        if not presented:
            raise Denied(
                "unauthorized",
                "A key is needed: as the header 'Authorization: Bearer KEY', as the subprotocol "
                f"'{KEY_SUBPROTOCOL}KEY' offered beside '{SUBPROTOCOL}', or as '?key=KEY'.",
            )
        name = self._keys.name_of(presented)
        if name is None:
            raise Denied("unauthorized", "This key is not known here; whoever runs the service has others.")
        return name

    def _check_origin(self, headers: Headers, peer: str) -> None:
        """Only browsers say where a page comes from, and they always do so on a websocket."""
        given = headers.all("Origin")
        if not given or ANY_ORIGIN in self._origins:
            return
        origin, hosts = given[0].lower(), headers.all("Host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if len(given) == 1 and (origin in self._origins or self._own_page(origin, host, peer)):
            return
        raise Denied(
            "bad_origin",
            f"Pages of {origin[:80]!r} may not use this service; whoever runs it can allow them: --origin.",
        )

    def _own_page(self, origin: str, host: str, peer: str) -> bool:
        """Whether a page comes from this service itself, or from this very machine for a service on it."""
        page, here = _host_and_port(origin), _host_and_port(f"{origin.partition('://')[0]}://{host}")
        if page is None or here is None:
            return False
        if page == here:
            # Without keys a name proves nothing: anybody can have his own name point to somebody else's service.
            return self._keys is not None or _is_literal(here[0])
        return _is_loopback(page[0]) and _is_loopback(here[0]) and _is_loopback(peer)

    def _address(self, headers: Headers, peer: str) -> str:
        if self._proxies:
            told = ",".join(headers.all("X-Forwarded-For")).split(",")
            # Each proxy appends whom it saw. What stands further left is what the client itself has sent.
            if len(told) >= self._proxies and (address := _plain_address(told[-self._proxies])):
                return address
        return _plain_address(peer) or peer


def _presented(request: Request) -> str:
    """The key that came with a request: of several the one from the most private part."""
    for header in request.headers.all("Authorization"):
        scheme, _, key = header.partition(" ")
        if scheme.lower() == "bearer":
            return key.strip()
    for offered in ",".join(request.headers.all("Sec-WebSocket-Protocol")).split(","):
        if offered.strip().startswith(KEY_SUBPROTOCOL):
            return offered.strip().removeprefix(KEY_SUBPROTOCOL)
    return parse_qs(request.query).get("key", [""])[0]


def origin_of(text: str) -> str | None:
    """An allowed origin as browsers send it; None if it is none."""
    text = text.rstrip("/").lower()
    scheme, _, host = text.partition("://")
    if text in (ANY_ORIGIN, "null") or (scheme and host and not set(host) & set("/?#@ ")):
        port = _PORTS.get(scheme)
        return text.removesuffix(f":{port}") if port else text
    return None


def _host_and_port(origin: str) -> tuple[str, int] | None:
    """Host and port of an origin; None if it is not one of the web, such as `null`."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port and parts.scheme in _PORTS else None


def _plain_address(text: str) -> str:
    """An address without port and brackets, IPv4 as IPv4; nothing if it is none."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    address = _plain_address(host)
    return bool(address) and ipaddress.ip_address(address).is_loopback


def _is_literal(host: str) -> bool:
    return host == "localhost" or bool(_plain_address(host))
