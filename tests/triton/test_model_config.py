"""A model's configuration: reading, changing and writing it, and messages about a damaged file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamer.triton import TritonError
from streamer.triton.model_config import (
    CONFIG,
    config_text,
    group_name,
    instance_kind,
    model_config,
    reconfigure,
    set_apart,
)
from streamer.triton.repository import asr_repository

SHIPPED = asr_repository() / "streaming_asr"
TEXT = """
# instance_group [ { count: 9 } ]
parameters { key: "max_candidate_sequences: 8" value { string_value: "größer [ { count: 7 } ]" } }
instance_group [
  {
    # count: 6
    kind: KIND_CPU count : 1
  }
]
sequence_batching { oldest { max_candidate_sequences:512 # max_candidate_sequences: 4
} }
model_warmup [ { count: 3 } ]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "probe"
    path.mkdir()
    (path / CONFIG).write_text(TEXT, encoding="utf-8")
    return path


def test_only_what_is_asked_for_changes(folder: Path) -> None:
    """Strings and other counts stay as they are; a model without a name is named like its folder."""
    before = model_config(folder)
    assert before.name == "probe"
    assert reconfigure(before) == before
    after = reconfigure(before, name="other", instances=12, slots=3)
    assert (after.name, after.instance_group[0].count) == ("other", 12)
    assert after.sequence_batching.oldest.max_candidate_sequences == 3
    assert reconfigure(after, name="probe", instances=1, slots=512) == before


def test_what_is_written_says_the_same(folder: Path) -> None:
    """What is written means the same, also with letters beyond ASCII; comments are lost."""
    config = reconfigure(model_config(folder), instances=2)
    (folder / CONFIG).write_text(config_text(config), encoding="utf-8")
    assert model_config(folder) == config
    assert "größer" in (folder / CONFIG).read_text(encoding="utf-8")


def test_instances_of_their_own(folder: Path) -> None:
    """Each instance is a group with a name and a priority that no other has; nothing else changes."""
    config = reconfigure(model_config(folder), instances=5)
    for before in (config, set_apart(config, 2)):
        apart = set_apart(before, 3)
        assert [(group.name, group.count) for group in apart.instance_group] == [
            (group_name("probe", number), 1) for number in range(3)
        ]
        assert len({group.rate_limiter.priority for group in apart.instance_group}) == 3
        assert {group.kind for group in apart.instance_group} == {config.instance_group[0].kind}
        del apart.instance_group[:]
        apart.instance_group.extend(config.instance_group)
        assert apart == config


def test_an_ensemble_has_no_instances() -> None:
    """The steps of an ensemble have instances, but their number cannot follow the load."""
    with pytest.raises(TritonError, match="asr_heads is an ensemble"):
        set_apart(model_config(asr_repository() / "asr_heads"), 2)


def test_the_shipped_model() -> None:
    """The shipped model has everything that can be set, and uses a GPU if there is one."""
    config = model_config(SHIPPED)
    assert config.name == "streaming_asr"
    assert instance_kind(config) == "KIND_AUTO"
    assert reconfigure(config, instances=1, slots=64) == config


@pytest.mark.parametrize(("text", "kind"), [(TEXT, "KIND_CPU"), ("max_batch_size: 1", "KIND_AUTO")])
def test_on_what_a_model_computes(folder: Path, text: str, kind: str) -> None:
    """Triton chooses if the model does not say where it computes."""
    (folder / CONFIG).write_text(text, encoding="utf-8")
    assert instance_kind(model_config(folder)) == kind


def test_a_model_without_an_instance_group_gets_one(folder: Path) -> None:
    """A model without an instance group gets one, because Triton would otherwise add its own."""
    (folder / CONFIG).write_text("max_batch_size: 1")
    assert [group.count for group in reconfigure(model_config(folder), instances=3).instance_group] == [3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("instance_group [ { count: 1 }, { count: 2 } ]", "the model probe has 2 instance groups, not one"),
        ("max_batch_size: 1", "the model probe has no sequence_batching"),
        ("sequence_batching { direct { } }", "the sequence_batching of the model probe has no `oldest`"),
    ],
)
def test_what_cannot_be_set(folder: Path, text: str, sentence: str) -> None:
    """The message says why a model cannot have this setting."""
    (folder / CONFIG).write_text(text)
    with pytest.raises(TritonError, match=f"^(instances|slots) cannot be set: {sentence}$"):
        reconfigure(model_config(folder), instances=2, slots=2)


@pytest.mark.parametrize(("settings", "name"), [({"instances": 0}, "instances"), ({"slots": 0}, "slots")])
def test_numbers_below_one_are_refused(folder: Path, settings: dict[str, Any], name: str) -> None:
    """There must be at least one instance and one slot."""
    with pytest.raises(TritonError, match=f"^{name} must be 1 or more, not 0$"):
        reconfigure(model_config(folder), **settings)


def test_groups_of_several_kinds_have_none(folder: Path) -> None:
    """With instance groups of several kinds, it would be unclear which one is meant."""
    (folder / CONFIG).write_text("instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]")
    with pytest.raises(TritonError, match="the model probe has instance groups of several kinds"):
        instance_kind(model_config(folder))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'name: "probe"\n\nbackend "python"', ', line 3: \'backend "python"\': Expected ":"'),
        (b"max_batch_size: many", ", line 1: 'max_batch_size: many': Couldn't parse integer: many"),
        (b"no_such_field: 1", ', line 1: Message type "inference.ModelConfig" has no field named "no_such_field"'),
        (b"instance_group [ { count: 1 }", ", line 1: '': Expected \",\""),
        (b'name: "\xff"', " is not UTF-8 text"),
    ],
)
def test_a_damaged_file(folder: Path, content: bytes, sentence: str) -> None:
    """The message names the file and the line."""
    (folder / CONFIG).write_bytes(content)
    with pytest.raises(TritonError) as caught:
        model_config(folder)
    assert str(caught.value).startswith(f"{folder / CONFIG}{sentence}")


def test_a_missing_file(tmp_path: Path) -> None:
    """The message says that there is no such model."""
    with pytest.raises(TritonError, match=f"^{tmp_path}/nothing/{CONFIG} does not exist: the repository has no such"):
        model_config(tmp_path / "nothing")


def run(program: str) -> list[str]:
    """Return what a new Python process prints."""
    program = f"import sys\nfrom pathlib import Path\nfrom streamer.triton import model_config\n{program}"
    done = subprocess.run([sys.executable, "-c", program, SHIPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_reading_imports_protobuf_and_nothing_heavy() -> None:
    """A server is spawned before slow imports; importing this module reads nothing."""
    loaded = run("print(*sys.modules)")
    assert "google.protobuf" not in loaded
    loaded = run("model_config.model_config(Path(sys.argv[1])); print(*sys.modules)")
    assert "google.protobuf" in loaded
    assert not {"grpc", "numpy", "tritonclient", "asyncio"} & set(loaded)


@pytest.mark.parametrize("first", ["", "import tritonclient.grpc; "])
def test_the_messages_are_those_of_the_client(first: str) -> None:
    """A configuration that was read can be sent, in either order of imports."""
    program = (
        f"{first}config = model_config.model_config(Path(sys.argv[1]))\n"
        "from tritonclient.grpc import service_pb2\n"
        "print(service_pb2.ModelConfigResponse(config=config).config == config)"
    )
    assert run(program) == ["True"]


def test_without_the_client_of_triton() -> None:
    """The message says what to install."""
    program = (
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "try: model_config.model_config(Path(sys.argv[1]))\n"
        "except model_config.TritonError as error: print(error)"
    )
    assert " ".join(run(program)) == (
        "a config.pbtxt cannot be read without the package tritonclient[grpc]: pip install 'streamer-asr[embedded]'"
    )
