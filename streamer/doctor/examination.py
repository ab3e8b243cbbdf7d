"""All checks in their order, and the conclusion. Each finding is given as soon as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from streamer.address import is_ready
from streamer.distribution import install_command
from streamer.doctor import machine, microphone, model, packages, public_models, service
from streamer.doctor.finding import WARNING, WRONG, Finding


class Examination:
    """The checks of this machine, and of a service that the user named. `quick`: start nothing, and leave out torch.

    `folder`: of a public model, which is checked and tried in the place of the shipped one.
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
            *([] if self._quick else [packages.torch]),
            packages.triton,
            partial(model.public_model, self._folder) if self._folder else model.model_files,
            public_models.public_models,
            machine.shared_memory,
            machine.temporary_files,
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
        if self._server and client_works:
            yield from service.named(self._server)
        if self._light:
            yield from self._light_client()
        elif wrong and not self._quick:
            yield Finding("trial", WARNING, "not tried: repair the problems above first")
        elif not self._quick:
            yield from service.trial(self._folder)

    def conclusion(self, found: Sequence[Finding]) -> str:
        """Return a sentence or two for people."""
        wrong = sum(finding.state == WRONG for finding in found)
        warnings = sum(finding.state == WARNING for finding in found)
        if wrong:
            return f"{wrong} problem{'s' * (wrong != 1)}, {warnings} warning{'s' * (warnings != 1)}."
        well = "Recordings can be transcribed with the service." if self._light else "Recordings can be transcribed."
        if self._quick and not self._light:
            well = "No problem was found."
        return f"{well} {warnings} warning{'s' * (warnings != 1)}."

    def _light_client(self) -> Iterable[Finding]:
        if self._server or is_ready():
            return
        said = "only the light client is installed, and no service runs on this machine: nothing can be transcribed"
        yield Finding("service", WRONG, said, f"--server URL, or install your own: {install_command('embedded')}")


def usable(found: Iterable[Finding]) -> bool:
    """Return whether there is no problem."""
    return not any(finding.state == WRONG for finding in found)
