"""What a public model needs, by an estimate, and which one is recommended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.models.library import CATALOGUE, KnownModel, PublishedErrors, PublishedFile, known_models
from streamer.models.needs import (
    USUAL_SESSIONS,
    Basis,
    Choice,
    CostTable,
    FilesSay,
    Machine,
    Needs,
    needs_of,
    recommend,
    weight_bytes,
)

GB = 10**9
DESK = Machine(16 * GB, 2.0)


@pytest.fixture
def costs(tmp_path: Path) -> CostTable:
    """A table with two sizes."""
    rows = [
        {"million_weights": 60, "ms_alone": 200, "ms_shared": 80},
        {"million_weights": 10, "ms_alone": 100, "ms_shared": 60},
    ]
    path = tmp_path / "catalogue.json"
    single = {"rows": [{"million_weights": 60, "ms_alone": 300, "ms_shared": 290}]}
    path.write_text(json.dumps({"cost": {"rows": rows, "single_files": single}}))
    return CostTable(path)


def model(name: str = "a", million: float | None = 10, **facts: object) -> KnownModel:
    """A model for German whose licence is known."""
    about: dict[str, object] = {"languages": ("de",), "licence": "MIT", "million_weights": million, **facts}
    return KnownModel(name, f"https://example.org/{name}.tar", **about)  # type: ignore[arg-type]


def choices(machine: Machine, costs: CostTable, *models: KnownModel) -> list[Choice]:
    """The models whose needs are known."""
    return [Choice(each, needs) for each in models if (needs := needs_of(each, machine, costs))]


def published(**percents: float) -> tuple[PublishedErrors, ...]:
    """Published errors by corpus."""
    return tuple(PublishedErrors(corpus, percent) for corpus, percent in percents.items())


def test_the_cost_is_on_the_line_through_the_measured_sizes(costs: CostTable) -> None:
    """Between and beyond the measured sizes it grows with the weights; below, it does not fall."""
    alone = [costs.cores(million, shared=False) for million in (1, 10, 35, 60, 560)]
    assert alone == pytest.approx([0.1, 0.1, 0.15, 0.2, 1.2])
    assert costs.cores(35, shared=True) == pytest.approx(0.07)


def test_what_is_computed_several_times_costs_more(costs: CostTable) -> None:
    """Without caches, a stream costs as many times more; one by one, many streams cost as much as each alone."""
    usual, known, files, alone = (
        needs_of(model(times_computed=times), DESK, costs, files)
        for times, files in (
            (None, FilesSay()),
            (3.0, FilesSay()),
            (9.0, FilesSay(times_computed=3.0)),
            (None, FilesSay(one_by_one=True)),
        )
    )
    assert usual
    assert known
    assert alone
    assert (usual.cores, usual.sessions) == (0.1, 30)
    assert (known.cores, known.sessions) == (0.3, 10)
    assert files == known
    assert (alone.cores, alone.sessions) == (0.1, 18)
    slow = needs_of(model(times_computed=12.0), DESK, costs)
    assert slow
    assert not slow.sessions


def test_what_a_model_needs(costs: CostTable) -> None:
    """Memory follows from the weights, sessions from the processors and the memory."""
    needs = needs_of(model(), DESK, costs, FilesSay(state_bytes=2_000_000))
    assert needs == Needs(150_000_000 + 3 * 40_000_000 + 7_000_000, 0.1, 30, Basis.WEIGHTS)
    small = needs_of(model(), Machine(700_000_000, 2.0), costs, FilesSay(state_bytes=2_000_000))
    assert small is not None
    assert small.sessions == (560_000_000 - 250_000_000 - 270_000_000) // 7_000_000 == 5


def test_a_model_in_single_files(costs: CostTable) -> None:
    """Its weights stay as they are in the files, and what it costs is in a table of its own."""
    whole = model(million=60, files=(PublishedFile("encoder.ort", 50_000_000),), archive_bytes=50_000_000)
    needs = needs_of(whole, DESK, costs, FilesSay(state_bytes=2_000_000))
    assert needs == Needs(150_000_000 + 2 * 50_000_000 + 7_000_000, 0.3, 6, Basis.WEIGHTS)


def test_a_model_that_falls_behind_carries_no_session(costs: CostTable) -> None:
    """A stream alone has one processor, or the part of one that a container may use."""
    for million, machine in ((560, DESK), (10, Machine(16 * GB, 0.1))):
        needs = needs_of(model(million=million), machine, costs)
        assert needs is not None
        assert needs.sessions == 0


def test_from_what_the_size_follows(costs: CostTable, tmp_path: Path) -> None:
    """The number of weights counts before the files, and these before the archive. Without any, nothing is said."""
    known = [
        needs_of(model(archive_bytes=9), DESK, costs, FilesSay(9)),
        needs_of(model(million=None, archive_bytes=9), DESK, costs, FilesSay(40_000_000)),
        needs_of(model(million=None, archive_bytes=40_000_000), DESK, costs),
    ]
    assert [needs and needs.basis for needs in known] == [Basis.WEIGHTS, Basis.FILES, Basis.ARCHIVE]
    assert len({needs and needs.cores for needs in known}) == 1
    assert needs_of(model(million=None), DESK, costs) is None
    (tmp_path / "none.json").write_text("{}")
    assert needs_of(model(), DESK, CostTable(tmp_path / "none.json")) is None


def test_weights_in_int8_take_a_little_more_than_their_file(tmp_path: Path, costs: CostTable) -> None:
    """Tables stay bytes when they are loaded, and convolutions become full numbers. Time follows from their number."""
    for name in ("a.int8.onnx", "a.onnx"):
        (tmp_path / name).write_bytes(b"123456")
    assert [weight_bytes(tmp_path / name) for name in ("a.int8.onnx", "a.onnx")] == [9, 6]
    full, rounded, of_file = (
        needs_of(model(name, million), DESK, costs, FilesSay(file_bytes, 0))
        for name, million, file_bytes in (("a", 60, None), ("a-int8", 60, None), ("a-int8", None, 90_000_000))
    )
    assert full
    assert rounded
    assert of_file
    assert full.memory_bytes - rounded.memory_bytes == 3 * 60_000_000 * 2.5
    assert of_file.memory_bytes == rounded.memory_bytes
    assert full.cores == rounded.cores == of_file.cores


def test_the_recommendation(costs: CostTable) -> None:
    """The cheapest with published errors, or a dearer one that has fewer in the same corpora."""

    def best(*models: KnownModel, machine: Machine = DESK) -> str | None:
        found = recommend("de", choices(machine, costs, *models), machine)
        return found and found.model.name

    cheap, dear = (
        model("cheap", 12, errors=published(read=5.0, calls=20.0)),
        model("dear", 60, errors=published(read=4.0)),
    )
    assert best(dear, cheap, model("untested", 5)) == "dear"
    assert best(cheap, model("other", 60, errors=published(news=1.0))) == "cheap"
    assert best(cheap, model("mixed", 60, errors=published(read=4.0, calls=21.0))) == "cheap"
    assert best(cheap, dear, machine=Machine(700_000_000, 2.0)) == "cheap"
    assert best(cheap, model("slow", 560, errors=published(read=1.0))) == "cheap"
    assert best(model("slow", 560)) == "slow"
    assert best(model("unlicensed", licence=""), model("later", not_yet="it is old")) is None
    assert best(model("english", languages=("en",))) is None
    assert best(model("large", 600), machine=Machine(GB, 2.0)) is None
    steps = [model(f"step{ms}", step_ms=ms) for ms in (80, 560, 1120)]
    assert best(*steps) == "step560"


def test_a_recommended_model_carries_the_sessions(costs: CostTable) -> None:
    """Fewer errors count only among those that carry so many sessions. If none does, the most sessions count."""
    cheap = model("cheap", 10, errors=published(read=5.0))
    dear = model("dear", 60, errors=published(read=4.0), times_computed=2.0)
    both = choices(DESK, costs, cheap, dear)
    assert [each.needs.sessions for each in both] == [30, 11]
    chosen = [recommend("de", both, DESK, sessions) for sessions in (4, 11, 12, 30, 31)]
    assert [each and each.model.name for each in chosen] == ["dear", "dear", "cheap", "cheap", "cheap"]


@pytest.mark.parametrize(
    ("machine", "sessions", "expected", "carries"),
    [
        (Machine(4 * GB, 2.0), USUAL_SESSIONS, "sherpa-onnx-streaming-zipformer-en-2023-06-26", 21),
        (Machine(4 * GB, 2.0), 2, "moonshine-streaming-small", 3),
        (Machine(16 * GB, 8.0), USUAL_SESSIONS, "moonshine-streaming-medium", 7),
        (Machine(16 * GB, 8.0), 10, "moonshine-streaming-small", 15),
        (Machine(16 * GB, 8.0), 50, "sherpa-onnx-streaming-zipformer-en-2023-06-26", 86),
        (Machine(128 * GB, 64.0), USUAL_SESSIONS, "moonshine-streaming-medium", 61),
        (Machine(128 * GB, 64.0), 100, "moonshine-streaming-small", 126),
        (Machine(1 * GB, 1.0), USUAL_SESSIONS, "moonshine-streaming-tiny", 8),
    ],
)
def test_the_recommendation_for_english(machine: Machine, sessions: int, expected: str, carries: int) -> None:
    """The catalogue's fewest errors for so many sessions: on two cores with 4 GB, eight with 16, and 64 with 128."""
    best = recommend("en", choices(machine, CostTable(), *known_models().values()), machine, sessions)
    assert best is not None
    assert (best.model.name, best.needs.sessions) == (expected, carries)


def test_the_catalogue() -> None:
    """The size of a model has a source, and the measured costs name their command. Each language has its model."""
    content = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    for table in (content["cost"], content["cost"]["single_files"]):
        assert (Path(__file__).parents[2] / table["command"].split()[0]).is_file()
    known = known_models()
    for each in known.values():
        assert (each.million_weights is None) == (each.weights_source == "")
        assert bool(each.errors) == bool(each.errors_source)
        assert bool(each.licence) == bool(each.licence_source)
    server = Machine(64 * GB, 8.0)
    found = choices(server, CostTable(), *known.values())
    without = [code for code in content["languages"] if recommend(code, found, server) is None]
    assert without == []
