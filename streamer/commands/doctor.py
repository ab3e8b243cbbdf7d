"""The command `streamer doctor`: what works on this machine, what does not, and how to mend it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from streamer import __version__
from streamer.commands.arguments.parser import server
from streamer.distribution import install_command
from streamer.doctor import machine, microphone, model, packages, service
from streamer.doctor.finding import WARNING, WRONG, Finding
from streamer.terminal.status_lines import is_terminal

EXAMPLES: Final = """\
✓ is fine. ! is a warning: something is missing or slow, but recordings can be transcribed. ✗ is a problem: recordings
cannot be transcribed, or the service cannot run. What mends it stands after the arrow. The exit status is 1 if there is
a ✗, else 0. Where only the light client is installed, a service elsewhere does the work: name it with --server.

examples:
  streamer doctor                             all checks; the last one recognises a recording
  streamer doctor --quick                     without that and without torch; nothing is started
  streamer doctor --server wss://example.org  also whether that service can be used from here
  streamer doctor --json > doctor.json        for a bug report

Keys are not shown, and the home folder is shown as ~. Nothing is changed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `streamer doctor` accepts."""
    add = parser.add_argument
    add("--json", action="store_true", help="one JSON object, for a program or a bug report")
    add("--quick", action="store_true", help="only what takes no more than a second")
    add("--server", metavar="URL", type=server, help="a service to check, as ws://host:port or host:port")


def run(options: argparse.Namespace) -> int:
    """Checks everything; 1 if there is a problem."""
    light = packages.is_light()
    colour = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    found = []
    for finding in _findings(options, light):
        found.append(finding)
        if not options.json:
            print(finding.line(colour=colour, plain=plain), flush=True)
    usable = not any(finding.state == WRONG for finding in found)
    if options.json:
        content = {"streamer": __version__, "usable": usable, "findings": [finding.content() for finding in found]}
        print(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        print(_conclusion(found, light=light, tried=not options.quick))
    return int(not usable)


def _findings(options: argparse.Namespace, light: bool) -> Iterator[Finding]:
    checks = [
        machine.python,
        machine.system,
        packages.packages,
        *([] if options.quick else [packages.torch]),
        packages.triton,
        model.model_files,
        machine.shared_memory,
        machine.descriptors,
        machine.environment,
        microphone.microphones,
        machine.ffmpeg,
        service.port,
    ]
    wrong, client_works = False, True
    for finding in chain.from_iterable(check() for check in checks):
        wrong = wrong or finding.state == WRONG
        client_works = client_works and (finding.subject != "client" or finding.state != WRONG)
        yield finding
    if options.server and client_works:
        yield from service.named(options.server)
    if light:
        yield from _light_client(options)
    elif wrong and not options.quick:
        yield Finding("trial", WARNING, "not tried: first mend the problems above")
    elif not options.quick:
        yield from service.trial()


def _light_client(options: argparse.Namespace) -> Iterable[Finding]:
    from streamer.address import is_ready

    if options.server or is_ready():
        return
    said = "only the light client is installed, and no service runs here: nothing can be transcribed"
    yield Finding("service", WRONG, said, f"--server URL, or for one of your own: {install_command('embedded')}")


def _conclusion(found: list[Finding], *, light: bool, tried: bool) -> str:
    wrong = sum(finding.state == WRONG for finding in found)
    warnings = sum(finding.state == WARNING for finding in found)
    if wrong:
        return f"{wrong} problem{'s' * (wrong != 1)}, {warnings} warning{'s' * (warnings != 1)}."
    well = "Recordings can be transcribed with the service." if light else "Recordings can be transcribed."
    if not (tried or light):
        well = "No problem was found."
    return f"{well} {warnings} warning{'s' * (warnings != 1)}."
