"""The model repository: where it is, copies of it with other settings, and the configurations of its models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamer.base import package
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton import repository as repository_module
from streamer.bridge.triton.repository import (
    CONFIG,
    GPU_BATCH,
    asr_repository,
    config_text,
    group_name,
    instance_kind,
    link_model,
    link_repository,
    make_resizable,
    model_config,
    models_alone,
    models_in,
    parts_of,
    reconfigure,
    set_apart,
    steps_in,
)
from workshop.graphs.exact_icefall import make_ctc_folder

TEXT = """
# count and max_candidate_sequences
instance_group [ { count: 1 } ]
sequence_batching { oldest { max_candidate_sequences: 512 } }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Provide two models and another file."""
    folder = tmp_path / "models"
    for name in ("left", "right"):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.py").write_text(f"# {name}")
        (folder / name / CONFIG).write_text(f'name: "{name}"' + TEXT)
    (folder / "README").touch()
    return folder


def numbers(folder: Path) -> tuple[str, int, int]:
    """Return name, instances and slots of a model."""
    config = model_config(folder)
    return config.name, config.instance_group[0].count, config.sequence_batching.oldest.max_candidate_sequences


def test_a_copy_has_other_numbers(repository: Path, tmp_path: Path) -> None:
    """Only the configurations of the given models are new files, and the original does not change."""
    copy = tmp_path / "copy"
    link_repository(repository, copy, ["left"], instances=3, slots=7)
    assert numbers(copy / "left") == ("left", 3, 7)
    assert (copy / "left" / "1").readlink() == repository / "left" / "1"
    assert (copy / "right").readlink() == repository / "right"
    assert (copy / "README").is_symlink()
    assert numbers(repository / "left") == ("left", 1, 512)
    assert (repository / "left" / CONFIG).read_text() == 'name: "left"' + TEXT


@pytest.mark.parametrize("settings", [{}, {"instances": 1}, {"instances": 1, "slots": 512}])
def test_what_does_not_differ_is_a_link(repository: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    """A model that does not differ is a link, so nothing is written again."""
    link_model(repository / "left", tmp_path / "left", **settings)
    assert (tmp_path / "left").readlink() == repository / "left"


def test_a_copy_of_another_name(repository: Path, tmp_path: Path) -> None:
    """The model is named like its folder, as Triton requires."""
    link_model(repository / "left", tmp_path / "other", slots=9)
    assert numbers(tmp_path / "other") == ("other", 1, 9)
    assert (tmp_path / "other" / "1" / "model.py").read_text() == "# left"


def test_a_copy_takes_the_place_of_the_former_one(repository: Path, tmp_path: Path) -> None:
    """A former link or folder is replaced; the target of a link stays."""
    copy = tmp_path / "left"
    for instances in (1, 2, 3, 1):
        link_model(repository / "left", copy, instances=instances)
        assert numbers(copy) == ("left", instances, 512)
    assert (repository / "left" / "1" / "model.py").exists()


def test_a_wrong_setting_leaves_the_former_copy(repository: Path, tmp_path: Path) -> None:
    """The former copy is removed only when the new settings are known to be valid."""
    copy = tmp_path / "left"
    link_model(repository / "left", copy, instances=2)
    with pytest.raises(TritonError, match="instances must be 1 or more, not 0"):
        link_model(repository / "left", copy, instances=0)
    assert numbers(copy) == ("left", 2, 512)


@pytest.mark.parametrize("slots", [None, 7])
def test_a_folder_in_which_nothing_changes(repository: Path, tmp_path: Path, slots: int | None) -> None:
    """Nothing can be compiled into a copy whose number of instances may change; the original is not touched."""
    (repository / "left" / "1" / "__pycache__").mkdir()
    copy = tmp_path / "left"
    link_model(repository / "left", copy, slots=slots)
    for instances in (1, 3):
        make_resizable(copy, instances)
        assert len(model_config(copy).instance_group) == instances
    assert (copy / "1" / "__pycache__").is_file()
    assert (copy / "1" / "model.py").readlink() == repository / "left" / "1" / "model.py"
    assert (repository / "left" / CONFIG).read_text() == 'name: "left"' + TEXT
    assert sorted(path.name for path in (repository / "left" / "1").iterdir()) == ["__pycache__", "model.py"]


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    """A model is a folder with a configuration."""
    (tmp_path / "1").mkdir()
    with pytest.raises(TritonError, match="is not a model repository"):
        models_in(tmp_path)


def test_the_repository_of_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository is in the package or beside a checkout; otherwise the message says what to do."""
    monkeypatch.setattr(package, "PACKAGE", tmp_path / "streamer")
    with pytest.raises(TritonError, match="install Streamer again"):
        asr_repository()
    (tmp_path / "asr_repo").mkdir()
    assert asr_repository() == tmp_path / "asr_repo"
    (tmp_path / "streamer" / "asr_repo").mkdir(parents=True)
    assert asr_repository() == tmp_path / "streamer" / "asr_repo"


def test_a_public_model(tmp_path: Path) -> None:
    """The folder of a public model becomes a model with the shipped configuration, and is not changed."""
    folder = tmp_path / "public"
    folder.mkdir()
    make_ctc_folder(folder)
    before = sorted(folder.iterdir())
    for _ in range(2):
        link_model(folder, tmp_path / "copy", slots=5)
        assert numbers(tmp_path / "copy") == ("copy", 1, 5)
        bundle = model_config(tmp_path / "copy").parameters["bundle"].string_value
        assert (tmp_path / "copy" / bundle).resolve() == folder.resolve()
        assert (tmp_path / "copy" / "1" / "model.py").is_file()
        (tmp_path / "copy" / "1" / "model.py").unlink()
    (tmp_path / "link").symlink_to(asr_repository() / "streaming_asr")
    link_model(folder, tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert sorted(folder.iterdir()) == before


def test_steps_get_the_numbers_of_their_ensemble(tmp_path: Path) -> None:
    """Instances and slots apply to the steps of an ensemble; it has none itself, nor a step without a state."""
    link_repository(asr_repository(), tmp_path / "copy", ["asr_heads"], instances=2, slots=7)
    encoder, router = (model_config(tmp_path / "copy" / name) for name in ("speech_encoder", "feature_router"))
    assert (encoder.instance_group[0].count, encoder.sequence_batching.oldest.max_candidate_sequences) == (2, 7)
    assert router.instance_group[0].count == 2
    assert not router.HasField("sequence_batching")
    for unchanged in ("asr_heads", "streaming_asr"):
        assert (tmp_path / "copy" / unchanged).is_symlink()


def test_steps_and_ensembles_are_not_models_alone() -> None:
    """A model that is loaded with an ensemble is not among the models that are loaded alone."""
    assert steps_in(asr_repository()) == {"speech_encoder", "feature_router", "activity_head", "transcript_head"}
    assert models_alone(asr_repository()) == ("reader", "speakers", "streaming_asr")


def test_the_parts_of_an_ensemble() -> None:
    """The parts of an ensemble are its steps and the folder with their weights; another model has none."""
    repository = asr_repository()
    names = [str(path.relative_to(repository)) for path in parts_of(repository / "asr_heads", repository)]
    assert sorted(names) == sorted([*steps_in(repository), "streaming_asr/1"])
    assert parts_of(repository / MODEL, repository) == parts_of(repository / "nothing", repository) == []


SHIPPED = asr_repository() / "streaming_asr"
CONFIG_TEXT = """
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
    (path / CONFIG).write_text(CONFIG_TEXT, encoding="utf-8")
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


@pytest.mark.parametrize(("text", "kind"), [(CONFIG_TEXT, "KIND_CPU"), ("max_batch_size: 1", "KIND_AUTO")])
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


@pytest.mark.parametrize(
    ("kind", "slots", "gpu", "batch"),
    [
        ("KIND_AUTO", 512, True, 512),
        ("KIND_AUTO", 5000, True, GPU_BATCH),
        ("KIND_AUTO", 8, True, 32),
        ("KIND_AUTO", 512, False, 32),
        ("KIND_CPU", 512, True, 32),
        ("KIND_GPU", 512, False, 512),
    ],
)
def test_batches_follow_the_device(
    kind: str, slots: int, gpu: bool, batch: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU a batch may have all streams of an instance, up to what is computed as one. On a CPU it stays."""
    monkeypatch.setattr(repository_module, "gpu_is_there", lambda: gpu)
    (folder / CONFIG).write_text(
        f"max_batch_size: 32 instance_group [ {{ kind: {kind} }} ] sequence_batching {{ oldest {{ }} }}"
    )
    link_model(folder, tmp_path / "copy", slots=slots)
    assert model_config(tmp_path / "copy").max_batch_size == batch


def test_a_model_without_slots_keeps_its_batches(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of an ensemble, or a model of several kinds, is as its author wants it."""
    monkeypatch.setattr(repository_module, "gpu_is_there", lambda: True)
    for text in ("max_batch_size: 32", "max_batch_size: 32 instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]"):
        (folder / CONFIG).write_text(text)
        link_model(folder, tmp_path / "copy")
        assert model_config(tmp_path / "copy").max_batch_size == 32


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
    program = f"import sys\nfrom pathlib import Path\nfrom streamer.bridge.triton import repository\n{program}"
    done = subprocess.run([sys.executable, "-c", program, SHIPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_reading_imports_protobuf_and_nothing_heavy() -> None:
    """A server is spawned before slow imports; importing this module reads nothing."""
    loaded = run("print(*sys.modules)")
    assert "google.protobuf" not in loaded
    loaded = run("repository.model_config(Path(sys.argv[1])); print(*sys.modules)")
    assert "google.protobuf" in loaded
    assert not {"grpc", "numpy", "tritonclient", "asyncio"} & set(loaded)


@pytest.mark.parametrize("first", ["", "import tritonclient.grpc; "])
def test_the_messages_are_those_of_the_client(first: str) -> None:
    """A configuration that was read can be sent, in either order of imports."""
    program = (
        f"{first}config = repository.model_config(Path(sys.argv[1]))\n"
        "from tritonclient.grpc import service_pb2\n"
        "print(service_pb2.ModelConfigResponse(config=config).config == config)"
    )
    assert run(program) == ["True"]


def test_without_the_client_of_triton() -> None:
    """The message says what to install."""
    program = (
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "try: repository.model_config(Path(sys.argv[1]))\n"
        "except repository.TritonError as error: print(error)"
    )
    assert " ".join(run(program)) == (
        "a config.pbtxt cannot be read without the package tritonclient[grpc]: pip install 'streamer-asr[embedded]'"
    )
