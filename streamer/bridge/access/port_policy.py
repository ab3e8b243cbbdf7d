"""How the port is guarded: who may come in, under which certificate, and how much at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.rules import AccessRules
from streamer.limits import HANDSHAKE_LIMIT_S, LARGEST_MESSAGE


@dataclass(frozen=True)
class PortPolicy:
    """As given: no keys, no TLS, and what suits a service on loopback."""

    access: AccessRules = field(default_factory=AccessRules)
    certificate: Certificate | None = None
    largest_message: int = LARGEST_MESSAGE  # bytes
    handshake_s: float = HANDSHAKE_LIMIT_S  # for TLS, and then for the request

    def refresh(self) -> None:
        """Looks at once whether keys and certificate have changed, instead of at the next request."""
        self.access.refresh()
        if self.certificate is not None:
            self.certificate.refresh()
