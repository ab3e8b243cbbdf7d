"""A program with the client for recordings of WhisperLiveKit, in both of its modes. The only change is the address.

Importing its package imports its server, which needs torch. So only the module of the client is loaded.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def client() -> Any:
    """Load the module of the client."""
    path = importlib.metadata.distribution("whisperlivekit").locate_file("whisperlivekit/test_client.py")
    spec = importlib.util.spec_from_file_location("whisperlivekit_test_client", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    transcribe, told = client().transcribe_audio, {}
    for mode in ("full", "diff"):
        got: list[Any] = []

        def take(state: Any, got: list[Any] = got) -> None:
            got.append(state)
            if len(got) == 1:
                print("half", flush=True)

        result = asyncio.run(transcribe(str(recording), url=f"ws://{host}/asr", mode=mode, speed=2.0, on_response=take))
        told[mode] = {"text": result.text, "lines": result.lines, "updates": len(got)}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
