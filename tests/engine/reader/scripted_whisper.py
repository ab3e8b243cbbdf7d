"""A small Whisper model in the format of CTranslate2 that writes what a script says, whatever it hears.

Its decoder knows nothing but the place of a token, and each place has one likely token. All other weights are random.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from ctranslate2.specs import WhisperSpec
from numpy.typing import NDArray

WIDTH: Final = 64
BANDS: Final = 80
LANGUAGES: Final = ("en", "zh", "de", "es", "ja")
END: Final = 50_257
_HEADS: Final = 4
_PLACES: Final = 448
_SURE: Final = 4.0  # how much likelier the token of a place is than all others
_AFTER_LANGUAGES: Final = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")


def write_whisper(
    folder: Path,
    tokens: Sequence[str],
    *,
    language: str = "de",
    no_speech: bool = False,
    english_only: bool = False,
) -> None:
    """Write a model that reads these tokens in every segment, and hears this language.

    A prompt of N tokens moves the script: the first N + 1 of them are not read. `no_speech`: it hears no speech.
    """
    vocabulary = _vocabulary(tokens, english_only=english_only)
    numbers = {token: number for number, token in enumerate(vocabulary)}
    first = 1 if english_only else 3  # the place of the last token before the text
    said = ["<|nospeech|>" if no_speech else f"<|{language}|>", *[None] * (first - 1), *tokens, "<|endoftext|>"]
    random = np.random.default_rng(7)
    spec = WhisperSpec(1, _HEADS, 1, _HEADS)
    _fill(spec, random)
    places = np.zeros((_PLACES, WIDTH), np.float32)
    projection = np.zeros((len(vocabulary), WIDTH), np.float32)
    for place in range(_PLACES):
        axis = min(place, WIDTH - 1)
        places[place, axis] = 1.0
    for place, token in enumerate(said):
        if token is not None:
            projection[numbers[token], place] = _SURE
    projection[numbers["<|endoftext|>"], len(said) :] = _SURE
    decoder = spec.decoder
    decoder.embeddings.weight = np.zeros((len(vocabulary), WIDTH), np.float32)
    decoder.position_encodings.encodings = places
    decoder.projection.weight = projection
    for layer in decoder.layer:
        for linear in (layer.self_attention.linear[-1], layer.attention.linear[-1], layer.ffn.linear_1):
            linear.weight = np.zeros_like(linear.weight)
            linear.bias = np.zeros_like(linear.bias)
    spec.config.suppress_ids = []
    spec.config.suppress_ids_begin = []
    spec.config.lang_ids = [numbers[f"<|{code}|>"] for code in LANGUAGES]
    spec.config.alignment_heads = [(0, 0), (0, 1)]
    spec.register_vocabulary(vocabulary)
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))


def _vocabulary(tokens: Sequence[str], *, english_only: bool) -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    single = [chr(byte) for byte in printable] + [chr(0x100 + place) for place in range(0x100 - len(printable))]
    words = [token for token in dict.fromkeys(tokens) if token not in single]
    text = [*single, *words]
    text += [f"filler{number}" for number in range(END - 1 - len(text))]
    text += [f"filler{END}" if english_only else ""]  # this is how CTranslate2 tells them apart
    signs = ["endoftext", "startoftranscript", *LANGUAGES, *_AFTER_LANGUAGES]
    times = [f"{number * 0.02:.2f}" for number in range(1501)]
    vocabulary = text + [f"<|{sign}|>" for sign in [*signs, *times]]
    more = 0 if english_only else 51_865 - len(vocabulary)
    return vocabulary + [f"<|unused{number}|>" for number in range(more)]


def _fill(spec: WhisperSpec, random: np.random.Generator) -> None:
    def floats(*shape: int) -> NDArray[np.float32]:
        return (random.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32)

    def linear(layer: Any, outputs: int, inputs: int = WIDTH) -> None:
        layer.weight, layer.bias = floats(outputs, inputs), np.zeros(outputs, np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    def attention(layer: Any, sizes: Sequence[int]) -> None:
        norm(layer.layer_norm)
        for part, size in zip(layer.linear, sizes, strict=True):
            linear(part, size)

    def feed_forward(layer: Any) -> None:
        norm(layer.layer_norm)
        linear(layer.linear_0, 2 * WIDTH)
        linear(layer.linear_1, WIDTH, 2 * WIDTH)

    encoder, decoder = spec.encoder, spec.decoder
    encoder.conv1.weight, encoder.conv1.bias = floats(WIDTH, BANDS, 3), np.zeros(WIDTH, np.float32)
    encoder.conv2.weight, encoder.conv2.bias = floats(WIDTH, WIDTH, 3), np.zeros(WIDTH, np.float32)
    encoder.position_encodings.encodings = floats(1500, WIDTH)
    norm(encoder.layer_norm)
    norm(decoder.layer_norm)
    for layer in encoder.layer:
        attention(layer.self_attention, (3 * WIDTH, WIDTH))
        feed_forward(layer.ffn)
    for layer in decoder.layer:
        attention(layer.self_attention, (3 * WIDTH, WIDTH))
        attention(layer.attention, (WIDTH, 2 * WIDTH, WIDTH))
        feed_forward(layer.ffn)
