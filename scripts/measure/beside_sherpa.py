"""Measures our service beside the server of sherpa-onnx, with the same model folder, recordings, clients and machine.

    python -m venv build/sherpa
    build/sherpa/bin/pip install sherpa-onnx==2.0.1 sherpa-onnx-bin==2.0.1
    python scripts/measure/beside_sherpa.py MODEL [FILE…] [--sherpa build/sherpa/bin] [--sessions 8,32,48,56,64]
                                            [--seconds 15] [--rounds 3] [--threads 2] [--serve SETTINGS] [--json FILE]
                                            [--page docs/explanation/performance.md]

MODEL is the folder of a transducer, as icefall exports it: a public one, or that of `random_zipformer2.py`. Each round
measures both servers in turn with `streamer load`. The table has the median of all rounds, with the least and the most.
Three rounds take about twelve minutes. --page writes the table into a page; the machine should have nothing else to do.
Sessions have no second pass, because that is ours alone. `compare_pocketsphinx.py` compares PocketSphinx, which is no
server, with the engine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from streamer.base.machine import processors
from streamer.commands.traffic.report import machine
from streamer.models.model_folder import ModelFolderError
from workshop.comparison.servers import (
    BEGIN,
    END,
    PROGRAM,
    Comparison,
    NotMeasured,
    compare,
    knees,
    ratio,
    section,
    table,
)
from workshop.figures.measured import commit


def main() -> int:
    """Measure, and print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", type=Path, help="the folder of the model")
    add("recordings", nargs="*", metavar="FILE", help="recordings with their texts (the talk that comes along)")
    add("--sherpa", type=Path, default=Path("build/sherpa/bin"), help=f"the folder with {PROGRAM} (build/sherpa/bin)")
    add("--sessions", default="8,32,48,56,64", metavar="N,N…", help="sessions at a time (8,32,48,56,64)")
    add("--seconds", type=float, default=15.0, help="how long each number is measured (15)")
    add("--rounds", type=int, default=3, help="how often both are measured (3)")
    add("--threads", type=int, default=processors(), help="threads of sherpa-onnx (one for each processor)")
    add("--serve", default="", metavar="SETTINGS", help="settings of our service, such as '--instances 2 --slots 128'")
    add(
        "--page",
        type=Path,
        metavar="FILE",
        help="a page to write the table into, such as docs/explanation/performance.md",
    )
    add("--json", type=Path, metavar="FILE", help="write the reports of all rounds")
    options = parser.parse_args()
    program = options.sherpa / PROGRAM
    if not program.is_file():
        print(f"beside_sherpa: there is no {program}; the help says how to install it", file=sys.stderr)
        return 1
    comparison = Comparison(
        options.model, options.sessions, options.seconds, options.rounds, options.recordings, options.serve
    )
    try:
        page = options.page.read_text(encoding="utf-8") if options.page else f"{BEGIN}{END}"
        section(page, "")  # NotMeasured before anything is measured, if the page is another one
        reports = compare(comparison, program, options.threads, lambda line: print(line, file=sys.stderr, flush=True))
    except (NotMeasured, ModelFolderError, OSError) as error:
        print(f"beside_sherpa: {error}", file=sys.stderr)
        return 1
    sentences = "\n".join([*ratio(reports), *knees(reports)])
    made = f"{machine()}; rounds: {options.rounds}, medians (least-most)"
    print(f"{made}\n\n{table(reports)}\n\n{sentences}")
    if options.page:
        date, model = time.strftime("%Y-%m-%d", time.gmtime()), options.model.name
        how = f"--sessions {options.sessions} --seconds {options.seconds:g} --rounds {options.rounds}"
        how = f"`python scripts/measure/beside_sherpa.py {model} {how}`,\n{date}, version {commit()}."
        options.page.write_text(section(page, f"{made}.\n{how}\n\n{table(reports)}\n\n{sentences}"), encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(reports, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
