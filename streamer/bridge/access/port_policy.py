"""How the port is protected: which callers are admitted, which certificate it has, and how much they may send."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.access.upload_limits import UploadLimits
from streamer.limits import HANDSHAKE_LIMIT_S, LARGEST_MESSAGE


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

    def refresh(self) -> None:
        """Check now whether keys and certificate have changed, instead of at the next request."""
        self.access.refresh()
        if self.certificate is not None:
            self.certificate.refresh()
