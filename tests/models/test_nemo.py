"""Which folders of NeMo are used, with and without caches, and what is said about the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from streamer.models.layout import (
    WINDOW_FILE,
    Architecture,
    Family,
    Features,
    RecurrentTransducer,
    SearchKind,
    Surroundings,
)
from streamer.models.model_folder import ModelFolderError, read_model_folder
from workshop.graphs.exact_nemo import (
    BLANK,
    LANGUAGES,
    SIZES,
    TOKENS,
    make_nemo_ctc_folder,
    make_nemo_folder,
    make_nemotron_folder,
    make_whole_ctc_folder,
    make_whole_folder,
)


def test_a_model_with_ctc(tmp_path: Path) -> None:
    """A folder with CTC has one graph, and its blank is the last token."""
    public = read_model_folder(make_nemo_ctc_folder(tmp_path))
    assert public.family == Family(Architecture.FASTCONFORMER, SearchKind.CTC)
    assert (public.tokens, public.blank, public.layout.units) == (TOKENS, BLANK, len(TOKENS))
    assert (public.layout.window, public.layout.step, public.layout.frames) == (25, 16, 2)
    assert public.layout.ahead_samples == 1560
    assert (public.layout.features, public.layout.mels, public.layout.languages) == (Features.NEMO, 80, None)


def test_a_transducer_of_several_languages(tmp_path: Path) -> None:
    """Three graphs that fit each other; the predictor's batch is freed. The encoder says which languages there are."""
    public = read_model_folder(make_nemotron_folder(tmp_path))
    assert public.family.title == "FastConformer transducer"
    assert isinstance(public.transducer, RecurrentTransducer)
    assert public.transducer.blank == public.blank == BLANK
    assert public.transducer.predictor.freed == {"onnx::LSTM_3": 1, "74": 1}
    assert public.layout.mels == 128
    assert public.layout.languages is not None
    assert public.layout.languages.numbers == LANGUAGES
    assert public.layout.languages.usual == 5


Change = Callable[[onnx.ModelProto], None]


def _changed(name: str, change: Change) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        model = onnx.load(str(folder / name))
        change(model)
        onnx.save(model, str(folder / name))

    return apply


def _told(**values: str | None) -> Callable[[Path], None]:
    """Other metadata of the encoder."""

    def change(model: onnx.ModelProto) -> None:
        kept = {each.key: each.value for each in model.metadata_props} | values
        del model.metadata_props[:]
        helper.set_model_props(model, {key: value for key, value in kept.items() if value is not None})

    return _changed("encoder.onnx", change)


def _sized(name: str, kind: str, place: int, axis: int, size: int) -> Callable[[Path], None]:
    """An input or an output with another size."""

    def change(model: onnx.ModelProto) -> None:
        port: Any = getattr(model.graph, kind)[place]
        port.type.tensor_type.shape.dim[axis].dim_value = size

    return _changed(name, change)


def _without_output(model: onnx.ModelProto) -> None:
    model.graph.output.pop()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_told(vocab_size=None), r"encoder\.onnx has no vocab_size in its metadata"),
        (_told(pred_hidden=None), r"encoder\.onnx has no pred_hidden in its metadata"),
        (_told(chunk_shift="12"), r"encoder\.onnx has windows of 65 frames every 12 frames, which is impossible"),
        (_told(window_size="8"), r"has windows of 8 frames every 56 frames, which is impossible"),
        (_told(cache_last_channel_dim2="13"), r"has cache_last_channel of the size 12, where its metadata says 13"),
        (_told(cache_last_time_dim3="x"), r"has 'x' as cache_last_time_dim3 in its metadata"),
        (_told(prompt_dictionary="{"), r"has a prompt_dictionary or an auto_prompt_id in its metadata that cannot be"),
        (_told(prompt_dictionary='{"de": "1"}'), r"has a prompt_dictionary .* not a table of languages and numbers"),
        (
            _told(cache_last_channel_dim1=None),
            r"encoder\.onnx has 6 inputs and 5 outputs, not those of an export without",
        ),
        (
            _changed("encoder.onnx", _without_output),
            r"encoder\.onnx has 6 inputs and 4 outputs, not those",
        ),
        (_sized("encoder.onnx", "input", 0, 0, 1), r"encoder\.onnx computes exactly 1 stream at a time"),
        (_sized("encoder.onnx", "output", 0, 2, 9), r"has outputs of the size 9, where its metadata says 7"),
        (_changed("decoder.onnx", _without_output), r"decoder\.onnx is not a decoder of NeMo: it must have two states"),
        (_sized("decoder.onnx", "input", 2, 2, 13), r"decoder\.onnx has states\.1 of the size 13, where .* says 12"),
        (_sized("decoder.onnx", "input", 3, 1, 4), r"decoder\.onnx computes exactly 4 streams at a time"),
        (_sized("joiner.onnx", "input", 0, 1, 17), r"joiner\.onnx has encoder_outputs of the size 17"),
        (_sized("joiner.onnx", "output", 0, 3, 25), r"joiner\.onnx has outputs of the size 25, where .* says 24"),
        (lambda folder: (folder / "joiner.onnx").unlink(), r"is not complete: it has no joiner"),
        (lambda folder: (folder / "tokens.txt").write_text("a 0\n"), r"tokens\.txt lacks 23 of the 24 tokens"),
        (
            lambda folder: (folder / "tokens.txt").write_text("".join(f"a {number}\n" for number in range(24))),
            r"tokens\.txt must have <blk> as its last token, number 23",
        ),
    ],
)
def test_what_cannot_be_used(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with the folder, before any library computes it."""
    folder = make_nemotron_folder(tmp_path)
    damage(folder)
    with pytest.raises(ModelFolderError, match=said):
        read_model_folder(folder)


def test_a_model_without_caches(tmp_path: Path) -> None:
    """Its windows are the usual ones, and each moment is in several of them."""
    public = read_model_folder(make_whole_ctc_folder(tmp_path))
    assert public.family == Family(Architecture.WHOLE_NEMO, SearchKind.CTC)
    layout = public.layout
    assert (layout.window, layout.step, layout.frames) == (784, 112, 14)
    assert layout.surroundings == Surroundings(560, 112, normalised=False)
    assert layout.ahead_samples == 17_920
    assert layout.times_computed == 7
    assert layout.state_bytes == 5.6 * 16_000 * 2
    [cost] = public.costs
    assert cost == (
        "it has no caches, so it computes each moment 7 times: 5600 ms before a step of 1120 ms and 1120 ms after it "
        "are computed with it"
    )


def test_a_transducer_with_windows_of_its_own(tmp_path: Path) -> None:
    """A model that was exported for certain windows has these, and no others may be chosen."""
    public = read_model_folder(make_whole_folder(tmp_path, normalised=True, durations=5, sizes=SIZES))
    assert public.family.title == "Whole-utterance NeMo transducer"
    assert public.layout.surroundings == Surroundings(64, 16, normalised=True)
    assert (public.layout.window, public.layout.step, public.layout.mels) == (104, 24, 128)
    assert isinstance(public.transducer, RecurrentTransducer)
    assert (public.transducer.vocabulary, public.transducer.durations) == (len(TOKENS), 5)
    (tmp_path / WINDOW_FILE).write_text('{"left": 2}')
    with pytest.raises(
        ModelFolderError, match=r"was exported for windows of its own, so window\.json beside it must go"
    ):
        read_model_folder(tmp_path)


def test_other_windows(tmp_path: Path) -> None:
    """A file in the folder chooses them, in seconds; they are rounded to whole frames."""
    folder = make_whole_ctc_folder(tmp_path)
    (folder / WINDOW_FILE).write_text(json.dumps({"left": 2, "step": 0.5, "right": 0}))
    layout = read_model_folder(folder).layout
    assert layout.surroundings == Surroundings(200, 0, normalised=False)
    assert (layout.step, layout.ahead_samples) == (48, 0)
    (folder / WINDOW_FILE).write_text(json.dumps({"step": 0}))
    assert read_model_folder(folder).layout.step == 8


@pytest.mark.parametrize(
    "content", ["", "[]", '{"left": "2"}', '{"chunk": 1}', '{"left": -1}', '{"left": NaN}', "9" * 9999]
)
def test_windows_that_are_none(content: str, tmp_path: Path) -> None:
    """A sentence says what such a file must have."""
    folder = make_whole_ctc_folder(tmp_path)
    (folder / WINDOW_FILE).write_text(content)
    with pytest.raises(
        ModelFolderError, match=r"has a window\.json beside it that is no object with seconds for left, "
    ):
        read_model_folder(folder)
    (folder / WINDOW_FILE).write_text('{"left": 29, "step": 2}')
    with pytest.raises(ModelFolderError, match="has windows of 3208 frames, and the longest that is possible has 3000"):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_told(normalize_type="all_features"), r"are normalised 'all_features', which Streamer does not compute"),
        (_told(is_giga_am="1"), r"is a GigaAM, whose features Streamer does not compute"),
        (_told(subsampling_factor="99"), r"has 99 as subsampling_factor in its metadata, which is more than 64"),
        (_told(chunk_feature_frames="20"), r"does not have as left_feature_frames, chunk_.* that make whole frames"),
        (_told(chunk_feature_frames="0"), r"does not have as left_feature_frames, chunk_.* that make whole frames"),
        (_told(left_feature_frames=None), r"does not have as left_feature_frames, chunk_.* that make whole frames"),
        (
            _told(model_type="EncDecMultiTaskModel"),
            r"is a model of the type 'EncDecMultiTaskModel', which cannot be used",
        ),
        (_sized("encoder.onnx", "input", 0, 2, 96), r"has audio_signal of the size 96, where its metadata says 104"),
        (_sized("encoder.onnx", "input", 0, 0, 1), r"encoder\.onnx computes exactly 1 stream at a time"),
        (_sized("joiner.onnx", "output", 0, 3, 99), r"joiner\.onnx has outputs of the size 99, where .* says 24"),
    ],
)
def test_what_cannot_be_computed_by_windows(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with a folder without caches."""
    folder = make_whole_folder(tmp_path, sizes=SIZES)
    damage(folder)
    with pytest.raises(ModelFolderError, match=said):
        read_model_folder(folder)


def test_weights_in_another_file(tmp_path: Path) -> None:
    """The large encoder of Nemotron has its weights beside it; a half of them is noticed."""
    folder = make_nemo_folder(tmp_path)
    model = onnx.load(str(folder / "encoder.onnx"))
    onnx.save(
        model, str(folder / "encoder.onnx"), save_as_external_data=True, location="encoder.data", size_threshold=0
    )
    weights = folder / "encoder.data"
    assert read_model_folder(folder).encoder.size == (folder / "encoder.onnx").stat().st_size + weights.stat().st_size
    content = weights.read_bytes()
    weights.write_bytes(content[:-100])
    with pytest.raises(ModelFolderError, match=r"encoder\.data is cut off: encoder\.onnx has weights beyond its end"):
        read_model_folder(folder)
    weights.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelFolderError, match=r"encoder\.data is only a pointer to a file of Git LFS"):
        read_model_folder(folder)
    weights.unlink()
    with pytest.raises(ModelFolderError, match=r"encoder\.onnx needs the file encoder\.data with its weights"):
        read_model_folder(folder)
