"""Writes the two graphs of a reader: the encoder, and one step of the decoder.

The published graphs unpack weights in every run, or have two branches with a copy of the weights each. Here a weight of
one byte stays one byte. The encoder also computes what the decoder looks up in every step, so that a step is one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.network_graphs import BATCH, NetworkWriter
from streamer.engine.reader.weights import Floats, ReaderWeights, RoundedWeight
from streamer.models.graph_writer import CONTRIBUTED
from streamer.models.onnx_file import ElementType

HEADS: Final = 8
ROTATED: Final = 32
"""The numbers of a key that its position turns."""
_PERIOD: Final = 10_000.0
_MOST_PLACES: Final = 2_048  # frames and tokens of a segment; more than the longest one has
_BITS: Final = 8
_SO_FAR: Final = "tokens_so_far"
_SIGN: Final = np.uint8(128)  # the bit that tells int8 from uint8
_BLOCKS: Final = (128, 32)  # inputs that are rounded with one scale; the largest that fits is fastest

FRAMES: Final = "frames"
SAMPLES: Final = "samples"
TOKENS: Final = "tokens"
EXPECTED: Final = "expected"
PLACES: Final = "places"
UNSEEN: Final = "unseen"
STEP_INPUTS: Final = (TOKENS, PLACES, EXPECTED, UNSEEN)


def looked_up(layers: int) -> list[str]:
    """Return the names of what the encoder computes for the decoder: keys and values of each of its layers."""
    return [f"sound_{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def caches(layers: int) -> list[str]:
    """Return the names of the keys and values of the tokens before a step."""
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def encoder_graph(weights: ReaderWeights, *, signed: bool) -> bytes:
    """Return the encoder as the content of a file: `samples` [batch, samples] in, the values `looked_up` out.

    `signed`: whether weights have a sign. On processors with VNNI, they are computed in 40 % of the time then. On
    older ones of x86, sums of such products overflow.
    """
    return _EncoderWriter(weights, signed=signed).written()


def step_graph(weights: ReaderWeights) -> bytes:
    """Return a step of the decoder as the content of a file.

    Its inputs are `tokens` [1, tokens], the `places` in the text where they stand, and the tokens that are `expected`
    after each of them; `unseen` [1, 1, tokens, tokens so far], which is 0 where a token sees another one, and very low
    elsewhere; what is `looked_up`, and the `caches`. Its outputs are the likeliest next tokens, the logarithms of
    their probabilities, those of the expected tokens, and the caches for the next step. One step may read the
    beginnings of several texts: their tokens do not see each other.
    """
    return _StepWriter(weights).written()


class _MoonshineWriter(NetworkWriter):
    def __init__(self, weights: ReaderWeights, part: str, *, signed: bool = False) -> None:
        super().__init__()
        self._signed = signed
        self._weights, self._part = weights, part
        self._width = weights.width
        self._size = self._width // HEADS
        angles = np.arange(_MOST_PLACES)[:, None] * _PERIOD ** (-np.arange(0, ROTATED, 2) / ROTATED)
        self._turns = [self.array(table(angles)) for table in (np.cos, np.sin)]

    def other(self, name: str) -> Floats:
        """Return a weight that is not of a linear layer."""
        return self._weights.other[f"{self._part}.{name}"]

    def linears(self, *names: str) -> RoundedWeight:
        """Return the weights of linear layers with the same input as one."""
        parts = [self._weights.linear[f"{self._part}.{name}"] for name in names]
        return parts[0] if len(parts) == 1 else joined(parts)

    def scaled(self, value: str, name: str) -> str:
        """Add a norm, which has no bias."""
        weight = self.other(f"{name}.weight")
        return self.node("LayerNormalization", value, self.array(weight), axis=-1, epsilon=1e-5)

    def turned(self, value: str, places: str) -> str:
        """Turn keys or queries by their positions: those of all, or one from which on they are."""
        return self.node(
            "RotaryEmbedding",
            *(value, places, *self._turns),
            domain=CONTRIBUTED,
            interleaved=1,
            num_heads=HEADS,
            rotary_embedding_dim=ROTATED,
        )

    def blocks(self, value: str, weight: RoundedWeight) -> str:
        """Add a product in which each block of a row is rounded by itself, so that rows do not depend on each other."""
        inputs, outputs = weight.numbers.shape
        block = next((size for size in _BLOCKS if inputs % size == 0), _BLOCKS[-1])
        count = -(-inputs // block)
        numbers = np.pad(weight.numbers.T, ((0, 0), (0, count * block - inputs)))
        packed = self.constant(np.ascontiguousarray(numbers).tobytes(), (outputs, count, block), ElementType.UINT8)
        return self._blocks(value, packed, weight, count, block)

    def _blocks(self, value: str, packed: str, weight: RoundedWeight, count: int, block: int) -> str:
        inputs, outputs = weight.numbers.shape
        zeros = np.repeat(weight.zeros, count)
        return self.node(
            "MatMulNBits",
            *(value, packed, self.array(np.repeat(weight.scales, count))),
            self.constant(zeros.tobytes(), zeros.shape, ElementType.UINT8),
            domain=CONTRIBUTED,
            K=inputs,
            N=outputs,
            bits=_BITS,
            block_size=block,
            accuracy_level=4,  # the products are computed in whole numbers
        )

    def whole(self, value: str, weight: RoundedWeight, bias: Floats | None = None) -> str:
        """Add a product whose input is rounded with one scale for all, which is fastest for many rows."""
        numbers, zeros = (self._bytes(part) for part in (weight.numbers, weight.zeros))
        biases = [] if bias is None else [self.array(bias)]
        return self.node(
            "DynamicQuantizeMatMul", value, numbers, self.array(weight.scales), zeros, *biases, domain=CONTRIBUTED
        )

    def _bytes(self, numbers: NDArray[np.uint8]) -> str:
        if not self._signed:
            return self.constant(numbers.tobytes(), numbers.shape, ElementType.UINT8)
        return self.constant((numbers ^ _SIGN).tobytes(), numbers.shape, ElementType.INT8)

    def gelu(self, value: str) -> str:
        """Add GELU as one operation."""
        return self.node("Gelu", value, domain=CONTRIBUTED)


class _EncoderWriter(_MoonshineWriter):
    def __init__(self, weights: ReaderWeights, *, signed: bool) -> None:
        super().__init__(weights, "encoder", signed=signed)

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        frames, first = self._stem(), self.numbers(0)
        for layer in range(self._weights.layers("encoder")):
            frames = self._layer(frames, first, f"layers.{layer}")
        frames = self.scaled(frames, "layer_norm")
        layers = self._weights.layers("decoder")
        kinds = ("k_proj", "v_proj")
        names = [f"decoder.layers.{layer}.encoder_attn.{kind}" for layer in range(layers) for kind in kinds]
        both = self.whole(frames, joined([self._weights.linear[name] for name in names]))
        # [batch, frames, what, head, size] -> [what, batch, head, frames, size]
        split = self.node("Reshape", both, self.numbers(0, 0, len(names), HEADS, self._size))
        moved = self.node("Transpose", split, perm=[2, 0, 3, 1, 4])
        shape: list[int | str] = [BATCH, HEADS, FRAMES, self._size]
        for value in self.nodes("Split", moved, results=len(names), axis=0):
            self.output(self.node("Squeeze", value, self.numbers(0)), shape)
        return self.content()

    def _stem(self) -> str:
        samples = self.input(SAMPLES, [BATCH, SAMPLES])
        sound = self.node("Unsqueeze", samples, self.numbers(1))
        first = self.node("Tanh", self._convolved(sound, self.other("conv1.weight"), None, 64))
        flat = self.node("Reshape", first, self.numbers(0, 1, -1))
        one, none = self.array(np.ones(1)), self.array(np.zeros(1))
        even = self.node("InstanceNormalization", flat, one, none, epsilon=1e-5)
        even = self.node("Reshape", even, self.node("Shape", first))
        # The next convolution does the scaling and moving of the norm.
        weight, bias = self.other("conv2.weight"), self.other("conv2.bias")
        bias = bias + np.einsum("oik,i->o", weight, self.other("groupnorm.bias"))
        weight = weight * self.other("groupnorm.weight")[None, :, None]
        second = self.gelu(self._convolved(even, weight, bias, 3))
        third = self.gelu(self._convolved(second, self.other("conv3.weight"), self.other("conv3.bias"), 2))
        return self.node("Transpose", third, perm=[0, 2, 1])

    def _convolved(self, sound: str, weight: Floats, bias: Floats | None, stride: int) -> str:
        biases = [] if bias is None else [self.array(bias)]
        return self.node("Conv", sound, self.array(weight), *biases, kernel_shape=[weight.shape[-1]], strides=[stride])

    def _layer(self, frames: str, first: str, name: str) -> str:
        rows = self.scaled(frames, f"{name}.input_layernorm")
        both = self.whole(rows, self.linears(*(f"{name}.self_attn.{kind}_proj" for kind in "qkv")))
        query, key, value = self.nodes("Split", both, results=3, axis=-1)
        query, key = self.turned(query, first), self.turned(key, first)
        merged = self.node("MultiHeadAttention", query, key, value, domain=CONTRIBUTED, num_heads=HEADS)
        frames = self.node("Add", frames, self.whole(merged, self.linears(f"{name}.self_attn.o_proj")))
        rows = self.scaled(frames, f"{name}.post_attention_layernorm")
        hidden = self.gelu(self._biased(rows, f"{name}.mlp.fc1"))
        return self.node("Add", frames, self._biased(hidden, f"{name}.mlp.fc2"))

    def _biased(self, rows: str, name: str) -> str:
        return self.whole(rows, self.linears(name), self.other(f"{name}.bias"))


class _StepWriter(_MoonshineWriter):
    def __init__(self, weights: ReaderWeights) -> None:
        super().__init__(weights, "decoder")

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        tokens, places, expected = (
            self.input(name, [1, TOKENS], ElementType.INT64) for name in (TOKENS, PLACES, EXPECTED)
        )
        self._unseen = self.input(UNSEEN, [1, 1, TOKENS, _SO_FAR])
        layers, new = self._weights.layers("decoder"), list[str]()
        sound = [self.input(name, [1, HEADS, FRAMES, self._size]) for name in looked_up(layers)]
        past = [self.input(name, [1, HEADS, "past", self._size]) for name in caches(layers)]
        table = self._weights.linear["decoder.embed_tokens"]
        packed, count, block = self._table(table)
        rows = self._embedded(tokens, packed, table)
        for layer in range(layers):
            at = slice(2 * layer, 2 * layer + 2)
            rows, both = self._layer(rows, places, f"layers.{layer}", past[at], sound[at])
            new += both
        ends = len(table.numbers)
        out = RoundedWeight(table.numbers.T, *(np.repeat(part[:1], ends) for part in (table.scales, table.zeros)))
        logits = self._blocks(self.scaled(rows, "norm"), packed, out, count, block)
        best = self.node("ReduceMax", logits, axes=[-1], keepdims=0)
        total = self.node("ReduceLogSumExp", logits, axes=[-1], keepdims=0)
        numbers = self.node("Unsqueeze", expected, self.numbers(-1))
        given = self.node("Squeeze", self.node("GatherElements", logits, numbers, axis=-1), self.numbers(-1))
        self.output(self.node("ArgMax", logits, axis=-1, keepdims=0), [1, TOKENS], ElementType.INT64)
        for logit in (best, given):
            self.output(self.node("Sub", logit, total), [1, TOKENS])
        for name in new:
            self.output(name, [1, HEADS, _SO_FAR, self._size])
        return self.content()

    def _table(self, table: RoundedWeight) -> tuple[str, int, int]:
        """Add the table of pieces in the order of a product, in which its rows are found too."""
        pieces, width = table.numbers.shape
        block = _BLOCKS[-1]
        if width % block:
            raise ValueError(f"a width of {width} is no multiple of {block}")
        content = np.ascontiguousarray(table.numbers).tobytes()
        return self.constant(content, (pieces, width // block, block), ElementType.UINT8), width // block, block

    def _embedded(self, tokens: str, packed: str, table: RoundedWeight) -> str:
        found = self.node("Gather", packed, tokens, axis=0)
        rows = self.node("Cast", self.node("Reshape", found, self.numbers(0, 0, -1)), to=int(ElementType.FLOAT))
        rows = self.node("Sub", rows, self.array(table.zeros[:1].astype(np.float32)))
        return self.node("Mul", rows, self.array(table.scales[:1]))

    def _layer(
        self, rows: str, places: str, name: str, past: Sequence[str], sound: Sequence[str]
    ) -> tuple[str, Sequence[str]]:
        inner = self.scaled(rows, f"{name}.input_layernorm")
        both = self.blocks(inner, self.linears(*(f"{name}.self_attn.{kind}_proj" for kind in "qkv")))
        query, key, value = self.nodes("Split", both, results=3, axis=-1)
        query, key = self.turned(query, places), self.turned(key, places)
        # The two empty inputs are a bias and a mask, which are not used.
        merged, *new = self.nodes(
            "MultiHeadAttention",
            *(query, key, value, "", "", self._unseen, *past),
            results=3,
            domain=CONTRIBUTED,
            num_heads=HEADS,
        )
        rows = self.node("Add", rows, self.blocks(merged, self.linears(f"{name}.self_attn.o_proj")))
        inner = self.scaled(rows, f"{name}.post_attention_layernorm")
        query = self.blocks(inner, self.linears(f"{name}.encoder_attn.q_proj"))
        merged = self.node("MultiHeadAttention", query, *sound, domain=CONTRIBUTED, num_heads=HEADS)
        rows = self.node("Add", rows, self.blocks(merged, self.linears(f"{name}.encoder_attn.o_proj")))
        inner = self.scaled(rows, f"{name}.final_layernorm")
        hidden, gate = self.nodes("Split", self._biased(inner, f"{name}.mlp.fc1"), results=2, axis=-1)
        gated = self.node("Mul", hidden, self.silu(gate))
        return self.node("Add", rows, self._biased(gated, f"{name}.mlp.fc2")), new

    def _biased(self, rows: str, name: str) -> str:
        return self.node("Add", self.blocks(rows, self.linears(name)), self.array(self.other(f"{name}.bias")))


def joined(weights: Sequence[RoundedWeight]) -> RoundedWeight:
    """Return the weights of layers with the same input as those of one layer."""
    numbers, scales, zeros = zip(*((each.numbers, each.scales, each.zeros) for each in weights), strict=True)
    return RoundedWeight(np.concatenate(numbers, axis=1), np.concatenate(scales), np.concatenate(zeros))
