"""Where the prefix beam keeps its hypotheses: the beams of all slots, and the place in which those of a batch grow.

The mass of a hypothesis, the sum over all its CTC paths and pronunciations times the language model's share, is linear,
in float64, and scaled after every step so that the greatest is one: merging is adding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of `numbers`: hashes of all words and of the last two, those two, where the list of the words is; and of the
# running word the first frame, the frame behind its last phone, and the mass with which it began (a float64's bits).
HISTORY, CONTEXT, BEFORE_LAST, LAST, BACK, START, END, BEGUN = range(8)
NUMBERS = 8
# Rows of `mass`: of all paths, and of those that end in a blank.
TOTAL, IN_BLANK = range(2)
MASSES = 2
# Odd numbers of 64 bits; their products wrap around, as a hash wants it.
HISTORY_MIX, WORD_MIX, NODE_MIX = -7046029254386353131, 2685821657736338717, -4417276706812531889


def mixed(history: Tensor, words: Tensor) -> Tensor:
    """The hash of a history that goes on with these words."""
    found = (history ^ (words * WORD_MIX)) * HISTORY_MIX
    return found ^ (found >> 29)


@dataclass
class Beams:
    """The beams of some slots, the best hypothesis first; the first dimension of every tensor counts the slots."""

    nodes: Tensor  # [slots, beam]: of the lexicon's trie
    numbers: Tensor  # [slots, NUMBERS, beam]
    mass: Tensor  # [slots, MASSES, beam]
    scale: Tensor  # [slots]: natural log of what the mass was divided by
    frames: Tensor  # [slots]: frames read since the segment's start

    @classmethod
    def make(cls, slots: int, beam: int, device: torch.device | str) -> Beams:
        """Room for so many slots; they must be reset before they are used."""
        return cls(
            nodes=torch.zeros(slots, beam, dtype=torch.int64, device=device),
            numbers=torch.zeros(slots, NUMBERS, beam, dtype=torch.int64, device=device),
            mass=torch.zeros(slots, MASSES, beam, dtype=torch.float64, device=device),
            scale=torch.zeros(slots, dtype=torch.float64, device=device),
            frames=torch.zeros(slots, dtype=torch.int64, device=device),
        )

    def take(self, slots: Tensor) -> Beams:
        """The beams of these slots, copied."""
        return Beams(*(tensor.index_select(0, slots) for tensor in vars(self).values()))

    def put(self, slots: Tensor, beams: Beams) -> None:
        """Put beams into these slots."""
        for mine, theirs in zip(vars(self).values(), vars(beams).values(), strict=True):
            mine.index_copy_(0, slots, theirs)

    @property
    def total(self) -> Tensor:
        """The mass of each hypothesis: [slots, beam]."""
        return self.mass[:, TOTAL]


class Side:
    """Views of the hypotheses of the first `batch` streams of a Workplace; behind them those of words that end."""

    def __init__(self, nodes: Tensor, numbers: Tensor, mass: Tensor, batch: int) -> None:
        beam = nodes.shape[1]
        self.nodes = nodes[:batch]
        self.flat_nodes = self.nodes.flatten()
        self.numbers = numbers[:batch]
        self.kept, self.ended = self.numbers[:, :, :beam], self.numbers[:, :, beam:]
        self.history, self.context, _, _, _, self.start, self.end, begun = self.kept.unbind(1)
        self.begun = begun.view(torch.float64)
        self.mass = mass[:batch]
        self.total, self.in_blank = self.mass.unbind(1)

    def load(self, beams: Beams, order: Tensor) -> None:
        """Take over beams, those at `order`."""
        self.nodes.copy_(beams.nodes.index_select(0, order))
        self.kept.copy_(beams.numbers.index_select(0, order))
        self.mass.copy_(beams.mass.index_select(0, order))

    def save(self, beams: Beams, order: Tensor) -> None:
        """Give the beams back to where `order` says."""
        beams.nodes.index_copy_(0, order, self.nodes)
        beams.numbers.index_copy_(0, order, self.kept)
        beams.mass.index_copy_(0, order, self.mass)

    def take(self, other: Side, rows: slice) -> None:
        """Take over these streams' hypotheses from another side."""
        self.nodes[rows] = other.nodes[rows]
        self.kept[rows] = other.kept[rows]
        self.mass[rows] = other.mass[rows]


class Candidates:
    """Views of what may follow for the first `batch` streams: a place for what is dropped, grown, stayed, ended.

    All hypotheses grow into the lexicon (and, in a second block, those of streams with hotwords into these).
    """

    def __init__(
        self, nodes: Tensor, origin: Tensor, mass: Tensor, beam: int, columns: int, tries: int, batch: int
    ) -> None:
        self.nodes, self.origin, self.mass = nodes[:batch], origin[:batch], mass[:batch]
        self.flat_nodes = self.nodes.flatten()
        self.total, in_blank = self.mass.unbind(1)
        grown, stay = columns, columns * (1 + beam * tries)
        ended = stay + beam
        self.grown = slice(grown, stay)
        self.grown_nodes, self.grown_total = (
            part[:, grown:stay].unflatten(1, (beam * tries, columns)) for part in (self.nodes, self.total)
        )
        self.stay_nodes, self.stay_origin, self.stay_total, self.stay_in_blank = (
            part[:, stay:ended] for part in (self.nodes, self.origin, self.total, in_blank)
        )
        self.ended_total = self.total[:, ended:]


class Workplace:
    """Two sides, from one to the other of which hypotheses grow frame by frame, and the candidates between them.

    Views are made once for every size of a batch: making them anew would cost as much as the arithmetic.
    """

    def __init__(
        self, batch: int, beam: int, columns: int, endings: int, device: torch.device | str, tries: int = 1
    ) -> None:
        """`tries`: into how many a hypothesis may grow, the lexicon's and perhaps one of hotwords."""
        self._beam, self._columns, self._tries = beam, columns, tries
        grown = columns * beam * tries
        width, size = beam + endings, columns + grown + beam + endings

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(batch, *shape, dtype=torch.int64, device=device)

        def mass(rows: int, columns: int) -> Tensor:
            return torch.zeros(batch, rows, columns, dtype=torch.float64, device=device)

        ids = torch.arange(max(beam, endings), device=device)
        self._sides = [(numbers(beam), numbers(NUMBERS, width), mass(MASSES, beam)) for _ in range(2)]
        # Where the numbers of a candidate come from: the place among those of a side, plus `width` where it is grown.
        self._origin = numbers(size)
        self._origin[:, columns : columns + grown] = (ids[:beam] + width).repeat_interleave(columns).repeat(tries)
        self._origin[:, size - endings :] = ids[:endings] + beam
        self._nodes, self._mass = numbers(size), mass(MASSES, size)
        self._views: dict[int, tuple[Side, Side, Candidates]] = {}

    def views(self, batch: int) -> tuple[Side, Side, Candidates]:
        """Both sides and the candidates of the first so many streams."""
        if batch not in self._views:
            one, other = (Side(*tensors, batch) for tensors in self._sides)
            found = Candidates(self._nodes, self._origin, self._mass, self._beam, self._columns, self._tries, batch)
            self._views[batch] = (one, other, found)
        return self._views[batch]
