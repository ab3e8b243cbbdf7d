"""Runs all checks in order, and draws the conclusion. Each finding is yielded as soon as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from streamer.base.address import is_ready
from streamer.base.package import install_command
from streamer.commands.checks import machine, models, packages, service
from streamer.commands.checks.finding import WARNING, WRONG, Finding


class Examination:
    """The checks of this machine, and of a service that the user named. `quick`: start nothing, and import no engine.

    `folder`: the folder of a public model, which is checked and tried in place of the shipped one.
    """

    def __init__(self, server: str | None = None, folder: Path | None = None, *, quick: bool = False) -> None:
        self._server = server
        self._folder = folder
        self._quick = quick
        self._light = packages.is_light()

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of all checks."""
        checks = [
            machine.python,
            machine.system,
            packages.packages,
            *([] if self._quick else [packages.engine, packages.torch]),
            packages.triton,
            partial(models.public_model, self._folder) if self._folder else models.model_files,
            models.public_models,
            models.readers,
            models.speakers,
            machine.shared_memory,
            machine.temporary_files,
            machine.descriptors,
            machine.environment,
            machine.microphones,
            machine.typing,
            machine.ffmpeg,
            service.port,
        ]
        has_problem, client_works = False, True
        for finding in chain.from_iterable(check() for check in checks):
            has_problem = has_problem or finding.state == WRONG
            client_works = client_works and (finding.subject != "client" or finding.state != WRONG)
            yield finding
        if self._server and client_works:
            yield from service.named_service(self._server)
        if self._light:
            yield from self._light_client()
        elif has_problem and not self._quick:
            yield Finding("trial", WARNING, "not tried: repair the problems above first")
        elif not self._quick:
            yield from service.trial(self._folder)

    def conclusion(self, findings: Sequence[Finding]) -> str:
        """Return the result in one or two sentences."""
        problems = sum(finding.state == WRONG for finding in findings)
        warnings = sum(finding.state == WARNING for finding in findings)
        if problems:
            return f"{problems} problem{'s' * (problems != 1)}, {warnings} warning{'s' * (warnings != 1)}."
        well = "Recordings can be transcribed with the service." if self._light else "Recordings can be transcribed."
        if self._quick and not self._light:
            well = "No problem was found."
        return f"{well} {warnings} warning{'s' * (warnings != 1)}."

    def _light_client(self) -> Iterable[Finding]:
        if self._server or is_ready():
            return
        message = "only the light client is installed, and no service runs on this machine: nothing can be transcribed"
        yield Finding("service", WRONG, message, f"--server URL, or install your own: {install_command('embedded')}")


def usable(findings: Iterable[Finding]) -> bool:
    """Return whether no finding is a problem."""
    return not any(finding.state == WRONG for finding in findings)
