"""Checks that a request for a websocket comes from Twilio, by the signature over its address that Twilio makes.

The key of the signature is the auth token of an account, which only Twilio and its owner know. The address is the one
that Twilio was told: the service takes it from the request, or, where proxies change it, from its operator.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from streamer.bridge.access.keys import SecretFile
from streamer.bridge.http.request import Request

SIGNATURE: Final = "X-Twilio-Signature"
# Names the algorithm, if it is not the usual one: "key=…,algorithm=HMAC_SHA256".
SETTINGS: Final = "X-Twilio-Webhooks-Signature-Settings"
_ALGORITHMS: Final = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}
_USUAL: Final = "HMAC_SHA1"
_SCHEMES: Final = ("wss", "https")  # Twilio opens no others
_PORT: Final = 443


class CallSignatures:
    """The accounts whose streams are admitted, and at which address."""

    def __init__(self, tokens: SecretFile | None = None, *, address: str = "", unsigned: bool = False) -> None:
        """`address`: where Twilio finds the service. `unsigned`: also admit streams without a valid signature."""
        self.unsigned = unsigned
        self._tokens = tokens
        self._address = address

    @property
    def expected(self) -> bool:
        """Whether any signature can be valid."""
        return self._tokens is not None

    def refresh(self) -> None:
        """Check now whether the tokens have changed, instead of at the next request."""
        if self._tokens is not None:
            self._tokens.refresh()

    def signer(self, request: Request, hosts: Sequence[str]) -> str | None:
        """Return the name beside the token that has signed this request; None if no token has.

        `hosts`: the names under which the client may have seen the service. Every token is compared.
        """
        given, algorithm = request.headers.get(SIGNATURE), _algorithm(request.headers.get(SETTINGS))
        if self._tokens is None or not given or algorithm is None:
            return None
        found = None
        addresses = list(_addresses(self._address, request, hosts))
        for name, token in self._tokens.entries():
            for address in addresses:
                digest = hmac.new(token, address.encode("utf-8", "surrogateescape"), algorithm).digest()
                if hmac.compare_digest(base64.b64encode(digest), given.strip().encode("utf-8", "surrogateescape")):
                    found = name
        return found


def _addresses(told: str, request: Request, hosts: Sequence[str]) -> Iterator[str]:
    """Yield the addresses that Twilio may have signed: with each scheme, and with the port or without it."""
    if told:
        parts = urlsplit(told)
        places = [(parts.netloc, told.partition(parts.netloc)[2])]
    else:
        target = f"{request.path}?{request.query}" if request.query else request.path
        places = [(host, target) for host in hosts]
    for netloc, target in places:
        name, colon, port = netloc.rpartition(":")
        bare = name if colon and port.isdecimal() else netloc
        for host in dict.fromkeys((netloc, bare, f"{bare}:{_PORT}")):
            for scheme in _SCHEMES:
                yield f"{scheme}://{host}{target}"


def _algorithm(settings: str) -> str | None:
    """Return the hash that a request names; None if it is unknown."""
    for part in settings.split(","):
        name, _, value = part.partition("=")
        if name.strip() == "algorithm" and value.strip():
            return _ALGORITHMS.get(value.strip().upper())
    return _ALGORITHMS[_USUAL]
