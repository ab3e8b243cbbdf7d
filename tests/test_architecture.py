"""Which room may import which, what the light parts must not load, and where files are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_graph import circles, foreign_imports, import_graph, modules
from tests.project import DOCS, ROOT

# The rooms, from the ground up, and those that each imports. None imports one that stands above it. A module belongs to
# the room with the longest fitting name. Every room may import the package `streamer`, which has only the version.
ROOMS: dict[str, tuple[str, ...]] = {
    "streamer.base": (),
    "streamer.wire": ("streamer.base",),
    "streamer.audio": ("streamer.base",),
    "streamer.models": ("streamer.base",),
    "streamer.client": ("streamer.audio", "streamer.base", "streamer.wire"),
    "streamer.engine": ("streamer.base", "streamer.models"),
    "streamer.heads": ("streamer.base", "streamer.engine"),
    "streamer.bridge": ("streamer.audio", "streamer.base", "streamer.models", "streamer.wire"),
    "streamer.commands": (
        "streamer.audio",
        "streamer.base",
        "streamer.bridge",
        "streamer.client",
        "streamer.engine",
        "streamer.models",
        "streamer.wire",
    ),
    "streamer.testing": ("streamer.base", "streamer.bridge", "streamer.engine", "streamer.heads"),
    "streamer.__main__": ("streamer.commands",),
    "asr_repo": ("streamer.engine", "streamer.heads"),
    "workshop": ("streamer",),
    "scripts": ("streamer", "workshop"),
    "tests": ("streamer", "workshop"),
}

# Folders inside a room that know less than the rest of it: what they import of their own room.
INNER_ROOMS: dict[str, tuple[str, ...]] = {
    "streamer.bridge.session": ("streamer.bridge.states",),
    "streamer.bridge.telemetry": ("streamer.bridge.session",),
    "streamer.bridge.triton": (),
    "streamer.commands.accuracy": (),
    "streamer.commands.capacity": ("streamer.commands.traffic",),
    "streamer.commands.settings": (),
    "streamer.commands.terminal": (),
    "streamer.commands.traffic": ("streamer.commands.accuracy",),
}

# What only these may import: the engine runs outside Triton, and everything but the accuracy of the engine without it.
ONLY_FOR: dict[str, tuple[str, ...]] = {
    "streamer.engine.adapters": ("asr_repo", "streamer.heads", "streamer.testing", "tests", "workshop"),
    "streamer.engine": (
        "asr_repo",
        "streamer.commands.accuracy.engine_runner",
        "streamer.engine",
        "streamer.heads",
        "streamer.testing",
        "scripts",
        "tests",
        "workshop",
    ),
}

# What the pure parts may import from outside: no sockets, no clocks, no threads.
PURE = {
    "streamer.wire": {"base64", "hashlib", "json", "math", "re"},
    "streamer.bridge.session": {"numpy"},
    "streamer.base.cues": set(),
    "streamer.base.text": {"difflib", "json", "re", "unicodedata"},
}
HARMLESS = {"__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "functools", "itertools", "typing"}

# Modules that a fresh interpreter must not have loaded after importing a part.
HEAVY = {
    "streamer.commands.cli": ("numpy", "soundfile", "websockets", "grpc", "torch", "argcomplete", "asyncio"),
    "streamer.commands.serve": (
        "numpy",
        "soundfile",
        "websockets",
        "grpc",
        "torch",
        "asyncio",
        "ssl",
        "tomllib",
        "tomli",
    ),
    "streamer.commands.settings.serve": ("numpy", "websockets", "asyncio", "ssl", "argparse", "tomllib"),
    "streamer.commands.completion": ("numpy", "soundfile", "websockets", "grpc", "torch", "asyncio"),
    "streamer.commands.mic": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.commands.models": ("numpy", "websockets", "grpc", "torch", "asyncio", "ssl", "tarfile"),
    "streamer.commands.doctor": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.commands.plan": ("numpy", "soundfile", "websockets", "grpc", "torch", "asyncio"),
    "streamer.commands.evaluate": ("numpy", "soundfile", "websockets", "grpc", "torch", "rapidfuzz"),
    "streamer.commands.load": ("numpy", "soundfile", "websockets", "grpc", "torch", "rapidfuzz", "asyncio"),
    "streamer.commands.traffic.clients": ("torch", "grpc", "tritonclient", "prometheus_client", "rapidfuzz"),
    "streamer.bridge.triton.server": ("numpy", "websockets", "grpc", "torch"),
    "streamer.wire.native": ("numpy", "asyncio", "websockets", "torch"),
    "streamer.base.transcript": ("numpy", "torch"),
    "streamer.wire.options": ("numpy", "asyncio"),
    "streamer.audio.decoder": ("soundfile", "torch", "grpc"),
    "streamer.audio.audio_file": ("torch", "torchaudio", "grpc"),
    "streamer.client": ("torch", "torchaudio", "grpc", "tritonclient", "prometheus_client", "streamer.bridge"),
    "streamer.bridge.triton.link": ("torch", "torchaudio"),
    "streamer.bridge.service": ("torch", "torchaudio", "streamer.engine"),
    "streamer.commands.accuracy.evaluation": ("torch", "streamer.engine"),
    "streamer.commands.accuracy.engine_runner": ("torch", "torchaudio"),
    "streamer.engine.bundle": ("grpc", "tritonclient", "websockets", "torch", "torchaudio"),
    "streamer.engine.memory.report": ("torch", "torchaudio"),
    "streamer.engine.public.loading": ("grpc", "tritonclient", "websockets", "torch", "torchaudio"),
    "streamer.engine.acoustics.acoustic_model": ("torch", "numba", "grpc"),
    "streamer.heads.speech_encoder": ("torch", "numba", "grpc"),
    "streamer.heads.activity_head": ("torch", "numba", "grpc", "onnxruntime"),
    "streamer.heads.transcript_head": ("torch", "numba", "grpc", "onnxruntime"),
    "streamer.engine.recogniser": ("grpc", "tritonclient", "websockets", "torch", "torchaudio"),
    "streamer.heads.loading": ("grpc", "tritonclient", "websockets", "torch", "torchaudio"),
    "streamer.heads.step_report": ("torch", "torchaudio"),
    "streamer.testing.exact_model": ("grpc", "websockets", "torch", "streamer.bridge.service"),
    "streamer.testing": ("torch", "grpc", "websockets", "streamer.bridge.service", "streamer.engine"),
}

# The only modules that have a `dict[str, Any]`, into which no type checker looks, each with the reason.
UNCHECKED = {
    # JSON of others enters here, and is checked here or by the caller.
    "streamer.audio.ffmpeg": "what ffprobe prints",
    "streamer.client.connection": "messages of a service, which may be a later one",
    "streamer.client.events": "what a head of the operator sends",
    "streamer.client.recovery": "messages of a service, which may be a later one",
    "streamer.commands.accuracy.word_figures": "a line of an alignment",
    "streamer.commands.checks.models": "the header of a file of weights",
    "streamer.commands.settings.configuration": "values of settings of all kinds, by name",
    "streamer.engine.adapters.instance": "the configuration that Triton gives to a model",
    "streamer.engine.adapters.requests": "options of a request to a model",
    "streamer.engine.model_file": "the description in a file of a model",
    "streamer.engine.stream_options": "options of a request to a model",
    "streamer.engine.text.calibration": "a file of a model",
    "streamer.models.library": "the catalogue, and what was fetched before",
    "streamer.models.readers": "the catalogue",
    "streamer.wire.dialects.openai_realtime": "events of a client",
    "streamer.wire.events": "events of a model",
    "streamer.wire.options": "options of a client",
    "streamer.wire.upload": "options of a client",
    # Arguments for a function that takes any.
    "streamer.bridge.http.listener": "for asyncio",
    "streamer.bridge.session.replay": "for dataclasses.replace",
    "streamer.bridge.upstreams.instance_count": "for a line of the log",
}

DEEPEST = 4  # streamer, a room, a folder, a module

# Tests of several modules together. Every other test has the name of the module that it tests.
TESTS_ACROSS_MODULES = {
    "tests/bridge/session/test_detected_pieces.py",
    "tests/bridge/session/test_generated_faults.py",
    "tests/bridge/session/test_generated_losses.py",
    "tests/bridge/session/test_generated_sessions.py",
    "tests/bridge/session/test_leaving.py",
    "tests/bridge/session/test_recorded_sessions.py",
    "tests/bridge/test_audio_kinds.py",
    "tests/bridge/test_clients.py",
    "tests/bridge/test_flow.py",
    "tests/bridge/test_recovery.py",
    "tests/bridge/test_resumed_kinds.py",
    "tests/bridge/test_speakers.py",
    "tests/bridge/uploads/test_deepgram.py",
    "tests/bridge/uploads/test_other_site.py",
    "tests/bridge/uploads/test_shutdown.py",
    "tests/bridge/upstreams/test_failed_rollover.py",
    "tests/bridge/upstreams/test_rollover_elsewhere.py",
    "tests/client/test_restart.py",
    "tests/clients/test_azure_clients.py",
    "tests/clients/test_deepgram_clients.py",
    "tests/clients/test_grpc_clients.py",
    "tests/clients/test_openai_clients.py",
    "tests/clients/test_self_hosted_clients.py",
    "tests/clients/test_voice_agent_clients.py",
    "tests/clients/test_wyoming_client.py",
    "tests/engine/test_marks.py",
    "tests/engine/search/test_rescored_search.py",
    "tests/engine/test_pauses.py",
    "tests/engine/test_pieces.py",
    "tests/engine/test_second_pass.py",
    "tests/scripts/test_setup.py",
    "tests/test_architecture.py",
    "tests/test_documents.py",
    "tests/test_drain.py",
    "tests/test_light_client.py",
    "tests/test_long_session.py",
    "tests/test_release.py",
    "tests/test_repository.py",
    "tests/asr_repo/test_public_model.py",
    "tests/asr_repo/test_waiting.py",
    "tests/asr_repo/test_stream_options.py",
    "tests/asr_repo/test_without_torch.py",
    "tests/test_tour.py",
    "tests/test_wheel.py",
    "tests/web/test_browsing.py",
    "tests/web/test_other_site.py",
    "tests/web/test_session.py",
    "tests/web/test_session_losses.py",
}


def room_of(module: str) -> str:
    """The room to which a module belongs."""
    fitting = [room for room in ROOMS if _within(module, room)]
    assert fitting, f"{module} belongs to no room: add one to ROOMS"
    return max(fitting, key=len)


def _within(module: str, room: str) -> bool:
    return f"{module}.".startswith(f"{room}.")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    """A room imports exactly the rooms that the table lists."""
    own = [module for module in modules() if module != "streamer" and room_of(module) == room]
    arrows = {
        (module, imported)
        for module in own
        for imported in import_graph()[module]
        if imported != "streamer" and room_of(imported) != room
    }
    used = {arrow for _, imported in arrows for arrow in ROOMS[room] if _within(imported, arrow)}
    forbidden = [
        f"{module} imports {imported}"
        for module, imported in sorted(arrows)
        if not any(_within(imported, arrow) for arrow in ROOMS[room])
    ]
    assert own
    assert not forbidden, "\n".join(forbidden)
    assert set(ROOMS[room]) == used


def test_the_page_has_this_table() -> None:
    """docs/explanation/architecture.md has the rooms of the product in the same order, with the same arrows."""
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \|([^|]*)\|$", page.partition("## States")[0], re.MULTILINE)
    written = [
        (f"streamer.{room}", tuple(f"streamer.{name}" for name in re.findall(r"\w+", arrows))) for room, arrows in rows
    ]
    assert written == [(room, arrows) for room, arrows in ROOMS.items() if _within(room, "streamer")]


def test_no_room_imports_one_above() -> None:
    """The table is in order: each room imports only rooms that stand before it."""
    below: list[str] = []
    for room, imported in ROOMS.items():
        assert all(any(_within(each, arrow) for each in below) for arrow in imported), room
        below.append(room)


@pytest.mark.parametrize("folder", INNER_ROOMS)
def test_a_folder_knows_less_than_its_room(folder: str) -> None:
    """Some folders can be understood without the rest of their room."""
    room = room_of(folder)
    imported = {
        name
        for module in modules()
        if _within(module, folder)
        for name in import_graph()[module]
        if _within(name, room) and not _within(name, folder)
    }
    astray = [name for name in imported if not any(_within(name, allowed) for allowed in INNER_ROOMS[folder])]
    assert astray == []


@pytest.mark.parametrize("part", ONLY_FOR)
def test_a_part_is_imported_only_where_it_may_be(part: str) -> None:
    """Only a few parts know the engine, and still fewer what runs inside Triton."""
    astray = [
        f"{module} imports {name}"
        for module, imported in import_graph().items()
        for name in sorted(imported)
        if _within(name, part) and not any(_within(module, allowed) for allowed in (part, *ONLY_FOR[part]))
    ]
    assert not astray, "\n".join(astray)


def test_what_is_imported_is_there() -> None:
    """Every imported name exists, even where the code was not run since something was moved."""
    imported = {(module, name) for module, names in import_graph().items() for name in names}
    missing = [f"{module} imports {name}" for module, name in sorted(imported) if name not in modules()]
    assert not missing, "\n".join(missing)


def test_there_is_no_circle() -> None:
    """No module imports itself through others, not even for types."""
    found = [" <-> ".join(circle) for circle in circles(import_graph())]
    assert not found, "\n".join(found)


def test_a_circle_is_found() -> None:
    """A long circle is found too, and modules that only lead to it are not part of it."""
    graph = {"a": {"b"}, "b": {"c", "e"}, "c": {"d"}, "d": {"b"}, "e": set(), "f": {"f"}}
    assert circles({name: frozenset(imported) for name, imported in graph.items()}) == [["b", "c", "d"], ["f"]]


@pytest.mark.parametrize("part", PURE)
def test_a_pure_part_imports_nothing_that_has_effects(part: str) -> None:
    """A pure part can be tested without sockets, clocks and threads."""
    for module in modules():
        if _within(module, part):
            assert foreign_imports(module) <= HARMLESS | PURE[part], module


def test_the_type_checker_sees_what_objects_hold() -> None:
    """`dict[str, Any]` stands only where JSON of others enters, and in few other modules."""
    found = {module for module in modules() if _within(module, "streamer") and _has_unchecked_objects(module)}
    assert found == set(UNCHECKED)


def _has_unchecked_objects(module: str) -> bool:
    path = ROOT / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    code = re.sub(r'"""[\s\S]*?"""', "", file.read_text(encoding="utf-8"))
    return "dict[str, Any]" in code


def test_nobody_imports_a_script_or_a_test() -> None:
    """Scripts are only run, and code that tests share is in modules without tests."""
    astray = [
        f"{module} imports {name}"
        for module, imported in import_graph().items()
        for name in sorted(imported)
        if _within(name, "scripts") or name.rpartition(".")[2].startswith("test_")
    ]
    assert not astray, "\n".join(astray)


def test_no_folder_is_deep() -> None:
    """A room has folders, and these have none."""
    paths = [path.relative_to(ROOT) for path in (ROOT / "streamer").rglob("*.py")]
    assert [path.as_posix() for path in paths if len(path.parts) > DEEPEST] == []


def test_tests_mirror_what_they_test() -> None:
    """tests/bridge/test_driver.py and test_driver_….py test streamer/bridge/driver.py; so do those of the workshop."""
    paths = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    assert {path.as_posix() for path in paths if not any(map(Path.exists, may_be_about(path)))} == TESTS_ACROSS_MODULES


def may_be_about(test: Path) -> list[Path]:
    """The possible subjects of a test: a module, a package of this name, or a folder of the repository."""
    words = test.stem.removeprefix("test_").split("_")
    inner = Path(*test.parts[1:-1])
    subjects = []
    for name in ("_".join(words[:count]) for count in range(len(words), 0, -1)):
        places = [ROOT / "streamer" / inner, ROOT / inner]
        subjects += [place / "__init__.py" for place in places if place.name == name]
        subjects += [place / each for place in places for each in (f"{name}.py", f"{name.replace('_', '-')}.js", name)]
    return subjects


@pytest.mark.parametrize("part", HEAVY)
def test_a_light_part_loads_nothing_heavy(part: str) -> None:
    """In a fresh interpreter, a light part loads no heavy module."""
    code = f"import {part}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert part in loaded
    assert loaded.isdisjoint(HEAVY[part])


@pytest.mark.parametrize(
    "part",
    [
        "streamer.client",
        "streamer.bridge.service",
        "streamer.commands.cli",
        "streamer.commands.accuracy.engine_runner",
        "streamer.engine.bundle",
        "streamer.engine.compile",
        "streamer.engine.public.loading",
        "streamer.engine.search.greedy_search",
        "streamer.heads.loading",
    ],
)
def test_a_light_part_works_without_torch(part: str) -> None:
    """Without torch, these parts can be imported."""
    code = f"import sys; sys.modules.update(torch=None, torchaudio=None); import {part}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
