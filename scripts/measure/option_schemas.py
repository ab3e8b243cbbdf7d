"""Measures what a start message costs with each way to declare options, and what its import costs.

    pip install pydantic msgspec      # into an environment that has Streamer
    python scripts/measure/option_schemas.py

Each way gets a process of its own, and all ways take turns, so that a busy machine is unfair to none of them.
docs/decisions/option-schema.md has the figures.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Final

ROUNDS: Final = 10
# A few options are enough: what a library costs is mostly its own.
FIELDS: Final = """
    type: str = "start"
    encoding: Literal["pcm_s16le", "pcm_f32le", "mulaw", "alaw"] = "pcm_s16le"
    sample_rate: Annotated[int, {between}(ge=8000, le=192000)] = 16000
    channels: Annotated[int, {between}(ge=1, le=8)] = 1
    written: bool = False
    partials: bool = True
    stability: Literal["low", "medium", "high"] = "low"
    alternatives: Annotated[int, {between}(ge=0, le=10)] = 0
"""
MESSAGE: Final = json.dumps(
    {"type": "start", "encoding": "mulaw", "sample_rate": 8000, "written": True, "stability": "high", "alternatives": 3}
)
IMPORTS: Final = "from typing import Annotated, Literal\n"
WAYS: Final = {
    "dataclasses and a function for each kind": ("streamer.wire.native", "from streamer.wire.native import parse"),
    "pydantic": (
        "pydantic",
        f"{IMPORTS}from pydantic import BaseModel, Field\n"
        f"class Start(BaseModel, strict=True, extra='forbid'):{FIELDS.format(between='Field')}\n"
        "parse = Start.model_validate_json",
    ),
    "msgspec": (
        "msgspec",
        f"{IMPORTS}import msgspec\n"
        f"class Start(msgspec.Struct, forbid_unknown_fields=True):{FIELDS.format(between='msgspec.Meta')}\n"
        "parse = msgspec.json.Decoder(Start).decode",
    ),
}
TIMING: Final = """
import timeit
print(min(timeit.repeat(lambda: parse(message), number=2000, repeat=5)) / 2000 * 1e6)
"""


def main() -> int:
    """Print a line for each way. Returns the exit status."""
    checks: dict[str, list[float]] = {name: [] for name in WAYS}
    imports: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, (module, program) in WAYS.items():
            done = _python("-c", f"{program}\nmessage = {MESSAGE!r}\n{TIMING}")
            checks[name].append(float(done.stdout))
            # What the standard library needs is loaded before, because the client needs it anyway.
            before = "import asyncio, dataclasses, enum, json, re, typing"
            lines = _python("-X", "importtime", "-c", f"{before}\nimport {module}").stderr.splitlines()
            imports[name].append(next(_total_ms(line) for line in reversed(lines) if line.endswith(f" {module}")))
    for name in WAYS:
        print(f"{name}: {min(checks[name]):.1f} µs for a message, {min(imports[name]):.1f} ms to import")
    return 0


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def _total_ms(line: str) -> float:
    return int(re.findall(r"\d+", line)[1]) / 1000


if __name__ == "__main__":
    raise SystemExit(main())
