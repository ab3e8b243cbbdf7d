"""Folders that want to take all memory, to read files of others, or to end a command with a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import onnx
import pytest
from onnx import helper

from streamer.models.model_folder import ModelFolderError, read_model_folder
from streamer.models.protobuf import encode
from tests.models.memory_limit import little_memory
from workshop.graphs.exact_icefall import (
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_transducer_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import make_nemotron_folder, make_t_one_folder

ENCODER, DECODER = "encoder-epoch-1-avg-1.onnx", "decoder-epoch-1-avg-1.onnx"
MODEL = "model.onnx"
NEMO = "encoder.onnx"

Damage = Callable[[Path], object]


def changed(name: str, change: Callable[[onnx.ModelProto], object]) -> Damage:
    """Change a graph of the folder."""

    def apply(folder: Path) -> None:
        model = onnx.load(str(folder / name), load_external_data=False)
        change(model)
        (folder / name).write_bytes(model.SerializeToString())

    return apply


def told(name: str, **values: str) -> Damage:
    """Other metadata of a graph."""

    def change(model: onnx.ModelProto) -> None:
        kept = {each.key: each.value for each in model.metadata_props} | values
        del model.metadata_props[:]
        helper.set_model_props(model, kept)

    return changed(name, change)


def sized(name: str, size: int, *, kind: str = "output", axis: int = 2) -> Damage:
    """The first input or output with another size."""

    def change(model: onnx.ModelProto) -> None:
        getattr(model.graph, kind)[0].type.tensor_type.shape.dim[axis].dim_value = size

    return changed(name, change)


def outside(location: str, **places: object) -> Damage:
    """A weight whose numbers are in another file, which is there."""

    def change(model: onnx.ModelProto) -> None:
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, **places}.items():
            weight.external_data.add(key=key, value=str(value))

    def apply(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(bytes(1000))
        changed(MODEL, change)(folder)

    return apply


def shared(model: onnx.ModelProto) -> None:
    """A thousand weights, each of which is a whole file."""
    for number in range(1000):
        weight = onnx.TensorProto(name=f"w{number}", data_type=1, dims=[250], data_location=onnx.TensorProto.EXTERNAL)
        for key, value in {"location": "tokens.txt", "length": "100"}.items():
            weight.external_data.add(key=key, value=value)
        model.graph.initializer.append(weight)


def renamed(name: str, new: str) -> Damage:
    """Another name of the first output of a graph."""
    return changed(name, lambda model: setattr(model.graph.output[0], "name", new))


def table(text: str) -> Damage:
    """Other tokens."""
    return lambda folder: (folder / "tokens.txt").write_text(text, encoding="utf-8")


def pipe(name: str) -> Damage:
    """A pipe in place of a file."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def large(name: str) -> Damage:
    """A file of a terabyte, which takes no room on the disk."""

    def change(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.truncate(1 << 40)

    return change


def appended(name: str, number: int, times: int, *, graph: bool = True) -> Damage:
    """The same empty field again and again, in the graph or beside it. An empty field takes two or three bytes."""
    parts = encode([(number, b"")]) * times
    return lambda folder: (folder / name).write_bytes(
        (folder / name).read_bytes() + (encode([(7, parts)]) if graph else parts)
    )


def fields_without_end(*within: int) -> Damage:
    """A message with 300 000 different fields, deep in the file."""
    content = encode((field, 0) for field in range(100, 300_000))
    for outer in reversed(within):
        content = encode([(outer, content)])
    return lambda folder: (folder / MODEL).write_bytes((folder / MODEL).read_bytes() + content)


@pytest.mark.parametrize(
    ("make", "damage", "said"),
    [
        # A vocabulary without end.
        (make_ctc_folder, sized(MODEL, (1 << 31) - 1), r"has 2147483647 tokens, and at most 1000000 are possible"),
        (make_ctc_folder, sized(MODEL, 1 << 31), r"of the size 2147483648, which is impossible"),
        (make_ctc_folder, sized(MODEL, 1 << 62), r"of the size 4611686018427387904, which is impossible"),
        (make_ctc_folder, sized(MODEL, -5), r"of the size -5, which is impossible"),
        (make_ctc_folder, sized(MODEL, 1_000_000), r"tokens\.txt lacks 999976 of the 1000000 tokens"),
        (make_transducer_folder, told(DECODER, vocab_size=str(1 << 31)), r"has '2147483648' as vocab_size"),
        (make_nemotron_folder, told(NEMO, vocab_size="999999"), r"joiner\.onnx has .* says 1000000"),
        (make_t_one_folder, sized(MODEL, 1 << 62), r"of the size 4611686018427387904, which is impossible"),
        # Numbers that Python does not read, and those that it reads although no program would write them.
        (make_ctc_folder, told(MODEL, T="9" * 5000), r"as T in its metadata, which must be positive numbers"),
        (make_ctc_folder, told(MODEL, T="45" + "," * 50), r"as T in its metadata, which must be positive numbers"),
        (make_ctc_folder, told(MODEL, T="\N{ARABIC-INDIC DIGIT FOUR}5"), r"which must be positive numbers"),
        (make_ctc_folder, told(MODEL, T="1," * 99 + "1"), r"as T in its metadata, which must be one number"),
        (make_ctc_folder, table("a " + "9" * 5000), r"tokens\.txt, line 1: expected a token and its number"),
        (make_ctc_folder, table("a \N{SUPERSCRIPT TWO}"), r"line 1: expected a token and its number"),
        (make_ctc_folder, table("a" * 257 + " 0"), r"line 1: the token has more than 256 characters"),
        (make_nemotron_folder, told(NEMO, auto_prompt_id="9" * 5000), r"auto_prompt_id in its metadata that cannot be"),
        (make_nemotron_folder, told(NEMO, auto_prompt_id="-1"), r"auto_prompt_id in its metadata that cannot be"),
        (make_nemotron_folder, told(NEMO, prompt_dictionary='{"de": ' + "9" * 5000 + "}"), r"that cannot be read"),
        (make_nemotron_folder, told(NEMO, prompt_dictionary="[" * 100_000), r"that cannot be read"),
        (make_nemotron_folder, told(NEMO, prompt_dictionary='{"de": 4294967296}'), r"not a table of languages"),
        (make_nemotron_folder, told(NEMO, prompt_dictionary='{"d\\u001b]52;c": 1}'), r"not a table of languages"),
        (make_nemotron_folder, told(NEMO, prompt_dictionary='{"' + "d" * 5000 + '": 1}'), r"not a table of languages"),
        # Layers, windows and states without end.
        (make_ctc_folder, told(MODEL, num_encoder_layers="999999"), r"has 999999 layers by its metadata"),
        (
            make_ctc_folder,
            told(MODEL, num_encoder_layers="1," * 5000 + "1"),
            r"has more than 100 numbers as num_encoder",
        ),
        (make_zipformer_folder, told(ENCODER, num_encoder_layers="1," * 5000 + "1"), r"has more than 100 numbers as"),
        (make_lstm_folder, told(ENCODER, T="999999", decode_chunk_len="999996"), r"has windows of 999999 frames"),
        (make_conformer_folder, told(ENCODER, left_context="999999", encoder_dim="999999"), r"of the size|MiB"),
        (make_transducer_folder, told(DECODER, context_size="999999"), r"context_size in its metadata, which is more"),
        (make_nemotron_folder, sized(NEMO, 1 << 30, kind="input", axis=1), r"has frames of 1073741824 numbers"),
        (make_t_one_folder, told(MODEL, frame_length_ms="999990"), r"has windows of 99999 frames"),
        # Weights in files of others, before the beginning of a file, and the same ones a thousand times.
        (make_ctc_folder, outside("/etc/passwd"), r"weights in the file '/etc/passwd', which is not in its own folder"),
        (make_ctc_folder, outside("../weights.bin"), r"'\.\./weights\.bin', which is not in its own folder"),
        (make_ctc_folder, outside("a/weights.bin"), r"'a/weights\.bin', which is not in its own folder"),
        (make_ctc_folder, outside("\x1b]52;c;QQ==\x07"), r"'\\x1b\]52;c;QQ==\\x07', which is not in its own folder"),
        (make_ctc_folder, outside(""), r"the file '', which is not in its own folder"),
        (make_ctc_folder, outside("weights.bin", offset=-1), r"at the place '-1' of weights\.bin, which is impossible"),
        (make_ctc_folder, outside("weights.bin", offset=999, length=-1), r"at the place '-1' of weights\.bin"),
        (make_ctc_folder, outside("weights.bin", length="9" * 5000), r"of weights\.bin, which is impossible"),
        (make_ctc_folder, outside("weights.bin", length=1001), r"weights\.bin is cut off"),
        (make_ctc_folder, changed(MODEL, shared), r"has weights that share the bytes of tokens\.txt"),
        # Names that a terminal would obey.
        (make_ctc_folder, renamed(MODEL, "\x1b]0;title\x07"), r"has an input or output named '\\x1b\]0;title\\x07'"),
        (make_ctc_folder, renamed(MODEL, "a" * 5000), r"has an input or output named 'aaa"),
        (make_ctc_folder, told(MODEL, feature="\x1b[31m" * 1000), r"needs '(\\x1b\[31m)+' features"),
        # What never ends, and what is larger than memory.
        (make_ctc_folder, pipe("tokens.txt"), r"tokens\.txt is no file"),
        (make_ctc_folder, pipe(MODEL), r"model\.onnx is no file"),
        (make_ctc_folder, large("tokens.txt"), r"tokens\.txt is larger than 16 MiB"),
        (make_ctc_folder, large("bpe.model"), r"bpe\.model is larger than 16 MiB"),
        # Many small parts.
        (make_ctc_folder, appended(MODEL, 1, 200_000), r"has more than 131072 nodes and weights"),
        (make_ctc_folder, appended(MODEL, 12, 100_000), r"has more than 4096 outputs"),
        (make_ctc_folder, appended(MODEL, 14, 1_000_000, graph=False), r"more than 4096 entries in its metadata"),
        (make_ctc_folder, fields_without_end(7, 11), r"is cut off or is not an ONNX graph"),
    ],
)
def test_what_is_refused(make: Callable[[Path], Path], damage: Damage, said: str, tmp_path: Path) -> None:
    """A sentence says why, and the memory that this takes is a small factor of the folder's size."""
    folder = make(tmp_path)
    damage(folder)
    with little_memory(folder), pytest.raises(ModelFolderError, match=said) as refusal:
        read_model_folder(folder)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 800


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokens.txt", "".join(f"{number:x} {number}\n" for number in range(100_000))),
        ("tokens.txt", "a " * 1_000_000),
        ("bpe.vocab", "".join(f"{number:x}\t0\n" for number in range(100_000))),
        ("bpe.vocab", "a " * 1_000_000),
    ],
)
def test_large_tables(name: str, content: str, tmp_path: Path) -> None:
    """The file bounds the memory that a table takes, and the tokens that no graph knows take none."""
    folder = make_ctc_folder(tmp_path)
    (folder / name).write_text(content)
    with little_memory(folder), suppress(ModelFolderError):
        read_model_folder(folder)
