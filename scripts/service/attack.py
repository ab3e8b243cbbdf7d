"""Attacks a service of its own in all ways that are known, beside sessions that mean well and must feel nothing of it.

    python scripts/service/attack.py [NAME…] [--minutes 10] [--seed N] [--attackers 8] [--bystanders 4]
    python scripts/service/attack.py --list

NAME is an attack or a family of them; without any, all are done. Two tables say what was done, what was answered, and
what the others felt. The exit status is 0 only if no promise broke. Linux only. docs/explanation/attack.md tells more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from functools import partial
from pathlib import Path

from streamer.testing.attack.campaign import Campaign
from streamer.testing.attack.catalogue import ATTACKS, chosen
from streamer.triton import TritonError

FOLDER = Path("build/attack")


def main() -> int:
    """Attack; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="attacks or families of them (all)")
    add("--list", action="store_true", help="say which attacks there are")
    add("--minutes", type=float, default=Campaign.minutes, help="for so long (10)")
    add("--seed", type=int, help="of all that is random (a new one)")
    add("--attackers", type=int, default=Campaign.attackers, metavar="N", help="attacks at a time (8)")
    add("--bystanders", type=int, default=Campaign.bystanders, metavar="N", help="sessions that mean well (4)")
    add("--late", type=float, default=Campaign.late_s, metavar="S", help="99 of 100 of their partials are sooner (2)")
    add("--folder", type=Path, help="for the report and logs (build/attack/SEED)")
    options = parser.parse_args()
    if options.list:
        for attack in ATTACKS:
            print(f"{attack.family}: {attack.name}")
        return 0
    try:
        attacks = chosen(options.names)
    except ValueError as error:
        parser.error(str(error))
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = options.folder or FOLDER / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    tell = partial(print, "attack:", file=sys.stderr, flush=True)
    tell(f"seed {seed}; report and logs are written to {folder}")
    campaign = Campaign(seed, folder, attacks, options.minutes, options.attackers, options.bystanders, options.late)
    try:
        report = asyncio.run(campaign.run(tell))
    except (TritonError, OSError) as error:
        tell(str(error))
        return 1
    (folder / "report.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
    (folder / "report.md").write_text(report.text() + "\n")
    print(report.text())
    for complaint in report.complaints():
        tell(complaint)
    return 1 if any(report.complaints()) else 0


if __name__ == "__main__":
    sys.exit(main())
