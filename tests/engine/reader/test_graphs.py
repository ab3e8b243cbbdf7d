"""The graphs of a reader compute what its weights mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from streamer.engine.reader.graphs import (
    EXPECTED,
    PLACES,
    TOKENS,
    UNSEEN,
    caches,
    encoder_graph,
    joined,
    looked_up,
    step_graph,
)
from tests.engine.reader.random_reader import (
    HEADS,
    LAYERS,
    WIDTH,
    log_probabilities_of,
    random_weights,
    sound_of,
)


def _speech(seconds: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(1).normal(size=int(16_000 * seconds)) / 10).astype(np.float32)


def _session(content: bytes) -> Any:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def test_the_encoder_computes_what_the_decoder_looks_up() -> None:
    """Keys and values of each layer are those of a computation in full numbers, up to rounding."""
    weights, samples = random_weights(), _speech()
    found = _session(encoder_graph(weights, signed=False)).run(None, {"samples": samples[None]})
    expected = sound_of(weights, samples)
    assert len(found) == len(expected) == len(looked_up(LAYERS))
    for mine, right in zip(found, expected, strict=True):
        assert mine.shape == (1, *right.shape)
        assert np.abs(mine[0] - right).mean() < 0.03 * np.abs(right).mean()


def _step_inputs(tokens: Sequence[int], places: Sequence[int], unseen: NDArray[Any]) -> dict[str, Any]:
    """The inputs of a step in which every token is expected after itself."""
    return {
        TOKENS: np.array([tokens]),
        PLACES: np.array([places]),
        EXPECTED: np.array([tokens]),
        UNSEEN: unseen[None, None].astype(np.float32),
    }


def _sound_inputs(sound: Sequence[NDArray[np.float32]]) -> dict[str, Any]:
    """The inputs of a first step for this sound."""
    inputs = dict(zip(looked_up(LAYERS), (part[None] for part in sound), strict=True))
    return inputs | {name: np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32) for name in caches(LAYERS)}


def test_a_step_continues_from_the_caches() -> None:
    """The log-probabilities of tokens, one step after another, are those of all tokens at once."""
    weights = random_weights()
    sound = sound_of(weights, _speech())
    step = _session(step_graph(weights))
    inputs = _sound_inputs(sound)
    tokens, found = [1], []
    for place in range(6):
        token, chance, _, *new = step.run(None, inputs | _step_inputs(tokens[-1:], [place], np.zeros((1, place + 1))))
        inputs |= zip(caches(LAYERS), new, strict=True)
        tokens.append(int(token[0, 0]))
        found.append(float(chance[0, 0]))
    expected = log_probabilities_of(weights, sound, tokens[:-1])
    assert found == pytest.approx([row[token] for row, token in zip(expected, tokens[1:], strict=True)], abs=0.05)
    assert all(row[token] > row.max() - 0.1 for row, token in zip(expected, tokens[1:], strict=True))


def test_texts_in_one_step_do_not_see_each_other() -> None:
    """Each of two texts that begin after the same token has the log-probabilities that it has alone."""
    weights = random_weights()
    sound = sound_of(weights, _speech())
    texts = [[1, 7, 9], [1, 20, 3, 8]]
    unseen = np.full((7, 7), -1e9)
    unseen[:3, :3], unseen[3:, 3:] = (np.where(np.tril(np.ones((size, size))) > 0, 0, -1e9) for size in (3, 4))
    places = [0, 1, 2, 0, 1, 2, 3]
    _, _, [found], *_ = _session(step_graph(weights)).run(
        None, _sound_inputs(sound) | _step_inputs([*texts[0], *texts[1]], places, unseen)
    )
    for text, own in zip(texts, (found[:3], found[3:]), strict=True):
        rows = log_probabilities_of(weights, sound, text)
        assert own.tolist() == pytest.approx(
            [row[token] for row, token in zip(rows, text, strict=True)], rel=0.02, abs=0.3
        )


def test_signs_change_nothing_but_rounding() -> None:
    """Weights with and without a sign stand for the same numbers."""
    if not _multiplies_signs():
        return
    weights, samples = random_weights(), _speech(0.5)
    one, other = (
        _session(encoder_graph(weights, signed=signed)).run(None, {"samples": samples[None]})
        for signed in (False, True)
    )
    for mine, right in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-3)


def _multiplies_signs() -> bool:
    from streamer.engine.reader.graph_files import multiplies_signs

    return multiplies_signs()


def test_layers_with_the_same_input_become_one() -> None:
    """The columns of the joined weight are those of both."""
    weights = random_weights().linear
    both = [weights["encoder.layers.0.self_attn.q_proj"], weights["encoder.layers.0.self_attn.k_proj"]]
    np.testing.assert_array_equal(joined(both).full(), np.concatenate([each.full() for each in both], axis=1))
