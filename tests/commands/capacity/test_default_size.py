"""How many instances and slots a service has that nobody told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import streamer.commands.capacity.instance_limit as limiting
from streamer.base.machine import processor_time
from streamer.bridge.triton import repository
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.capacity.default_size import MOST_INSTANCES, DefaultSize, choose_size, most_instances
from streamer.commands.capacity.memory import MeasuringError
from streamer.commands.capacity.plan import BRIDGE, Memory, Part, Scope, Size, with_workers
from streamer.models.readers import ChosenReader
from streamer.testing.exact_service import add_exact_model, exact_repository
from tests.bridge.service_client import SPOKEN, recognise, text
from tests.serve_process import serving
from tests.triton_processes import recognisers
from workshop.graphs.exact_icefall import make_transducer_folder
from workshop.graphs.exact_moonshine import make_moonshine_folder

GB = 10**9
# A service of 0.3 GB, instances of 0.4 GB and streams of 10 MB.
PARTS = (
    Part("service", Scope.SERVICE, 3 * GB // 10),
    Part("instance", Scope.INSTANCE, 4 * GB // 10),
    Part("stream", Scope.STREAM, GB // 100),
)


def machine(folder: Path, processors: float, gigabytes: float) -> Path:
    """A container with so many processors, as a quota, and so much memory."""
    root = folder / f"{processors}-{gigabytes}"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "proc/meminfo").write_text("MemTotal: 100000000 kB\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu.max").write_text(f"{round(processors * 100_000)} 100000\n")
    (root / "sys/fs/cgroup/memory.max").write_text(f"{round(gigabytes * GB)}\n")
    return root


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a hundred processors and no GPU; its containers may use fewer."""
    monkeypatch.setattr("streamer.base.machine.os.sched_getaffinity", lambda _: set(range(100)))
    monkeypatch.setattr(repository, "gpu_is_there", lambda: False)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The models whose memory was measured: with the sizes of PARTS."""
    models: list[Path] = []

    def sizes_of(model: Path, *_: object) -> limiting.Sizes:
        models.append(model)
        return limiting.Sizes(PARTS, Memory(0))

    monkeypatch.setattr(limiting, "sizes_of", sizes_of)
    return models


@pytest.mark.parametrize(
    ("processors", "instances"), [(0.5, 1), (1, 1), (1.9, 1), (2, 2), (8, 8), (64, MOST_INSTANCES)]
)
def test_one_for_each_processor(processors: float, instances: int, tmp_path: Path, measured: list[Path]) -> None:
    """There is an instance for each whole processor of the quota, up to a bound. Plenty of memory is not measured."""
    model = add_exact_model(tmp_path / "models")
    found = choose_size([model], tmp_path, None, root=machine(tmp_path, processors, 90))
    assert found is not None
    assert (found.instances, found.slots, measured) == (instances, 64, [])


@pytest.mark.parametrize(
    ("processors", "instances", "slots"), [(1, 1, 64), (1.9, 1, 64), (2, 1, 128), (3, 1, 128), (4, 2, 128), (9, 4, 128)]
)
def test_one_for_each_two_processors(
    processors: float, instances: int, slots: int, tmp_path: Path, measured: list[Path]
) -> None:
    """Threads of a public model take turns at batches: an instance has two processors, and the slots of two."""
    model, root = make_transducer_folder(tmp_path), machine(tmp_path, processors, 90)
    found = choose_size([model], tmp_path, None, root=root)
    assert found is not None
    assert (found.instances, found.slots, measured) == (instances, slots, [])
    each = "processor" if processors < 2 else "2 processors"
    assert found.why == f"one for each {each} that may be used"
    assert choose_size([model], tmp_path, None, slots=20, root=root) == DefaultSize(instances, 20, found.why)


@pytest.mark.parametrize("other", [add_exact_model, make_moonshine_folder])
def test_one_for_each_processor_if_a_model_takes_no_turns(
    other: Callable[[Path], Path], tmp_path: Path, measured: list[Path]
) -> None:
    """A model of another kind needs an instance for each processor, and all models have as many."""
    (tmp_path / "models").mkdir()
    models = [make_transducer_folder(tmp_path), other(tmp_path / "models")]
    found = choose_size(models, tmp_path, None, root=machine(tmp_path, 4, 90))
    assert found == DefaultSize(4, 64, "one for each processor that may be used")
    assert measured == []


def test_a_sentence_says_what_was_chosen() -> None:
    """It has both numbers, the reason, and the settings to change them."""
    assert DefaultSize(2, 64, "one for each processor that may be used").sentence() == (
        "2 instances of each model with 64 slots each: one for each processor that may be used "
        "(--instances and --slots change this)"
    )


@pytest.mark.parametrize(
    ("gigabytes", "instances", "slots"),
    [
        (2.5, 2, 46),  # 2.0 GB may be used: two instances leave 0.9 GB, that is 45 streams each
        (1.75, 1, 64),  # of 1.4 GB, two instances would leave 0.3 GB: 30 streams, and one has 63
        (0.5, 1, 2),
    ],
)
def test_memory_that_may_not_be_enough_is_measured(
    gigabytes: float, instances: int, slots: int, tmp_path: Path, measured: list[Path]
) -> None:
    """The service then has room for the most streams, and stays within the memory of its container."""
    model = add_exact_model(tmp_path / "models")
    found = choose_size([model], tmp_path, None, root=machine(tmp_path, 2, gigabytes))
    assert found is not None
    assert (found.instances, found.slots, measured) == (instances, slots, [model])
    assert "GB of memory may be used" in found.why
    if slots > 2:
        size = Size(instances, slots, instances * (slots - 1))
        assert size.needed(PARTS).main <= 0.8 * gigabytes * GB


def test_slots_that_are_given(tmp_path: Path, measured: list[Path]) -> None:
    """They stay, and there are as many instances as the memory carries with them."""
    model = add_exact_model(tmp_path / "models")
    found = choose_size([model], tmp_path, None, slots=101, root=machine(tmp_path, 4, 4))
    assert found is not None
    assert (found.instances, found.slots, measured) == (2, 101, [model])


def test_more_slots_cost_no_instance(tmp_path: Path, measured: list[Path]) -> None:
    """For `--sessions auto` there are more slots where the memory carries them, but not instead of an instance."""
    model = add_exact_model(tmp_path / "models")
    root = machine(tmp_path, 2, 2.5)
    found = choose_size([model], tmp_path, None, most_slots=256, root=root)
    assert found is not None
    assert (found.instances, found.slots) == (2, 46)
    found = choose_size([model], tmp_path, None, most_slots=256, root=machine(tmp_path, 2, 4))
    assert found is not None
    assert (found.instances, found.slots) == (2, 106)


def test_never_more_instances_than_sessions(tmp_path: Path) -> None:
    """Where one user may speak, one instance is enough."""
    assert most_instances(machine(tmp_path, 8, 64), 1) == (1, "there are never more than 1 session")
    assert most_instances(machine(tmp_path, 8, 32), 100)[0] == 8


def test_each_worker_keeps_instances_busy(tmp_path: Path, measured: list[Path]) -> None:
    """What one process of the bridge can use bounds the instances, and several can use more."""
    root = machine(tmp_path, 64, 400)
    assert most_instances(root) == (MOST_INSTANCES, "no more are of use to one process of the bridge (--workers)")
    assert most_instances(root, workers=2) == (2 * MOST_INSTANCES, "no more are of use to 2 workers")
    assert most_instances(root, workers=8) == (64, "one for each processor that may be used")
    model = add_exact_model(tmp_path / "models")
    found = choose_size([model], tmp_path, None, workers=8, root=root)
    assert found is not None
    assert (found.instances, measured) == (64, [])


def test_workers_need_memory_too(tmp_path: Path, measured: list[Path]) -> None:
    """Each worker, and the process that starts them, takes as much as the bridge of a service with one process."""
    models = [add_exact_model(tmp_path / "models", name) for name in ("one", "two")]
    root = machine(tmp_path, 4, 9)
    counts = []
    for workers in (1, 16, 40):
        found = choose_size(models, tmp_path, None, workers=workers, root=root)
        assert found is not None
        counts.append(found.instances)
    assert counts[0] > counts[1] > counts[2]
    assert measured == []


def test_workers_of_a_service_that_is_measured(
    tmp_path: Path, measured: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge that was measured counts for each process, and each further worker needs a slot of its own."""
    parts = [Part(BRIDGE, Scope.SERVICE, GB // 10), *PARTS]
    monkeypatch.setattr(limiting, "sizes_of", lambda *_: limiting.Sizes(parts, Memory(0)))
    model = add_exact_model(tmp_path / "models")
    root = machine(tmp_path, 2, 2.5)
    for workers in (1, 4):
        found = choose_size([model], tmp_path, None, workers=workers, root=root)
        assert found is not None
        slots = found.slots + workers - 1
        size = Size(found.instances, slots, found.instances * (slots - workers))
        used = with_workers(parts, workers)
        assert sum(part.main for part in used if part.scope is Scope.SERVICE) == (
            3 * GB // 10 + (1 if workers == 1 else 5) * GB // 10
        )
        assert size.needed(used).main <= 0.8 * 2.5 * GB


def test_shared_memory_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with little shared memory gets the instances whose regions fit."""
    root = machine(tmp_path, 16, 64)
    (root / "dev/shm").mkdir(parents=True)
    free = type("Usage", (), {"free": 64 << 20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: free)
    assert most_instances(root) == (8, f"{root}/dev/shm has no room for more")


def test_a_reader_needs_memory_too(tmp_path: Path, measured: list[Path]) -> None:
    """What it will take is estimated from its files."""
    model, reader = add_exact_model(tmp_path / "models"), tmp_path / "reader"
    reader.mkdir()
    with (reader / "weights").open("wb") as file:
        file.truncate(8 * GB)
    root = machine(tmp_path, 2, 8)
    assert choose_size([model], tmp_path, None, root=root) is not None
    assert measured == []
    assert choose_size([model], tmp_path, ChosenReader("large", reader), root=root) is not None
    assert measured == [model]


def test_several_models_share_the_memory(tmp_path: Path, measured: list[Path]) -> None:
    """Each may get all sessions, so each has the same number of instances, and nothing is measured."""
    models = [add_exact_model(tmp_path / "models", name) for name in ("one", "two", "three")]
    for gigabytes, instances in ((32, 4), (8, 2), (4, 1)):
        found = choose_size(models, tmp_path, None, root=machine(tmp_path, 4, gigabytes))
        assert found is not None
        assert found.instances == instances
    assert measured == []


def test_a_model_with_a_size_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several instances in config.pbtxt, an ensemble, and a GPU decide for themselves."""
    root = machine(tmp_path, 4, 64)
    several = add_exact_model(tmp_path / "models", "several", instances=3)
    single = add_exact_model(tmp_path / "models", "single")
    assert choose_size([single], tmp_path, None, root=root) is not None
    assert choose_size([several], tmp_path, None, root=root) is None
    assert choose_size([single, several], tmp_path, None, root=root) is None
    assert choose_size([asr_repository() / "asr_heads"], asr_repository(), None, root=root) is None
    monkeypatch.setattr(repository, "gpu_is_there", lambda: True)
    assert choose_size([single], tmp_path, None, root=root) is None


def test_a_model_that_cannot_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets one instance, and the sentence says why."""

    def sizes_of(*_: object) -> limiting.Sizes:
        raise MeasuringError("it is not a bundle")

    monkeypatch.setattr(limiting, "sizes_of", sizes_of)
    model = add_exact_model(tmp_path / "models")
    found = choose_size([model], tmp_path, None, root=machine(tmp_path, 2, 2))
    assert found == DefaultSize(1, 64, "it is not known whether more fit in the memory, because it is not a bundle")


async def test_a_service_that_nobody_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what it chose, has so many processes of its model and sessions, and recognises."""
    monkeypatch.undo()
    expected = max(1, int(processor_time()))
    exact = exact_repository(tmp_path / "exact")
    with serving("--repository", str(exact), environment={"STREAMER_SERVE_INSTANCES": ""}) as served:
        [said] = [line for line in served.lines if "slots each" in line]
        assert said.startswith(f"streamer: {expected} instance")
        assert len(recognisers(served.process.pid)) == expected
        assert served.state["sessions_limit"] == expected * 63
        assert text(await recognise(served.url, SPOKEN[:100_000]))
        assert served.end() == 0
