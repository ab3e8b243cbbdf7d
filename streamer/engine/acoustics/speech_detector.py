"""Detects speech in short pieces of audio when they arrive, so that it need not wait for a whole step of the encoder.

The detector of a stream does not begin again at a cut. The words of a segment must not depend on earlier audio, but a
detector that begins again at each cut is later, and wrong more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.activity import probabilities_of
from streamer.engine.acoustics.encoder_config import SUBSAMPLING
from streamer.engine.acoustics.features import samples_of
from streamer.engine.acoustics.streaming_model import EnergyFeatures, Floats, ModelState, SlotNetwork

_KEPT: Final = 32  # hops: as many as a step of the usual length has


class PieceEnergies:
    """Computes the energies of the pieces of each slot, and keeps those that the next step has, too."""

    def __init__(self, features: EnergyFeatures, slots: int) -> None:
        self._features, self._hop, self._context = features, features.hop, features.context
        self.recent = np.zeros((slots, self._context + _KEPT * self._hop), np.float32)  # the last samples
        self.energies = np.zeros((slots, _KEPT, features.mels), np.float32)  # of the last hops
        self.kept = np.zeros(slots, np.int64)  # how many hops these are

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        self.recent[list(slots)], self.kept[list(slots)] = 0, 0

    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[Floats]:
        """Return the energies of the next pieces of each of these slots: [hops, mels]. All have the same length."""
        joined = [np.concatenate(own) for own in pieces]
        # All slots are computed in one call. Those with fewer pieces are padded, and the padding is left out later.
        context, hop = self._context, self._hop
        samples = np.zeros((len(slots), context + max(map(len, joined))), np.float32)
        samples[:, :context] = self.recent[list(slots), -context:]
        for row, own in zip(samples, joined, strict=True):
            row[context : context + len(own)] = samples_of(own)
        found = [rows[: len(own) // hop] for rows, own in zip(self._features.energies(samples), joined, strict=True)]
        for slot, row, energies in zip(slots, samples, found, strict=True):
            new = row[context : context + len(energies) * hop]
            self.recent[slot] = np.concatenate((self.recent[slot], new))[-self.recent.shape[1] :]
            self.energies[slot] = np.concatenate((self.energies[slot], energies))[-_KEPT:]
            self.kept[slot] = min(self.kept[slot] + len(energies), _KEPT)
        return found

    def find(self, slot: int, samples: Floats) -> Floats:
        """Return the energies of the first hops of these samples [context + hops * hop] if pieces have the same.

        The energies of a hop depend on its samples alone, so they are those that would be computed. A step ends with
        a piece, or a frame after it. There are none where a segment begins: its first hops see no sound before them.
        """
        hop = self._hop
        hops = (len(samples) - self._context) // hop
        for later in (0, SUBSAMPLING):  # how many hops are in no piece yet
            first = _KEPT - (hops - later)
            same = samples[: self._context + (hops - later) * hop]
            if first >= _KEPT - self.kept[slot] and np.array_equal(self.recent[slot, first * hop :], same):
                return self.energies[slot, first:]
        return self.energies[slot, :0]


class PieceActivity:
    """Computes the probability of speech in the pieces of each slot, from their energies."""

    def __init__(self, network: SlotNetwork, slots: int) -> None:
        self._network = network
        self.state: ModelState = network.make_state(slots)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        for array in self.state.values():
            array[list(slots)] = 0

    def compute(self, slots: Sequence[int], energies: Sequence[Floats]) -> list[list[float]]:
        """Return the probabilities of all frames in the next pieces of each of these slots.

        A compiled network gives the same bits whether pieces are read together or one after another.
        """
        groups: dict[int, list[int]] = {}  # the rows with energies of the same length
        for row, own in enumerate(energies):
            groups.setdefault(len(own), []).append(row)
        probabilities: dict[int, list[float]] = {}
        for rows in groups.values():
            stacked = np.stack([energies[row] for row in rows])
            log_probs = self._network.step(self.state, [slots[row] for row in rows], stacked)
            probabilities |= zip(rows, map(probabilities_of, log_probs[:, :, 0].tolist()), strict=True)
        return [probabilities[row] for row in range(len(slots))]


@dataclass(frozen=True)
class SpeechDetector:
    """The detector of a recogniser that gets audio: it computes energies and the probability of speech."""

    energies: PieceEnergies
    activity: PieceActivity

    @classmethod
    def make(cls, features: EnergyFeatures, network: SlotNetwork, slots: int) -> SpeechDetector:
        """Make a detector with fresh states."""
        return cls(PieceEnergies(features, slots), PieceActivity(network, slots))

    @property
    def state(self) -> ModelState:
        """The state of all slots."""
        energies = self.energies
        return {"recent": energies.recent, "energies": energies.energies, "kept": energies.kept, **self.activity.state}

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""
        self.energies.reset(slots)
        self.activity.reset(slots)

    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[list[float]]:
        """Return the probabilities of all frames in the next pieces of these slots. All have the same length."""
        return self.activity.compute(slots, self.energies.compute(slots, pieces))
