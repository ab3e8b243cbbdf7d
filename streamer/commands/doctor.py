"""The command `streamer doctor`: runs all checks, and says what does not work here and how to repair it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from streamer import __version__
from streamer.base.text import json_text
from streamer.commands.arguments import add_key_argument, public_folder, server
from streamer.commands.terminal.printing import stream_for_codes
from streamer.commands.terminal.status_lines import is_terminal

EXAMPLES: Final = """\
✓ is fine. ! is a warning: something is missing or slow, but recordings can be transcribed. ✗ is a problem: recordings
cannot be transcribed, or the service cannot run. The remedy stands after the arrow. The exit status is 1 if there is
a ✗, else 0. If only the light client is installed, it needs a service elsewhere: name it with --server.

examples:
  streamer doctor                             all checks; the last one recognises a recording
  streamer doctor --quick                     without that check, and without imports of the engine; starts nothing
  streamer doctor --server wss://example.org  also checks whether that service can be used from here
  streamer doctor --model FOLDER              checks and tries a public model in the place of the shipped one
  streamer doctor --json > doctor.json        for a bug report

Keys are not shown, and the home folder is shown as ~. Nothing is changed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer doctor`."""
    add = parser.add_argument
    add("--json", action="store_true", help="print one JSON object, for a program or a bug report")
    add("--quick", action="store_true", help="only checks that take no longer than a second")
    add("--server", metavar="URL", type=server, help="a service to check, as ws://host:port or host:port")
    add(
        "--model",
        metavar="NAME|FOLDER",
        type=public_folder,
        help="a public model to check: one of this machine (`streamer models`), or a folder (docs/how-to/models.md)",
    )
    add_key_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Run all checks. Return 1 if there is a problem, else 0."""
    from streamer.commands.checks.examination import Examination, usable  # --help does not need it

    colour = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    examination = Examination(options.server, options.model, quick=options.quick)
    findings = []
    for finding in examination.findings():
        findings.append(finding)
        if not options.json:
            with_codes = stream_for_codes(sys.stdout) if colour else sys.stdout
            print(finding.line(colour=colour, plain=plain), file=with_codes, flush=True)
    if options.json:
        contents = [finding.content() for finding in findings]
        content = {"streamer": __version__, "usable": usable(findings), "findings": contents}
        print(json_text(content, indent=1))
    else:
        print(examination.conclusion(findings))
    return int(not usable(findings))
