"""Measures every figure about speed and capacity of the pages, and writes docs/figures.json. It takes 12 minutes.

    python scripts/measure/figures.py
    python scripts/docs/figure_pages.py          # then: writes them into the pages

The machine must have nothing else to do. --quick only tries whether everything works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from workshop.figures.measured import FILE, Effort, Measuring, NotMeasured

QUICK = Effort(2.0, (1, 2), (1, 2))


def main() -> int:
    """Measure, and write the file. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=FILE, metavar="FILE", help=f"another file than {FILE.name}")
    parser.add_argument("--quick", action="store_true", help="few sessions, for two seconds each")
    options = parser.parse_args()
    try:
        figures = Measuring(QUICK if options.quick else Effort(), lambda line: print(line, flush=True)).run()
    except NotMeasured as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    if figures.figures["carried"].value < 1 and not options.quick:
        print("figures: this machine carries no session now, so nothing is written", file=sys.stderr)
        return 1
    figures.write(options.to)
    print(f"written: {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
