"""Estimates what a public model needs, at once, and recommends one for a language and this machine.

Pure: facts of the catalogue and the size of a machine in, numbers out. `streamer plan` measures instead, for a model
that is here, so these estimates are rather too large.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, cast

from streamer.base.machine import machine_memory, processor_time
from streamer.models import library
from streamer.models.library import KnownModel

KEPT_FREE: Final = 0.2  # of the memory
# What `streamer plan` measures for Triton and the bridge, rounded up.
SERVICE_BYTES: Final = 250_000_000
# What the bridge keeps of a stream at most, rounded up: audio for a replay and audio that waits.
STREAM_BYTES: Final = 5_000_000
# A process for a public model, without the model: onnxruntime and Python.
PUBLIC_BYTES: Final = 150_000_000
# The state of a stream if it is not known: no model of the catalogue has more.
STATE_BYTES: Final = 8_000_000

# The bytes of a weight. Tables in int8 stay bytes, but convolutions become full numbers: an eighth of a Conformer.
_FLOAT_BYTES: Final = 4.0
_INT8_BYTES: Final = 1.5
# While a graph is opened, it is there as it was, rewritten, and as onnxruntime reads it (docs/how-to/models.md).
_COPIES: Final = 3
_COPIES_OF_FILES: Final = 2  # where nothing is rewritten
_BUSY: Final = 0.9  # of the processors may be used by sessions, as with `serve --sessions auto`
# Words should follow the voice: a longer step is taken only if there is no shorter one.
_LONGEST_STEP_MS: Final = 640


class Basis(Enum):
    """The fact from which the number of weights follows."""

    WEIGHTS = "weights"  # their makers say how many there are
    FILES = "files"  # the model is here
    ARCHIVE = "archive"  # at most so many: the archive has other files as well


class Machine(NamedTuple):
    """What services may use here."""

    memory: int  # bytes
    processors: float

    @property
    def room(self) -> int:
        """How many bytes models and sessions may hold beside the service."""
        return max(0, round(self.memory * (1 - KEPT_FREE)) - SERVICE_BYTES)


@dataclass(frozen=True)
class Needs:
    """What a model needs, by an estimate. `sessions`: how many this machine carries."""

    memory_bytes: int  # of one process with one session at most, without the bridge and Triton
    cores: float  # for a stream alone
    sessions: int
    basis: Basis


class Choice(NamedTuple):
    """A model, what it needs, and how much it has to have for that."""

    model: KnownModel
    needs: Needs


class _Measured(TypedDict):
    million_weights: float
    ms_alone: float
    ms_shared: float


class CostTable:
    """The measured processor time for a second of audio, of models of two sizes."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: a catalogue, if it is not that of the package."""
        cost = json.loads((path or library.CATALOGUE).read_text(encoding="utf-8")).get("cost", {})
        tables = cost.get("rows", []), cost.get("single_files", cost).get("rows", [])
        self._rows, self._single = (
            sorted(cast("list[_Measured]", rows), key=lambda row: row["million_weights"]) for rows in tables
        )

    def cores(self, million_weights: float, *, shared: bool, single_files: bool = False) -> float | None:
        """Return the cores for a stream: alone, or one of many. On the straight line through the measured sizes.

        A model that is smaller than the smallest one counts like that. None if the catalogue has no measurement.
        `single_files`: the model is published in single files.
        """
        rows = self._single if single_files else self._rows
        if not rows:
            return None
        first, last = rows[0], rows[-1]
        low, high = (row["ms_shared" if shared else "ms_alone"] for row in (first, last))
        span = last["million_weights"] - first["million_weights"]
        slope = (high - low) / span if span else 0.0
        return (low + slope * max(0.0, million_weights - first["million_weights"])) / 1000


def this_machine() -> Machine:
    """Return the memory and the processors that programs may use here."""
    return Machine(machine_memory().size, processor_time())


def weight_bytes(graph: Path) -> int:
    """Return about how many bytes the weights of this graph take once they are loaded."""
    return round(graph.stat().st_size * (_INT8_BYTES if ".int8" in graph.name else 1))


@dataclass(frozen=True)
class FilesSay:
    """What the files of a model say, if it is here.

    `file_bytes`, `state_bytes`: of its graphs once they are loaded, and of a stream. `times_computed`: how often it
    computes each moment. `one_by_one`: its streams cannot be computed together.
    """

    file_bytes: int | None = None
    state_bytes: int | None = None
    times_computed: float | None = None
    one_by_one: bool = False


def needs_of(model: KnownModel, machine: Machine, costs: CostTable, files: FilesSay = FilesSay()) -> Needs | None:
    """Return what this model needs. None if neither its weights nor its size are known."""
    file_bytes, state_bytes = files.file_bytes, files.state_bytes
    of_weight = _INT8_BYTES if "int8" in model.name else _FLOAT_BYTES
    if model.million_weights is not None:
        weights, basis = round(model.million_weights * 1e6 * of_weight), Basis.WEIGHTS
    elif file_bytes is not None:
        weights, basis = file_bytes, Basis.FILES
    elif model.archive_bytes is not None:
        weights, basis = model.archive_bytes, Basis.ARCHIVE
    else:
        return None
    million = weights / of_weight / 1e6
    single = bool(model.files)
    alone = costs.cores(million, shared=False, single_files=single)
    shared = costs.cores(million, shared=not files.one_by_one, single_files=single)
    if alone is None or shared is None:
        return None
    times = files.times_computed or model.times_computed or 1.0
    alone, shared = alone * times, shared * times
    stream = (state_bytes or STATE_BYTES) + STREAM_BYTES
    process = PUBLIC_BYTES + weights * _COPIES
    if model.files and model.archive_bytes is not None:  # their weights stay as they are in the files
        process = PUBLIC_BYTES + model.archive_bytes * _COPIES_OF_FILES
    sessions = 0
    # A process computes on one processor, so a stream that needs more than that falls behind.
    if alone <= _BUSY * min(1.0, machine.processors):
        for processes in range(1, max(1, int(machine.processors)) + 1):
            carried = int(_BUSY * min(processes, machine.processors) / shared)
            held = (machine.room - processes * process) // stream
            sessions = max(sessions, min(max(1, carried), held))
    return Needs(process + stream, round(alone, 2), sessions, basis)


USUAL_SESSIONS: Final = 4
"""How many live sessions a recommended model carries, if nobody says another number and one can."""


def recommend(
    language: str, choices: Iterable[Choice], machine: Machine, sessions: int = USUAL_SESSIONS
) -> Choice | None:
    """Return the model for this language and machine; None if there is none.

    Only models with a known licence that fit into the memory count. Of these, only those that carry so many sessions,
    or else those that carry the most. The cheapest of them with published errors comes first. Another one takes its
    place only if it has fewer errors in all corpora that both were tested on. So no errors of different corpora are
    compared, and errors count more than sessions beyond those that were asked for.
    """
    fitting = [
        choice
        for choice in choices
        if language in choice.model.languages
        and choice.model.licence
        and not choice.model.not_yet
        and choice.needs.memory_bytes <= machine.room
    ]
    enough = min(sessions, max((choice.needs.sessions for choice in fitting), default=0))
    fitting = [choice for choice in fitting if choice.needs.sessions >= enough]
    tested = sorted((choice for choice in fitting if choice.model.errors), key=_expense)
    best = next(iter(tested or sorted(fitting, key=_expense)), None)
    for choice in tested[1:]:
        if best is not None and _has_fewer(_errors(choice), _errors(best)):
            best = choice
    return best


def _expense(choice: Choice) -> tuple[float, int, bool, int]:
    step = choice.model.step_ms or 0
    # Of equal models, one with long steps costs less.
    return choice.needs.cores, choice.needs.memory_bytes, step > _LONGEST_STEP_MS, -step


def _errors(choice: Choice) -> Mapping[str, float]:
    return {each.corpus: each.percent for each in choice.model.errors}


def _has_fewer(errors: Mapping[str, float], others: Mapping[str, float]) -> bool:
    both = errors.keys() & others.keys()
    return bool(both) and all(errors[corpus] < others[corpus] for corpus in both)
