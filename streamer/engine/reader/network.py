"""Computes the tokens of a segment with the two graphs of Moonshine, the most likely token at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.reader.pieces import BEGIN, END

ENCODER_FILE: Final = "encoder_model.ort"
DECODER_FILE: Final = "decoder_model_merged.ort"
FEWEST_SAMPLES: Final = 2_000  # the convolutions need 895; shorter sound is padded with silence
_MOST_COPIES, _LONGEST_LOOP, _FEWEST_REPEATED = 4, 16, 12

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TokenRun:
    """The tokens of a segment with their log-probabilities, those of the end token last if it was reached."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    complete: bool


class Network:
    """The encoder and the decoder of a reader."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._encoder, self._decoder = (_session(folder / name, threads) for name in (ENCODER_FILE, DECODER_FILE))
        self._masked = [port.name for port in self._encoder.get_inputs()][1:]
        ports = self._decoder.get_inputs()
        self._mask_of_decoder = "encoder_attention_mask" in [port.name for port in ports]
        self._caches = {port.name: port.shape for port in ports if port.name.startswith("past_key_values.")}

    def read(self, samples: Floats, most_tokens: int) -> TokenRun:
        """Return the most likely tokens for a segment of sound between -1 and 1."""
        samples = np.pad(samples, (0, max(0, FEWEST_SAMPLES - len(samples))))[None]
        mask = np.ones(samples.shape, np.int64)
        frames = self._encoder.run(None, {"input_values": samples, **dict.fromkeys(self._masked, mask)})[0]
        inputs: dict[str, Any] = {"encoder_hidden_states": frames}
        if self._mask_of_decoder:
            inputs["encoder_attention_mask"] = mask
        for name, (_, heads, _, size) in self._caches.items():
            inputs[name] = np.zeros((1, heads, 0 if ".decoder." in name else 1, size), np.float32)
        tokens: list[int] = []
        chances: list[float] = []
        token = BEGIN
        while len(tokens) < most_tokens:
            inputs |= {"input_ids": np.array([[token]]), "use_cache_branch": np.array([bool(tokens)])}
            logits, *caches = self._decoder.run(None, inputs)
            for name, cache in zip(self._caches, caches, strict=True):
                if ".decoder." in name or not tokens:
                    inputs[name] = cache
            token, chance = _likeliest(logits[0, -1])
            chances.append(chance)
            if token == END:
                return TokenRun(tuple(tokens), tuple(chances), complete=True)
            tokens.append(token)
            if copies := repeated(tokens):
                return TokenRun(tuple(tokens[:-copies]), tuple(chances[:-copies]), complete=False)
        return TokenRun(tuple(tokens), tuple(chances), complete=False)


def repeated(tokens: Sequence[int]) -> int:
    """Return how many of the last tokens only repeat those before them; 0 if the reading does not run in circles."""
    for length in range(1, _LONGEST_LOOP + 1):
        count = max(_MOST_COPIES * length, _FEWEST_REPEATED)
        if len(tokens) >= count + length and tokens[-count:] == tokens[-count - length : -length]:
            return count
    return 0


def _likeliest(logits: Floats) -> tuple[int, float]:
    token = int(logits.argmax())
    return token, -float(np.log(np.exp(logits - logits[token]).sum()))


def _session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
