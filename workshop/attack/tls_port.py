"""Runs the bridge with TLS but without a Triton, in a process of its own: sessions get `not_ready`.

python -m workshop.attack.tls_port CHAIN KEY
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from streamer.base.limits import DEFAULT_MODEL
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.server import BridgeServer
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton import MODEL
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.supervision import Tritons

HANDSHAKE_S = 3.0


async def serve(chain: Path, key: Path) -> None:
    """Print the number of the port, and serve until the process is ended."""
    policy = PortPolicy(certificate=Certificate(chain, key), handshake_s=HANDSHAKE_S)
    server = BridgeServer("127.0.0.1", 0, Models(Tritons(()), {DEFAULT_MODEL: MODEL}), Metrics(), policy=policy)
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
