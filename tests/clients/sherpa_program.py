"""Runs the websocket client of sherpa-onnx, a program of its own package. It only takes an address and a port.

It prints the results that this client shows, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CLIENT = "sherpa-onnx-online-websocket-client"


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    port = host.partition(":")[2]
    command = [str(Path(sys.prefix) / "bin" / CLIENT), "--server-ip=127.0.0.1", f"--server-port={port}", str(recording)]
    results, closed = [], False
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as client:
        assert client.stderr is not None
        for line in client.stderr:
            _, brace, rest = line.partition("{")
            if brace:
                results.append(json.loads(brace + rest))
            if len(results) == 1 and brace:
                print("half", flush=True)
            closed = closed or "Disconnected" in line
    print(json.dumps({"results": results, "closed": closed, "status": client.returncode}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
