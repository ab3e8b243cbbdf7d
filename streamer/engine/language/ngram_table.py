"""A compact and exact hash table for n-grams, memory-mapped, with four bytes per entry.

A key is mixed by multiplication modulo a power of two, which is reversible. The high bits of the result are the number
of a bucket, so an entry stores only the low bits, its tag, above its value. The entries of a bucket are contiguous. A
look-up compares a window as wide as the fullest bucket, which may extend into the next buckets. So the tag also has the
last bits of the bucket number, enough to distinguish the buckets of a window. `pack` ensures that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamer.engine.language.ngram_loops import TableArrays

Integers = npt.NDArray[np.int64]

_LOAD = 10  # the greatest average number of entries in a bucket
_SPREAD_BITS = 2  # the bucket number may be this many bits longer if short tags are then enough
_GUARD = 3  # the least number of bits of the bucket number in the tag
_TRIALS = 64


@dataclass(frozen=True)
class NgramTable:
    """Distinct keys with small values. Each key has an index, which is a number below the size of the table."""

    starts: Tensor  # int32: the first entry of each bucket
    entries: Tensor  # tag and value; the first bit is inverted, so that signed numbers sort like unsigned ones
    multiplier: int
    key_bits: int
    low_bits: int  # the bits of a mixed key that do not name its bucket
    value_bits: int
    window: int

    @staticmethod
    def size(number: int, key_bits: int, value_bits: int) -> int:
        """Return the size in bytes of a table with this many keys, without the last window."""
        low_bits, entry_bits = _layout(number, key_bits, value_bits)
        return number * entry_bits // 8 + (4 << key_bits - low_bits)

    @classmethod
    def pack(cls, keys: Integers, values: Integers, key_bits: int, value_bits: int) -> tuple[NgramTable, Integers]:
        """Make a table of keys below 2 ** key_bits and values below 2 ** value_bits. Also return each key's index."""
        low_bits, entry_bits = _layout(len(keys), key_bits, value_bits)
        reach = 1 << min(entry_bits - value_bits - low_bits, key_bits - low_bits + 1)
        rng = np.random.default_rng(0)
        for _ in range(_TRIALS):
            multiplier = int(rng.integers(1 << key_bits)) | 1
            mixed = (keys * multiplier) & ((1 << key_bits) - 1)
            bounds = np.concatenate([[0], np.bincount(mixed >> low_bits, minlength=1 << key_bits - low_bits).cumsum()])
            window = max(1, int(np.diff(bounds).max()))
            if len(bounds) <= reach or int((bounds[reach:] - bounds[:-reach]).min()) >= window:
                break
        else:
            raise ValueError(f"{len(keys)} keys of {key_bits} bits fill the buckets too unevenly for a table")
        order = np.argsort(mixed)
        # The padding after the last entry consists of entries of a bucket that does not exist.
        entries = np.full(len(keys) + window, 1 << key_bits + value_bits, dtype=np.int64)
        entries[: len(keys)] = (mixed[order] << value_bits) | values[order]
        indices = np.empty(len(keys), dtype=np.int64)
        indices[order] = np.arange(len(keys))
        inverted = entries ^ (1 << 31) if entry_bits == 32 else entries ^ np.int64(-(1 << 63))
        entries_tensor = torch.from_numpy(inverted.astype(np.int32 if entry_bits == 32 else np.int64))
        starts = torch.from_numpy(bounds[:-1].astype(np.int32))
        return cls(starts, entries_tensor, multiplier, key_bits, low_bits, value_bits, window), indices

    def arrays(self) -> TableArrays:
        """Return the arrays and numbers for the compiled look-ups. They share the memory of this table."""
        narrow = self.entries.dtype == torch.int32
        return TableArrays(
            starts=self.starts.numpy(),
            entries=self.entries.numpy(),
            size=len(self.entries) - self.window,
            multiplier=self.multiplier,
            key_mask=(1 << self.key_bits) - 1,
            low_bits=self.low_bits,
            value_bits=self.value_bits,
            entry_mask=(1 << 32) - 1 if narrow else -1,
            first_bit=1 << 31 if narrow else -(1 << 63),
        )

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors to store in a file, by name."""
        return {f"{prefix}.starts": self.starts, f"{prefix}.entries": self.entries}

    def numbers(self) -> dict[str, int]:
        """Return the numbers to store in a file."""
        names = ("multiplier", "key_bits", "low_bits", "value_bits", "window")
        return {name: int(getattr(self, name)) for name in names}

    @classmethod
    def unpack(cls, prefix: str, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> NgramTable:
        """Make the table from the tensors and numbers of a file."""
        return cls(tensors[f"{prefix}.starts"], tensors[f"{prefix}.entries"], **numbers)


def _layout(number: int, key_bits: int, value_bits: int) -> tuple[int, int]:
    """Return the number of low bits of a mixed key, and the number of bits of an entry: 32 if tag and value fit."""
    low_bits = max(0, key_bits - (number // _LOAD).bit_length())
    narrow = 32 - value_bits - _GUARD
    if low_bits - _SPREAD_BITS <= narrow and low_bits > _SPREAD_BITS:
        return min(low_bits, narrow), 32
    return low_bits, 32 if low_bits <= narrow else 64
