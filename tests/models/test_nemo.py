"""Which folders of NeMo are used, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from streamer.models.layout import Architecture, Family, Features, RecurrentTransducer, SearchKind
from streamer.models.model_folder import ModelFolderError, read_model_folder
from workshop.graphs.exact_nemo import (
    BLANK,
    LANGUAGES,
    TOKENS,
    make_nemo_ctc_folder,
    make_nemo_folder,
    make_nemotron_folder,
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
        (_told(cache_last_channel_dim1=None), r"encoder\.onnx is a FastConformer of NeMo without caches"),
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
