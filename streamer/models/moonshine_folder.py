"""Reads the folder of a streaming model of Moonshine, and checks all of it before its use.

Five graphs share the work. The frontend turns samples into features, with states between its calls. The encoder reads a
window of features. The adapter makes a memory of its frames, which knows their places. From the whole memory, the
fourth graph computes what the decoder looks up, and the decoder writes one token after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from streamer.models.layout import (
    FRAME_MS,
    MOST_STATE_BYTES,
    MOST_TOKENS,
    Architecture,
    Family,
    Languages,
    LayoutError,
    SearchKind,
)
from streamer.models.onnx_file import ElementType, GraphFile, GraphFileError, Port, read_graph_file
from streamer.models.tokens import LARGEST_TABLE, LONGEST_TOKEN, TokenTableError

CONFIG_FILE: Final = "streaming_config.json"
TOKENS_FILE: Final = "tokenizer.bin"
FRONTEND, ENCODER, ADAPTER, CROSS, DECODER = PARTS = ("frontend", "encoder", "adapter", "cross_kv", "decoder_kv")
FAMILY: Final = Family(Architecture.MOONSHINE, SearchKind.DECODER)

SAMPLE_RATE: Final = 16_000
CHUNK: Final = 1280
"""The samples that the frontend gets at a time, as in its makers' library."""
FEATURE: Final = 320
"""The samples of a feature, and so of a frame of the memory."""
STEPS_MS: Final = (320, 640)
"""The steps from which a stream may choose."""
SAMPLE_STATES: Final = ("sample_buffer", "sample_len", "conv1_buffer", "conv2_buffer", "frame_count")
"""The states of the frontend. The outputs with their new values have `_out` at the end."""
KEPT_SAMPLES: Final = 79

_FRAME: Final = 80  # samples
_LEFT: Final = 16  # the features that each layer of the encoder looks back
_CONV: Final = 4  # the frames that a convolution keeps
_MOST_CONFIG: Final = 1 << 16  # bytes
_USUAL_TOKENS: Final = 448
_USUAL_SECONDS: Final = 20  # of a segment, for the estimate of its memory
_FLOAT: Final = 4  # bytes
_CONVERTER: Final = "python -m onnxruntime.tools.convert_onnx_models_to_ort"
# The largest numbers of the configuration. No published model comes near them, and a hostile one would take all memory.
_WIDEST, _DEEPEST, _FARTHEST, _LONGEST_TEXT = 8192, 64, 250, 4096


class MoonshineError(ValueError):
    """The folder cannot be used. The message is a sentence for the user, without its full stop."""


@dataclass(frozen=True)
class MoonshineLayout:
    """The numbers of `streaming_config.json`, by the names that they have there."""

    encoder_dim: int
    decoder_dim: int
    depth: int
    nheads: int
    head_dim: int
    vocab_size: int
    bos_id: int
    eos_id: int
    frame_len: int
    total_lookahead: int
    d_model_frontend: int
    c1: int
    max_seq_len: int = _USUAL_TOKENS

    @property
    def times_computed(self) -> float:
        """How often a moment of audio counts: the features that are read again are part of the measured costs."""
        return 1.0

    @property
    def left(self) -> int:
        """The features before a step that the encoder reads again."""
        return _LEFT * self.depth

    @property
    def ahead(self) -> int:
        """The features after a step that the encoder reads with it: whole chunks."""
        chunk = CHUNK // FEATURE
        return -(-self.total_lookahead // chunk) * chunk

    @property
    def ahead_samples(self) -> int:
        """The samples after a step that are read with it."""
        return self.ahead * FEATURE

    @property
    def step(self) -> int:
        """The usual step, in units of `FRAME_MS`."""
        return STEPS_MS[0] // FRAME_MS

    @property
    def step_samples(self) -> int:
        """The samples of the usual step."""
        return STEPS_MS[0] * SAMPLE_RATE // 1000

    @property
    def languages(self) -> Languages | None:
        """None: a stream has no choice."""
        return None

    @property
    def states(self) -> Mapping[str, tuple[ElementType, tuple[int, ...]]]:
        """The types and shapes of the frontend's states for one stream, without the axis of the streams."""
        shapes = ((KEPT_SAMPLES,), (), (self.d_model_frontend, _CONV), (self.c1, _CONV), ())
        kinds = (ElementType.FLOAT if shape else ElementType.INT64 for shape in shapes)
        return dict(zip(SAMPLE_STATES, zip(kinds, shapes, strict=True), strict=True))

    @property
    def state_bytes(self) -> int:
        """The bytes of memory for one stream, with the memory of a segment of usual length."""
        convolved = (self.d_model_frontend + self.c1) * _CONV + KEPT_SAMPLES
        features = (self.left + self.ahead) * self.encoder_dim
        memory = _USUAL_SECONDS * SAMPLE_RATE // FEATURE * self.decoder_dim
        return _FLOAT * (convolved + features + memory)


@dataclass(frozen=True)
class MoonshineFolder:
    """A streaming model of Moonshine after the check of its folder. `parts`: its graphs by name."""

    layout: MoonshineLayout
    parts: Mapping[str, GraphFile]
    tokens: tuple[str, ...]
    together: frozenset[str]
    """The parts that compute several streams in one run, so that none of them depends on the others."""
    family: Family = FAMILY
    one_by_one: bool = False  # measured costs are those of its makers' graphs, which take one stream

    @property
    def graphs(self) -> tuple[GraphFile, ...]:
        """All graphs of the model."""
        return tuple(self.parts.values())

    @property
    def costs(self) -> tuple[str, ...]:
        """What makes many streams cost more than with others: a sentence for the user, without its full stop."""
        if ENCODER in self.together:
            return ()
        path = self.parts[ENCODER].path.name
        return (f"{path} computes one stream at a time, so many cost as much as each alone",)


def holds_moonshine(folder: Path) -> bool:
    """Return whether this is the folder of a streaming model of Moonshine. It may be incomplete."""
    return (folder / CONFIG_FILE).exists() or (folder / f"{FRONTEND}.ort").exists()


def read_moonshine_folder(folder: Path) -> MoonshineFolder:
    """Read and check a folder. Raise MoonshineError, which says what is wrong, if it cannot be used."""
    missing = [name for name in (CONFIG_FILE, TOKENS_FILE, *map(_file, PARTS)) if not (folder / name).exists()]
    if missing:
        raise MoonshineError(f"{folder} is not complete: it has no {' and no '.join(missing)}")
    layout = _layout(folder / CONFIG_FILE)
    parts, together = {}, set()
    for part in PARTS:
        path = folder / _file(part)
        try:
            graph = read_graph_file(path)
            if not graph.ort:
                raise MoonshineError(f"{path} is not in the format of onnxruntime, which `{_CONVERTER}` makes")
            if _check(graph, *_PORTS[part](layout)) and not graph.quantised:
                together.add(part)
        except GraphFileError as error:
            raise MoonshineError(str(error)) from error
        except LayoutError as error:
            raise MoonshineError(f"{path} {error}") from error
        parts[part] = graph
    try:
        tokens = read_tokens_of_moonshine(folder / TOKENS_FILE, layout.vocab_size)
    except TokenTableError as error:
        raise MoonshineError(str(error)) from error
    return MoonshineFolder(layout, parts, tokens, frozenset(together))


def _file(part: str) -> str:
    return f"{part}.ort"


# The configuration.

_LARGEST: Final = {
    "depth": _DEEPEST,
    "vocab_size": MOST_TOKENS,
    "bos_id": MOST_TOKENS,
    "eos_id": MOST_TOKENS,
    "total_lookahead": _FARTHEST,
    "max_seq_len": _LONGEST_TEXT,
}
_MAY_BE_NONE: Final = ("bos_id", "eos_id", "total_lookahead")  # these may be 0


def _layout(path: Path) -> MoonshineLayout:
    if not path.is_file():
        raise MoonshineError(f"{path} is no file")  # nothing may ever come out of a pipe
    if path.stat().st_size > _MOST_CONFIG:
        raise MoonshineError(f"{path} is larger than {_MOST_CONFIG >> 10} KiB, which no configuration is")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MoonshineError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):  # a list in a list, ten thousand times
        raise MoonshineError(f"{path} is not JSON: copy it again") from None
    if not isinstance(content, dict):
        raise MoonshineError(f"{path} must hold a JSON object")
    numbers = {}
    for field in fields(MoonshineLayout):
        if field.name == "max_seq_len" and not content.get(field.name):
            continue
        number, least = content.get(field.name), int(field.name not in _MAY_BE_NONE)
        most = _LARGEST.get(field.name, _WIDEST)
        if type(number) is not int or not least <= number <= most:
            written = "nothing" if number is None else json.dumps(number)[:80]
            raise MoonshineError(f"{path} has {written} as {field.name}, which must be from {least} to {most}")
        numbers[field.name] = number
    layout = MoonshineLayout(**numbers)
    if layout.frame_len != _FRAME:
        raise MoonshineError(f"{path} has frames of {layout.frame_len} samples, and only those of {_FRAME} are known")
    if max(layout.bos_id, layout.eos_id) >= layout.vocab_size:
        raise MoonshineError(f"{path} has a first or a last token beyond its {layout.vocab_size} tokens")
    if layout.state_bytes > MOST_STATE_BYTES:
        size = layout.state_bytes >> 20
        raise MoonshineError(f"{path} needs {size} MiB for the state of each stream, and at most 64 MiB are allowed")
    return layout


# The inputs and outputs. `None` is a size that must be free; the axis of the streams may be free, or 1.

Shape = tuple[int | None, ...]
Ports = Mapping[str, tuple[ElementType, Shape, int]]
"""By name: the type, the shape with 1 for the streams, and the axis of the streams."""
_NUMBERS, _WHOLE = ElementType.FLOAT, ElementType.INT64


def _frontend(layout: MoonshineLayout) -> tuple[Ports, Ports]:
    states = {name: (kind, (1, *shape), 0) for name, (kind, shape) in layout.states.items()}
    inputs: dict[str, tuple[ElementType, Shape, int]] = {"audio_chunk": (_NUMBERS, (1, CHUNK), 0), **states}
    outputs = {f"{name}_out": port for name, port in states.items()}
    return inputs, {"features": (_NUMBERS, (1, None, layout.encoder_dim), 0), **outputs}


def _encoder(layout: MoonshineLayout) -> tuple[Ports, Ports]:
    frames: tuple[ElementType, Shape, int] = (_NUMBERS, (1, None, layout.encoder_dim), 0)
    return {"features": frames}, {"encoded": frames}


def _adapter(layout: MoonshineLayout) -> tuple[Ports, Ports]:
    inputs: Ports = {"encoded": (_NUMBERS, (1, None, layout.encoder_dim), 0), "pos_offset": (_WHOLE, (1,), 0)}
    return inputs, {"memory": (_NUMBERS, (1, None, layout.decoder_dim), 0)}


def _cross(layout: MoonshineLayout) -> tuple[Ports, Ports]:
    looked_up = _looked_up(layout)
    return {"memory": (_NUMBERS, (1, None, layout.decoder_dim), 0)}, {"k_cross": looked_up, "v_cross": looked_up}


def _decoder(layout: MoonshineLayout) -> tuple[Ports, Ports]:
    names = ("k_self", "v_self", "out_k_cross", "out_v_cross")
    inputs: Ports = {"token": (_WHOLE, (1, None), 0), **dict.fromkeys(names, _looked_up(layout))}
    caches = dict.fromkeys(("out_k_self", "out_v_self"), _looked_up(layout))
    return inputs, {"logits": (_NUMBERS, (1, None, layout.vocab_size), 0), **caches}


def _looked_up(layout: MoonshineLayout) -> tuple[ElementType, Shape, int]:
    return _NUMBERS, (layout.depth, 1, layout.nheads, None, layout.head_dim), 1


_PORTS: Final = {FRONTEND: _frontend, ENCODER: _encoder, ADAPTER: _adapter, CROSS: _cross, DECODER: _decoder}


def _check(graph: GraphFile, inputs: Ports, outputs: Ports) -> bool:
    """Check the inputs and outputs of a graph. Return whether it takes any number of streams. LayoutError if not."""
    own = {port.name: port for port in graph.inputs}
    if own.keys() != inputs.keys():
        raise LayoutError(f"has the inputs {', '.join(own)}, not {', '.join(inputs)} as a streaming model of Moonshine")
    results = {port.name: port for port in graph.outputs}
    if lacking := outputs.keys() - results.keys():
        raise LayoutError(f"has no output {sorted(lacking)[0]}, as a streaming model of Moonshine has")
    for name, (kind, shape, streams) in outputs.items():
        _check_port(results[name], kind, shape, streams, result=True)
    free = []
    for name, (kind, shape, streams) in inputs.items():
        if own[name].shape is None:
            raise LayoutError(f"does not say which shape {name} has")
        free.append(_check_port(own[name], kind, shape, streams))
    return all(free)


def _check_port(port: Port, kind: ElementType, shape: Shape, streams: int, *, result: bool = False) -> bool:
    """Return whether this input or output is for any number of streams. LayoutError if it does not fit.

    `result`: it is an output, whose free sizes onnxruntime may know already.
    """
    if port.type is not kind:
        raise LayoutError(f"has {port.name} of the type {port.type.name.lower()}, not {kind.name.lower()}")
    if port.shape is None:
        return True
    if len(port.shape) != len(shape):
        raise LayoutError(f"has {port.name} with {len(port.shape)} dimensions, not {len(shape)}")
    for axis, (size, expected) in enumerate(zip(port.shape, shape, strict=True)):
        if isinstance(size, int) and size != expected and not (result and expected is None):
            right = "any size" if expected is None else f"{expected} by {CONFIG_FILE}"
            raise LayoutError(f"has {port.name} of the size {size} on axis {axis}, where it must be {right}")
    return not isinstance(port.shape[streams], int)


# The tokens: for each its length, in one byte or two, and its text in UTF-8.

_LONG: Final = 128  # the bytes of the first token whose length takes two bytes
_BYTES: Final = tuple(bytes([byte]) for byte in range(256))


def read_tokens_of_moonshine(path: Path, count: int) -> tuple[str, ...]:
    """Return the first `count` tokens by number. Those that are no text are written as tables of text write them."""
    if not path.is_file():
        raise TokenTableError(f"{path} is no file")
    if path.stat().st_size > LARGEST_TABLE:
        raise TokenTableError(f"{path} is larger than {LARGEST_TABLE >> 20} MiB, which no table of tokens is")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TokenTableError(f"{path} cannot be read: {error.strerror}") from error
    tokens = [token for _, token in zip(range(count), _divided(path, content), strict=False)]
    if len(tokens) < count:
        lack = f"has {len(tokens)} tokens, and the model has {count}"
        raise TokenTableError(f"{path} {lack}: it is cut off, or belongs to another model")
    first = _first_byte(tokens)
    return tuple(
        f"<0x{number - first:02X}>" if first <= number < first + len(_BYTES) else _text(number, token)
        for number, token in enumerate(tokens)
    )


def _divided(path: Path, content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        length, at = content[at], at + 1
        if length >= _LONG:
            if at == len(content):
                raise TokenTableError(f"{path} is cut off: copy it again")
            length, at = content[at] * _LONG + length - _LONG, at + 1
        if at + length > len(content):
            raise TokenTableError(f"{path} is cut off, or is no table of tokens of Moonshine: copy it again")
        if length > LONGEST_TOKEN:
            raise TokenTableError(f"{path} has a token of {length} bytes, and at most {LONGEST_TOKEN} are possible")
        yield content[at : at + length]
        at += length


def _first_byte(tokens: list[bytes]) -> int:
    """Return the number of the first of 256 tokens that stand for the bytes in order; beyond the end if none do."""
    starts = (number for number, token in enumerate(tokens) if token == _BYTES[0])
    return next((at for at in starts if tuple(tokens[at : at + len(_BYTES)]) == _BYTES), len(tokens))


def _text(number: int, token: bytes) -> str:
    """Return a token as tables of text write it. One with pointed brackets is no text, nor is an empty one."""
    special = not token or (len(token) > 2 and token.startswith(b"<") and token.endswith(b">"))
    return f"<{number}>" if special else token.decode("utf-8", "ignore")
