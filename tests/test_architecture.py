"""Which part may import which, what the light parts must not load, and where files are."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.import_graph import circles, foreign_imports, import_graph, modules
from tests.project import ROOT

# A part, and the parts of ours that it may import. A module belongs to the part with the longest fitting name. The
# package `streamer` itself has only the version, which every part may import.
# Every part may ask for the paths of our files, the name of our package, and what is known of the machine.
ANYWHERE = ("streamer.distribution", "streamer.machine", "streamer.shipped")
ARROWS: dict[str, tuple[str, ...]] = {
    "streamer.limits": (),
    "streamer.text": (),
    "streamer.wire": ("streamer.limits", "streamer.text", "streamer.transcript"),
    "streamer.machine": (),
    "streamer.fetching": (),
    "streamer.audio": ("streamer.fetching", "streamer.limits"),
    "streamer.graphs": ("streamer.text",),
    "streamer.engine": ("streamer.graphs", "streamer.limits", "streamer.text"),
    "streamer.distribution": (),
    "streamer.shipped": (),
    "streamer.timing": (),
    "streamer.cues": ("streamer.text",),
    "streamer.transcript": ("streamer.cues", "streamer.text"),
    "streamer.address": ("streamer.wire",),
    "streamer.triton": ("streamer.graphs", "streamer.wire"),
    "streamer.library": ("streamer.fetching", "streamer.graphs", "streamer.triton"),
    "streamer.client": ("streamer.address", "streamer.audio", "streamer.transcript", "streamer.wire"),
    "streamer.bridge.states": (),
    "streamer.bridge.session": ("streamer.audio", "streamer.bridge.states", "streamer.limits", "streamer.wire"),
    "streamer.bridge.telemetry": ("streamer.bridge.session", "streamer.wire"),
    "streamer.bridge.http.request": (),
    "streamer.bridge.access": (
        *("streamer.bridge.http.request", "streamer.bridge.telemetry", "streamer.limits", "streamer.text"),
        "streamer.wire",
    ),
    "streamer.bridge.upstreams": (
        *("streamer.bridge.session", "streamer.bridge.states", "streamer.bridge.telemetry", "streamer.limits"),
        *("streamer.triton", "streamer.wire"),
    ),
    "streamer.bridge.http": (
        *("streamer.bridge.access", "streamer.bridge.http.request", "streamer.bridge.session"),
        *("streamer.bridge.telemetry", "streamer.wire"),
    ),
    # These modules connect a websocket with a session.
    "streamer.bridge": (
        *("streamer.bridge.access", "streamer.bridge.http", "streamer.bridge.session", "streamer.bridge.telemetry"),
        *("streamer.bridge.states", "streamer.bridge.upstreams", "streamer.limits", "streamer.triton"),
        "streamer.wire",
    ),
    # It loads models for sessions that wait.
    "streamer.bridge.loading": ("streamer.bridge.telemetry", "streamer.bridge.upstreams", "streamer.triton"),
    # It follows the load of the sessions.
    "streamer.bridge.scaling": (
        *("streamer.bridge.states", "streamer.bridge.telemetry", "streamer.bridge.upstreams", "streamer.limits"),
    ),
    # What has a recording and a session together.
    "streamer.bridge.uploads": (
        *("streamer.audio", "streamer.bridge", "streamer.text", "streamer.triton", "streamer.wire"),
    ),
    # What has a dialect and a session together.
    "streamer.bridge.dialects": ("streamer.bridge", "streamer.wire"),
    "streamer.bridge.server": ("streamer.bridge", "streamer.wire"),
    "streamer.bridge.service": ("streamer.bridge", "streamer.limits", "streamer.triton"),
    # The valid values of a setting are known where it is used: origins, and the formats of the log.
    "streamer.settings": (
        *("streamer.address", "streamer.bridge.access", "streamer.bridge.telemetry", "streamer.graphs"),
        *("streamer.library", "streamer.limits", "streamer.triton"),
    ),
    "streamer.capacity": (
        *("streamer.audio", "streamer.bridge.session", "streamer.bridge.telemetry", "streamer.bridge.upstreams"),
        *("streamer.graphs", "streamer.text", "streamer.triton"),
    ),
    "streamer.embedded": ("streamer.bridge", "streamer.limits", "streamer.timing", "streamer.triton"),
    "streamer.chosen_service": (
        *("streamer.address", "streamer.embedded", "streamer.library", "streamer.timing", "streamer.triton"),
    ),
    "streamer.terminal": ("streamer.audio", "streamer.cues", "streamer.text", "streamer.transcript"),
    "streamer.doctor": (
        *("streamer.address", "streamer.audio", "streamer.capacity", "streamer.chosen_service", "streamer.client"),
        *("streamer.graphs", "streamer.library", "streamer.text", "streamer.timing", "streamer.triton"),
    ),
    "streamer.evaluate": ("streamer.audio", "streamer.client", "streamer.evaluate.engine_runner", "streamer.text"),
    "streamer.evaluate.engine_runner": (
        *("streamer.audio", "streamer.engine", "streamer.evaluate", "streamer.graphs", "streamer.triton"),
    ),
    "streamer.commands": (
        *("streamer.address", "streamer.audio", "streamer.bridge", "streamer.capacity", "streamer.chosen_service"),
        *("streamer.client", "streamer.doctor", "streamer.evaluate", "streamer.fetching", "streamer.graphs"),
        *("streamer.library", "streamer.limits", "streamer.settings", "streamer.terminal", "streamer.text"),
        *("streamer.timing", "streamer.transcript", "streamer.triton", "streamer.wire"),
    ),
    "streamer.cli": ("streamer.commands", "streamer.settings"),
    "streamer.__main__": ("streamer.cli",),
    "streamer.training": (
        *("streamer.audio", "streamer.engine", "streamer.evaluate", "streamer.text", "streamer.triton"),
    ),
    "streamer.testing": (
        *("streamer.adapters", "streamer.audio", "streamer.bridge", "streamer.client", "streamer.engine"),
        *("streamer.evaluate", "streamer.graphs", "streamer.limits", "streamer.text", "streamer.triton"),
        "streamer.wire",
    ),
    "streamer.adapters": ("streamer.engine",),
    "asr_repo": ("streamer.adapters", "streamer.engine"),
    "scripts": ("streamer",),
    "tests": ("streamer",),
}

# What the pure parts may import from outside: no sockets, no clocks, no threads.
PURE = {
    "streamer.wire": {"base64", "hashlib", "json", "math", "re"},
    "streamer.bridge.session": {"numpy"},
    "streamer.cues": set(),
    "streamer.text": {"re", "unicodedata"},
}
HARMLESS = {"__future__", "abc", "collections", "dataclasses", "enum", "functools", "itertools", "typing"}

# Modules that a fresh interpreter must not have loaded after importing a part.
HEAVY = {
    "streamer.cli": ("numpy", "soundfile", "websockets", "grpc", "torch", "argcomplete", "asyncio"),
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
    "streamer.settings.serve": ("numpy", "websockets", "asyncio", "ssl", "argparse", "tomllib"),
    "streamer.commands.completion": ("numpy", "soundfile", "websockets", "grpc", "torch", "asyncio"),
    "streamer.commands.mic": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.commands.models.command": ("numpy", "websockets", "grpc", "torch", "asyncio", "ssl", "tarfile"),
    "streamer.commands.doctor": ("numpy", "sounddevice", "websockets", "grpc", "torch"),
    "streamer.commands.plan": ("numpy", "soundfile", "websockets", "grpc", "torch", "asyncio"),
    "streamer.commands.evaluate": ("numpy", "soundfile", "websockets", "grpc", "torch", "rapidfuzz"),
    "streamer.triton.server": ("numpy", "websockets", "grpc", "torch"),
    "streamer.wire.native": ("numpy", "asyncio", "websockets", "torch"),
    "streamer.transcript": ("numpy", "torch"),
    "streamer.wire.options": ("numpy", "asyncio"),
    "streamer.audio.decoder": ("soundfile", "torch", "grpc"),
    "streamer.audio.audio_file": ("torch", "torchaudio", "grpc"),
    "streamer.client": ("torch", "torchaudio", "grpc", "tritonclient", "prometheus_client", "streamer.bridge"),
    "streamer.triton.link": ("torch", "torchaudio"),
    "streamer.bridge.service": ("torch", "torchaudio", "streamer.engine"),
    "streamer.evaluate.evaluation": ("torch", "streamer.engine"),
    "streamer.engine.recogniser": ("grpc", "tritonclient", "websockets", "torch", "torchaudio"),
    "streamer.testing.exact_recogniser": ("grpc", "websockets", "torch", "streamer.bridge"),
    "streamer.testing": ("torch", "grpc", "websockets", "streamer.bridge", "streamer.engine"),
}

MOST_MODULES = 12

# Tests of several modules together. Every other test has the name of the module that it tests.
TESTS_ACROSS_MODULES = {
    "tests/bridge/session/test_detected_pieces.py",
    "tests/bridge/session/test_generated_faults.py",
    "tests/bridge/session/test_generated_losses.py",
    "tests/bridge/session/test_generated_sessions.py",
    "tests/bridge/session/test_leaving.py",
    "tests/bridge/session/test_session_endings.py",
    "tests/bridge/session/test_session_limits.py",
    "tests/bridge/test_audio_kinds.py",
    "tests/bridge/test_clients.py",
    "tests/bridge/test_flow.py",
    "tests/bridge/test_recovery.py",
    "tests/bridge/test_resumed_kinds.py",
    "tests/bridge/uploads/test_deepgram.py",
    "tests/bridge/uploads/test_other_site.py",
    "tests/bridge/uploads/test_shutdown.py",
    "tests/bridge/upstreams/test_failed_rollover.py",
    "tests/bridge/upstreams/test_rollover_elsewhere.py",
    "tests/client/test_restart.py",
    "tests/clients/test_deepgram_clients.py",
    "tests/clients/test_openai_clients.py",
    "tests/commands/test_serve_models.py",
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
    "tests/test_repository.py",
    "tests/asr_repo/test_waiting.py",
    "tests/asr_repo/test_stream_options.py",
    "tests/test_tour.py",
    "tests/test_wheel.py",
    "tests/web/test_browsing.py",
    "tests/web/test_other_site.py",
    "tests/web/test_page_access.py",
    "tests/web/test_page_recordings.py",
    "tests/web/test_page_speaking.py",
    "tests/web/test_session.py",
    "tests/web/test_session_losses.py",
}


def part_of(module: str) -> str:
    """The part to which a module belongs."""
    fitting = [part for part in ARROWS if _within(module, part)]
    assert fitting, f"{module} belongs to no part: add one to ARROWS"
    return max(fitting, key=len)


def _within(module: str, part: str) -> bool:
    return f"{module}.".startswith(f"{part}.")


def _is_anywhere(module: str) -> bool:
    return module == "streamer" or any(_within(module, part) for part in ANYWHERE)


@pytest.mark.parametrize("part", ARROWS)
def test_a_part_imports_only_what_it_may(part: str) -> None:
    """A part imports exactly the parts that the table lists."""
    own = [module for module in modules() if module != "streamer" and part_of(module) == part]
    found = {(module, imported) for module in own for imported in import_graph()[module] if not _is_anywhere(imported)}
    used = {arrow for _, imported in found for arrow in ARROWS[part] if _within(imported, arrow)}
    forbidden = [
        f"{module} imports {imported}"
        for module, imported in sorted(found)
        if part_of(imported) != part and not any(_within(imported, arrow) for arrow in ARROWS[part])
    ]
    assert own
    assert not forbidden, "\n".join(forbidden)
    assert set(ARROWS[part]) == used


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


def test_nobody_imports_a_script_or_a_test() -> None:
    """Scripts are only run, and code that tests share is in modules without tests."""
    astray = [
        f"{module} imports {name}"
        for module, imported in import_graph().items()
        for name in sorted(imported)
        if _within(name, "scripts") or name.rpartition(".")[2].startswith("test_")
    ]
    assert not astray, "\n".join(astray)


def test_no_folder_is_crowded() -> None:
    """A folder has few enough modules to be seen at a glance."""
    files = [path for kind in ("*.py", "*.js") for path in (ROOT / "streamer").rglob(kind) if path.stem != "__init__"]
    crowds = Counter((str(path.parent.relative_to(ROOT)), path.suffix) for path in files)
    assert {place: number for place, number in crowds.items() if number > MOST_MODULES} == {}


def test_tests_mirror_what_they_test() -> None:
    """tests/bridge/test_driver.py tests streamer/bridge/driver.py, tests/scripts/… tests scripts/…."""
    paths = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    assert {path.as_posix() for path in paths if not any(map(Path.exists, may_be_about(path)))} == TESTS_ACROSS_MODULES


def may_be_about(test: Path) -> list[Path]:
    """The possible subjects of a test: a module, a package of this name, or a folder of the repository."""
    name = test.stem.removeprefix("test_")
    inner = Path(*test.parts[1:-1])
    places = [ROOT / "streamer" / inner, ROOT / inner]
    package = [place / "__init__.py" for place in places if place.name == name]
    names = [f"{name}.py", f"{name.replace('_', '-')}.js", name]
    return package + [place / each for place in places for each in names]


@pytest.mark.parametrize("part", HEAVY)
def test_a_light_part_loads_nothing_heavy(part: str) -> None:
    """In a fresh interpreter, a light part loads no heavy module."""
    code = f"import {part}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert part in loaded
    assert loaded.isdisjoint(HEAVY[part])


@pytest.mark.parametrize("part", ["streamer.client", "streamer.bridge.service", "streamer.cli"])
def test_a_light_part_works_without_torch(part: str) -> None:
    """Without torch, these parts can be imported."""
    code = f"import sys; sys.modules.update(torch=None, torchaudio=None); import {part}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
