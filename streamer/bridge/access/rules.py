"""Decides which requests are admitted, by key, origin and address, before all else; and what protects the port."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from streamer.base.codes import ErrorCode
from streamer.base.limits import HANDSHAKE_LIMIT_S, LARGEST_MESSAGE
from streamer.bridge.access.call_signatures import SIGNATURE, CallSignatures
from streamer.bridge.access.keys import Entry, KeyFile, Role, SecretFile, digest_of, moment_of
from streamer.bridge.access.proxies import Proxies, plain_address
from streamer.bridge.access.quotas import (
    Admittance,
    Caller,
    Denied,
    Fetch,
    QuotaLimits,
    Quotas,
    UploadLimits,
    network_of,
)
from streamer.bridge.access.short_keys import PREFIX as SHORT
from streamer.bridge.access.short_keys import Holder, ShortKeys
from streamer.bridge.http.request import Headers, Request
from streamer.bridge.telemetry.usage import UsageFile
from streamer.bridge.workers.others import Alone, Others
from streamer.wire.dialects.formats import NATIVE

if TYPE_CHECKING:
    from streamer.bridge.access.certificate import Certificate

# A browser cannot set headers on a websocket, only subprotocols. So it offers SUBPROTOCOL, which the service accepts,
# and another one: KEY_SUBPROTOCOL followed by its key.
SUBPROTOCOL = "streamer"
KEY_SUBPROTOCOL = "streamer.key."
# Browser clients of OpenAI and Deepgram offer a key behind a prefix, or as the subprotocol after the name of a scheme.
KEY_PREFIXES = (KEY_SUBPROTOCOL, "openai-insecure-api-key.")
# Also in the header Authorization. The last one is what browsers with Soniox' client offer before the key.
KEY_SCHEMES = ("bearer", "token", "soniox-api-key")
AZURE_KEY = "api-key"  # the header of Azure's clients, which their browsers put into the query
AZURE_SPEECH_KEY = "Ocp-Apim-Subscription-Key"  # the same, of Azure's Speech SDK
# Without a scheme; the others are of Google and ElevenLabs.
KEY_HEADERS = (AZURE_KEY, AZURE_SPEECH_KEY, "x-goog-api-key", "xi-api-key")
KEY_OPTIONS = ("key", "token", AZURE_KEY, AZURE_SPEECH_KEY, "jwt")  # of the query; the last one is Speechmatics'
ANY_ORIGIN = "*"
_PORTS = {"http": 80, "https": 443}


class AccessRules:
    """The rules of one service. Without keys, every caller is admitted except the pages of other sites."""

    def __init__(
        self,
        keys: KeyFile | None = None,
        *,
        origins: Iterable[str] = (),
        proxies: Proxies | None = None,
        quotas: QuotaLimits | None = None,
        open_metrics: bool = False,
        others: Others | None = None,
        calls: CallSignatures | None = None,
    ) -> None:
        """`proxies`: the ones whose X-Forwarded-For is believed. Without any, that header is ignored.

        `others`: the other workers, with which limits and keys for a short time are shared. `calls`: whose streams of
        calls are admitted without a key.
        """
        self.others = others or Alone()
        self._keys = keys
        self._calls = calls or CallSignatures()
        self._origins = frozenset(origins)
        self._proxies = proxies or Proxies()
        self.quotas = Quotas(quotas or QuotaLimits(), self.others)
        self._open_metrics = open_metrics
        self._short_keys = ShortKeys(others=self.others)

    def refresh(self) -> None:
        """Check now whether the keys have changed, instead of at the next request."""
        if self._keys is not None:
            self._keys.refresh()
        self._calls.refresh()

    def enter(self, request: Request) -> Admittance:
        """Admit the session of a websocket with this request, or raise Denied. Call leave() when the session ends."""
        return self.quotas.enter(self.admit(request))

    def enter_call(self, request: Request) -> Admittance:
        """Admit a call with this request, or raise Denied. The signature of its network stands for a key.

        Without keys this needs a signature nevertheless: the words of a call go to where the operator says, who relies
        on it that they are those of a call.
        """
        name = self._calls.signer(request, self._proxies.hosts_of(request.headers, request.peer))
        if name is not None:
            self._check_origin(request.headers, request.peer)
            address = self._proxies.client_of(request.headers, request.peer)
            return self.quotas.enter(Caller(address, "" if self._keys is None else name))
        if self._calls.unsigned or (self._keys is not None and _key_in(request)):
            return self.enter(request)
        if SIGNATURE in request.headers and self._calls.expected:
            why = "The signature of this stream is not valid: it is made with another token, or for another address."
        else:
            why = f"A stream of a call needs a valid signature ({SIGNATURE}), or a key if the service has keys."
        raise Denied(ErrorCode.UNAUTHORIZED, why)

    def check(self, request: Request) -> None:
        """Raise Denied if a websocket with this request would be refused."""
        self.quotas.check(self.admit(request))

    def admits_page(self, request: Request) -> bool:
        """Return whether the page that sent this request may use the service; True if no page sent it."""
        try:
            self._check_origin(request.headers, request.peer)
        except Denied:
            return False
        return True

    def check_host(self, request: Request) -> None:
        """Raise Denied if a page could have sent this request under a name that is not this machine's.

        A browser names no origin when a page reads from the site that it comes from. So a page whose name was pointed
        to loopback after it was opened (DNS rebinding) is told by that name alone. A key or a proxy makes names public.
        """
        hosts = request.headers.all("Host")
        proxied = self._proxies.trusts(request.peer) or self._proxies.counted
        if not hosts or self._keys is not None or proxied or not _is_loopback(request.peer):
            return
        host = hosts[0].lower()
        name = (_host_and_port(f"http://{host}") or ("", 0))[0]
        allowed = {origin.partition("://")[2] for origin in self._origins}
        if _is_own_name(name) or ANY_ORIGIN in self._origins or allowed & {host, name}:
            return
        raise Denied(
            ErrorCode.BAD_ORIGIN,
            f"On this machine, the service has no name {host[:80]!r}: use localhost or an IP address. Its operator can "
            "allow the name with --origin.",
        )

    def check_metrics(self, request: Request) -> None:
        """Raise Denied if this request may not read the metrics."""
        self.check_host(request)
        if not self._open_metrics:
            self._lasting_key_of(request)

    def check_admin(self, request: Request) -> str:
        """Return the name of the admin key of this request. Raise Denied if it has none."""
        self._check_origin(request.headers, request.peer)
        self.check_host(request)
        if self._keys is None:
            why = "This needs a key for administration, and the service has no keys: start it with --keys, or use "
            raise Denied(ErrorCode.FORBIDDEN, f"{why}`streamer sessions` on its machine.")
        key = self._entry_of(request)
        if key.role is not Role.ADMIN:
            why = "This key is not for administration: `streamer key NAME --role admin` makes one that is."
            raise Denied(ErrorCode.FORBIDDEN, why, key=key.name)
        return key.name

    def caller(self, request: Request) -> Caller:
        """Return the caller of this request. Raise Denied if keys are required and it has no valid one."""
        return Caller(self._proxies.client_of(request.headers, request.peer), self._key_of(request))

    def holder(self, request: Request) -> Holder:
        """Return who may make keys for a short time with this request. Raise Denied if nobody may."""
        self._check_origin(request.headers, request.peer)
        if self._keys is None:
            return Holder(network_of(self._proxies.client_of(request.headers, request.peer)))
        key = self._entry_of(request)
        return Holder(key.name, key.digest, key.expires_at)

    def make_short_key(self, holder: Holder, seconds: int, content: str = "") -> tuple[str, int]:
        """Make a key for a short time. Return it and its end in seconds since 1970. Raise Denied if there are too many.

        `content`: what the key is for, which short_content() returns for requests with it.
        """
        return self._short_keys.make(holder, seconds, content)

    def short_content(self, request: Request) -> str:
        """Return what the short key of this request was made for; "" if it has none."""
        key = self._short_keys.find(_key_in(request))
        return "" if key is None else key.content

    def admit(self, request: Request) -> Caller:
        """Return the caller of this request, which may come from a page. Raise Denied if it is not admitted."""
        self._check_origin(request.headers, request.peer)
        return self.caller(request)

    def _key_of(self, request: Request) -> str:
        """Return the name of the key of this request, or of the lasting one that made it."""
        if self._keys is None:
            return ""
        key = self._short_keys.find(_key_in(request))
        if key is None:
            return self._lasting_key_of(request)
        maker = self._keys.find(key.holder.digest)
        if maker is None or time.time() >= maker.expires_at:
            raise Denied(ErrorCode.UNAUTHORIZED, "The key that made this key for a short time is not valid any more.")
        return maker.name

    def _lasting_key_of(self, request: Request) -> str:
        return "" if self._keys is None else self._entry_of(request).name

    def _entry_of(self, request: Request) -> Entry:
        """Return the lasting key of this request. Raise Denied if it has none that is valid."""
        assert self._keys is not None
        key = _key_in(request)
        if not key:
            raise Denied(
                ErrorCode.UNAUTHORIZED,
                "This service needs a key: send the header 'Authorization: Bearer KEY', offer the subprotocol "
                f"'{KEY_SUBPROTOCOL}KEY' beside '{SUBPROTOCOL}', or add '?key=KEY' to the URL.",
            )
        entry = self._keys.find(digest_of(key))
        if entry is not None and time.time() >= entry.expires_at:
            why = f"This key expired at {moment_of(entry.expires_at)}; ask the operator of the service for another one."
            raise Denied(ErrorCode.UNAUTHORIZED, why, key=entry.name)
        if entry is not None:
            return entry
        if self._short_keys.find(key) is not None:
            raise Denied(ErrorCode.UNAUTHORIZED, "This needs a lasting key: a key for a short time is only for speech.")
        if key.startswith(SHORT):
            raise Denied(ErrorCode.UNAUTHORIZED, "This key for a short time has expired, or is not of this service.")
        raise Denied(ErrorCode.UNAUTHORIZED, "This key is not valid here; ask the operator of the service for one.")

    def _check_origin(self, headers: Headers, peer: str) -> None:
        """Raise Denied for pages of other sites. Only browsers send an origin, and always do for a websocket."""
        values = headers.all("Origin")
        if not values or ANY_ORIGIN in self._origins:
            return
        origin, hosts = values[0].lower(), headers.all("Host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if len(values) == 1 and (origin in self._origins or self._own_page(origin, host, peer)):
            return
        raise Denied(
            ErrorCode.BAD_ORIGIN,
            f"Pages of {origin[:80]!r} may not use this service; its operator can allow them with --origin.",
        )

    def _own_page(self, origin: str, host: str, peer: str) -> bool:
        """Return whether a page comes from this service, or page, service and browser are all on this machine."""
        page, here = _host_and_port(origin), _host_and_port(f"{origin.partition('://')[0]}://{host}")
        if page is None or here is None:
            return False
        if page == here:
            # Without keys a host name proves nothing: strangers can point names of their own to this service.
            return self._keys is not None or _is_literal(here[0])
        return _is_loopback(page[0]) and _is_loopback(here[0]) and _is_loopback(peer)


def _key_in(request: Request) -> str:
    """Return the key of a request, or "". Of several, return the one from the most private place."""
    for header in request.headers.all("Authorization"):
        if key := _without_scheme(header):
            return key
    for name in KEY_HEADERS:
        if key := request.headers.get(name):
            return key.strip()
    offers = [offer.strip() for offer in ",".join(request.headers.all("Sec-WebSocket-Protocol")).split(",")]
    for place, offer in enumerate(offers):
        for prefix in KEY_PREFIXES:
            if offer.startswith(prefix):
                return offer.removeprefix(prefix)
        if offer in KEY_SCHEMES and place + 1 < len(offers):
            return offers[place + 1]
    query = parse_qs(request.query)
    if "Authorization" in query:  # of Azure's Speech SDK in a browser
        return _without_scheme(query["Authorization"][0])
    return next((query[name][0] for name in KEY_OPTIONS if name in query), "")


def _without_scheme(authorization: str) -> str:
    """Return the key in this; "" if it has another scheme. Clients of AssemblyAI name none."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() in KEY_SCHEMES:
        return key.strip()
    return "" if key else scheme


def origin_of(text: str) -> str | None:
    """Return an allowed origin as browsers send it; None if the text is not an origin."""
    text = text.rstrip("/").lower()
    scheme, _, host = text.partition("://")
    if text in (ANY_ORIGIN, "null") or (scheme and host and not set(host) & set("/?#@ ")):
        port = _PORTS.get(scheme)
        return text.removesuffix(f":{port}") if port else text
    return None


def _host_and_port(origin: str) -> tuple[str, int] | None:
    """Return host and port of an origin; None if it is not http or https, for example `null`."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port and parts.scheme in _PORTS else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    address = plain_address(host)
    return bool(address) and ipaddress.ip_address(address).is_loopback


def _is_literal(host: str) -> bool:
    return host == "localhost" or bool(plain_address(host))


def _is_own_name(host: str) -> bool:
    """Return whether strangers cannot point this name to this machine."""
    own = socket.gethostname().lower()
    return _is_literal(host) or host.endswith(".localhost") or host in (own, own.partition(".")[0])


# How the port is protected: which callers are admitted, which certificate it has, how much they may send, and where
# what they used is kept.


@dataclass(frozen=True)
class WebhookRules:
    """Where the words of sessions may be posted, and with which secrets that is signed."""

    clients: Fetch = Fetch.OFF  # which addresses a client may name
    calls: str = ""  # the address for all calls; empty: none
    secrets: SecretFile | None = None


@dataclass(frozen=True)
class PortPolicy:
    """The rules of a port. The defaults have no keys and no TLS, which suits a service on loopback."""

    access: AccessRules = field(default_factory=AccessRules)
    certificate: Certificate | None = None
    largest_message: int = LARGEST_MESSAGE  # bytes
    handshake_s: float = HANDSHAKE_LIMIT_S  # for TLS, and then for the request
    uploads: UploadLimits = field(default_factory=UploadLimits)
    # Connections of these proxies begin with a header of the PROXY protocol.
    header_proxies: Proxies = field(default_factory=Proxies)
    usage_file: UsageFile | None = None
    root: str = NATIVE  # what the websocket at / speaks, one of ROOTS
    wyoming: tuple[str, int] | None = None  # host and port for Wyoming, which has no keys and no TLS; None: no port
    grpc: tuple[str, int] | None = None  # host and port for gRPC; None: no port
    listeners: int = 0  # the most of all sessions that are shared; with 0, none can be
    webhooks: WebhookRules = field(default_factory=WebhookRules)
    usage_path: Path | None = None  # of the usage file, which another process may keep

    def refresh(self) -> None:
        """Check now whether keys and certificate have changed, instead of at the next request."""
        self.access.refresh()
        if self.webhooks.secrets is not None:
            self.webhooks.secrets.refresh()
        if self.certificate is not None:
            self.certificate.refresh()
