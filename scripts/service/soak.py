"""Uses a service for a long time, and checks that it is the same at the end as at the beginning.

    python scripts/service/soak.py long [MANIFEST] [--minutes 60] [--pace N] [--server URL]
    python scripts/service/soak.py faults [--minutes 10] [--seed N] [--tritons 2] [--every 6]
    python scripts/service/soak.py network [--minutes 10] [--seed N] [--sessions 1000] [--store]

`long` runs one session of an hour. It checks that memory does not grow, results do not come later, times do not drift,
and words do not change. `faults` runs thousands of sessions while clients vanish and Tritons die. It checks that no
word is lost, doubled, or sent to another session. `network` does so with three bridges, three Tritons and a balancer
in network namespaces of their own, whose links and nodes fail, and with clients that return to any bridge. It needs no
rights. All print a table. The exit status is 0 only if all checks pass. Linux only. See docs/explanation/soak.md and
docs/how-to/evaluation.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from streamer.audio.recordings import AudioError
from streamer.base.package import shipped
from streamer.bridge.triton import MODEL, TritonError
from streamer.client import SessionError
from streamer.commands.accuracy.manifest import ManifestError
from streamer.commands.interrupt import run_until_signal
from streamer.commands.settings.served_models import folder_error
from workshop.soak import long_session
from workshop.soak.faults import UndisturbedError, soak
from workshop.soak.network import NetworkError, enter
from workshop.soak.network_faults import NetworkSettings, soak_network
from workshop.soak.report import SoakReport
from workshop.soak.soak_run import Settings
from workshop.watched_process import service

FOLDER = Path("build/soak")
HEADS = "asr_heads"


def main() -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="long|faults|network")
    long = commands.add_parser("long", help="one session of an hour")
    long.set_defaults(run=_long)
    add = long.add_argument
    add("manifest", nargs="?", type=Path, default=shipped("audio_samples/samples.tsv"))
    add("--limit", type=int, help="how many recordings of the manifest, evenly spread (default: all)")
    add("--minutes", type=float, default=60.0, help="minutes of audio (60)")
    add("--pace", type=float, default=0.0, help="multiple of the pace of speech; 0: as fast as possible (0)")
    add("--server", metavar="URL", help="a service that already runs; its memory is not measured")
    add("--search", default="lexicon", help="the search of the session (lexicon)")
    run = argparse.ArgumentParser(add_help=False)  # what both runs of many sessions have
    add = run.add_argument
    add("--minutes", type=float, default=Settings.minutes, help="how long new sessions begin (10)")
    add("--seed", type=int, help="the seed for all random choices (default: a new one)")
    add("--only", type=int, metavar="NUMBER", help="repeat only this session")
    add("--folder", type=Path, help="the folder for the report, logs and broken sessions (build/soak/SEED)")
    faults = commands.add_parser("faults", parents=[run], help="thousands of sessions among faults")
    faults.set_defaults(run=_faults)
    add = faults.add_argument
    add("--at-a-time", type=int, default=Settings.at_a_time, metavar="N", help="sessions at a time, on average (80)")
    add("--tritons", type=int, default=Settings.tritons, help="Tritons behind the service; 0: an embedded one (2)")
    add("--slots", type=int, default=Settings.slots, help="slots of each model instance (40)")
    add("--every", type=float, default=Settings.every, metavar="S", help="seconds between faults; 0: no faults (6)")
    add("--native", action="store_true", help="only sessions of the native protocol, none in other formats")
    add("--recordings", action="store_true", help="use recordings and the shipped model, not the exact one")
    add("--public-model", type=Path, metavar="FOLDER", help="use recordings and the public model in this folder")
    add("--model", choices=(MODEL, HEADS), default=MODEL, help=f"{HEADS}: the recogniser in steps ({MODEL})")
    network = commands.add_parser(
        "network", parents=[run], help="sessions at several bridges, whose network and nodes fail"
    )
    network.set_defaults(run=_network)
    add = network.add_argument
    add("--sessions", type=int, default=NetworkSettings.sessions, metavar="N", help="sessions in all (1000)")
    add("--at-a-time", type=int, default=NetworkSettings.at_a_time, metavar="N", help="the most at a time (150)")
    add("--words", type=_range, default=NetworkSettings.words, metavar="N-N", help="words of a session (15-50)")
    add("--bridges", type=int, default=NetworkSettings.bridges, help="bridges behind the balancer (3)")
    add("--tritons", type=int, default=NetworkSettings.tritons, help="Tritons behind the bridges (3)")
    add("--every", type=float, default=NetworkSettings.every, metavar="S", help="seconds between faults; 0: none (2.4)")
    add("--store", action="store_true", help="the bridges have a store, which fails too")
    options = parser.parse_args()
    return int(options.run(options))


def _long(options: argparse.Namespace) -> int:
    try:
        recordings = long_session.read_recordings(options.manifest, options.limit)
        with service(options.server) as (url, watched):
            session = long_session.session(
                url, recordings, watched, minutes=options.minutes, pace=options.pace, search=options.search
            )

            async def work() -> int:
                record = await session
                print(long_session.report(record))
                return _failed(long_session.failures(record, recordings))

            return run_until_signal(work())
    except (ManifestError, AudioError, SessionError, OSError) as error:
        return _failed([str(error)])


def _faults(options: argparse.Namespace) -> int:
    if options.public_model and options.model != MODEL:
        return _failed([f"choose --public-model or --model {options.model}, not both"])
    if options.public_model and (wrong := folder_error(options.public_model)):
        return _failed([f"--public-model {wrong}"])
    seed, folder, tell = _prepared(options)
    settings = Settings(
        seed,
        folder,
        options.minutes,
        options.at_a_time,
        options.tritons,
        options.slots,
        options.every,
        not options.native,
        options.recordings,
        options.public_model,
        options.model,
        options.only,
    )
    return _reported(soak(settings, tell), folder)


def _network(options: argparse.Namespace) -> int:
    try:
        enter()
    except (NetworkError, OSError) as error:
        return _failed([str(error)])
    seed, folder, tell = _prepared(options)
    settings = NetworkSettings(
        seed,
        folder,
        options.minutes,
        options.at_a_time,
        options.tritons,
        every=options.every,
        only=options.only,
        bridges=options.bridges,
        sessions=options.sessions,
        words=options.words,
        store=options.store,
    )
    return _reported(soak_network(settings, tell), folder)


def _prepared(options: argparse.Namespace) -> tuple[int, Path, Callable[[str], None]]:
    """Return the seed, the folder without files of an earlier run, and what tells the progress."""
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = options.folder or FOLDER / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("session-*.json"):
        path.unlink()
    tell = partial(print, "soak:", file=sys.stderr, flush=True)
    tell(f"seed {seed}; broken sessions are written to {folder}")
    return seed, folder, tell


def _reported(run: Coroutine[Any, Any, SoakReport], folder: Path) -> int:
    """Do a run, write and print its report, and return the exit status."""

    async def work() -> int:
        report = await run
        (folder / "report.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
        (folder / "memory.tsv").write_text(report.memory())
        print(report.table())
        return _failed(report.failures())

    try:
        return run_until_signal(work())
    except (TritonError, NetworkError, UndisturbedError, OSError) as error:
        return _failed([str(error)])


def _range(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    if not (least.isdecimal() and most.isdecimal() and 0 < int(least) <= int(most)):
        raise argparse.ArgumentTypeError(f"two whole numbers with - between, not {text!r}")
    return int(least), int(most)


def _failed(complaints: Iterable[str]) -> int:
    """Print complaints, and return the exit status."""
    status = 0
    for complaint in complaints:
        print(f"soak: {complaint}", file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
