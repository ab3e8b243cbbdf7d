"""Compares readers of HTTP and websockets by the same measurements; docs/decisions/http-reader.md has the results.

    pip install aiohttp uvicorn httptools wsproto hypercorn     # candidates; none of them is a dependency
    python scripts/service/http_readers.py [--runs 5] [--only streamer,aiohttp] [--seconds 4]

Each candidate runs in its own process with the same small application. The candidates take turns. The numbers are
medians. Each is followed by its ratio to that of the first candidate, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import trustme

from streamer.testing.http_readers.behaviours import behaviours
from streamer.testing.http_readers.candidate_process import CandidateProcess
from streamer.testing.http_readers.candidates import CANDIDATES
from streamer.testing.http_readers.measurements import MEASUREMENTS


def main() -> int:
    """Measure the candidates, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs for the medians (5); 0: only behaviours")
    parser.add_argument("--seconds", type=float, default=4.0, help="the length of each measurement (4)")
    parser.add_argument("--only", help="candidates to compare, with commas between them: " + ", ".join(CANDIDATES))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CANDIDATES)
    if unknown := set(names) - set(CANDIDATES):
        parser.error(f"there is no candidate {min(unknown)!r}; the candidates are {', '.join(CANDIDATES)}")
    medians = measured(names, options.runs, options.seconds)
    print("| |", " | ".join(names), "|\n|---|" + "---:|" * len(names))
    for what, values in medians.items():
        cells = [f"{value:.{0 if value >= 100 else 1}f} ({value / max(values[0], 1e-9):.2f})" for value in values]
        print(f"| {what} |", " | ".join(cells), "|")
    seen = examined(names)
    for what in next(iter(seen)):
        print(f"| {what} |", " | ".join(behaviour[what] for behaviour in seen), "|")
    return 0


def measured(names: list[str], runs: int, seconds: float) -> dict[str, list[float]]:
    """Return the medians of the candidates for each measurement.

    The candidates take turns, so that other work on the machine affects all of them alike.
    """
    found: dict[str, list[list[float]]] = {what: [[] for _ in names] for what in MEASUREMENTS} if runs else {}
    for _ in range(runs):
        for number, name in enumerate(names):
            for what, measure in MEASUREMENTS.items():
                with CandidateProcess(name) as running:
                    value = measure(running, seconds)
                found[what][number].append(value)
                print(f"{name}: {what}: {value:g}", file=sys.stderr, flush=True)
    return {what: [statistics.median(values) for values in each] for what, each in found.items()}


def examined(names: list[str]) -> list[dict[str, str]]:
    """Return what each candidate does in unusual situations."""
    with tempfile.TemporaryDirectory() as folder:
        issued = trustme.CA().issue_cert("localhost")
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        seen = []
        for name in names:
            with CandidateProcess(name) as running, CandidateProcess(name, (str(chain), str(key))) as secure:
                seen.append(behaviours(running, secure))
    return seen


if __name__ == "__main__":
    sys.exit(main())
