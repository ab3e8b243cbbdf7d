"""Attacks a service that it starts in all known ways, beside ordinary sessions, which must not be affected.

    python scripts/service/attack.py [NAME…] [--minutes 10] [--seed N] [--attackers 8] [--bystanders 4]
    python scripts/service/attack.py --list

NAME is an attack or a family of attacks; by default all run. Two tables show the attacks with their answers, and the
effect on the ordinary sessions. The exit status is 0 only if the service kept all promises. Linux only. See
docs/explanation/attack.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from functools import partial
from pathlib import Path

from streamer.bridge.triton import TritonError
from streamer.commands.interrupt import run_until_signal
from workshop.attack.campaign import ATTACKS, Campaign, chosen

FOLDER = Path("build/attack")


def main() -> int:
    """Attack, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="attacks, or families of attacks (default: all)")
    add("--list", action="store_true", help="list the attacks and exit")
    add("--minutes", type=float, default=Campaign.minutes, help="how long to attack (10)")
    add("--seed", type=int, help="the seed for all random choices (default: a new one)")
    add("--attackers", type=int, default=Campaign.attackers, metavar="N", help="attacks at a time (8)")
    add("--bystanders", type=int, default=Campaign.bystanders, metavar="N", help="ordinary sessions (4)")
    add("--late", type=float, default=Campaign.late_s, metavar="S", help="limit for 99%% of their partials (2)")
    add("--folder", type=Path, help="the folder for the report and logs (build/attack/SEED)")
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

    async def work() -> int:
        report = await campaign.run(tell)
        (folder / "report.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
        (folder / "report.md").write_text(report.text() + "\n")
        print(report.text())
        for complaint in report.complaints():
            tell(complaint)
        return 1 if any(report.complaints()) else 0

    try:
        return run_until_signal(work())
    except (TritonError, OSError) as error:
        tell(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
