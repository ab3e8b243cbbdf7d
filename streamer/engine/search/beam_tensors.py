"""The tensors of the prefix beam: the beams of all slots, and the workspace in which those of a batch are extended.

The mass of a hypothesis is the sum of the probabilities of its CTC paths and pronunciations, times the probability of
its words. It is a linear float64, so merging two hypotheses means adding. After every step masses are scaled so that
the greatest is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of `numbers`: hashes of all words and of the last two, those two words, and where to find the list of all words;
# of the running word the first frame, the frame after its last phone, and the mass with which it began (float64 bits);
# what the neural language model has added to the score of all words so far (natural log, float64 bits).
HISTORY_HASH, CONTEXT_HASH, SECOND_LAST_WORD, LAST_WORD, BACK_POINTER, START_FRAME, END_FRAME, START_MASS, RESCORED = (
    range(9)
)
NUMBERS = 9
# Rows of `mass`: the mass of all paths, and of those that end in a blank.
TOTAL, IN_BLANK = range(2)
MASSES = 2
# Odd 64-bit multipliers of the hashes; their products wrap around, as they should in a hash.
HISTORY_MIX, WORD_MIX, NODE_MIX = -7046029254386353131, 2685821657736338717, -4417276706812531889


def extend_hash(history: Tensor, words: Tensor) -> Tensor:
    """The hash of a word history after these words are appended."""
    found = (history ^ (words * WORD_MIX)) * HISTORY_MIX
    return found ^ (found >> 29)


@dataclass
class Beams:
    """The beams of some slots, best hypothesis first. The first dimension of every tensor counts the slots."""

    nodes: Tensor  # [slots, beam]: nodes of the lexicon's trie
    numbers: Tensor  # [slots, NUMBERS, beam]
    mass: Tensor  # [slots, MASSES, beam]
    scale: Tensor  # [slots]: natural log of the factor that the mass was divided by
    frames: Tensor  # [slots]: frames read since the start of the segment

    @classmethod
    def make(cls, slots: int, beam: int, device: torch.device | str) -> Beams:
        """Allocate beams for this many slots. Reset them before use."""
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
        """Store these beams in these slots."""
        for mine, theirs in zip(vars(self).values(), vars(beams).values(), strict=True):
            mine.index_copy_(0, slots, theirs)

    @property
    def total(self) -> Tensor:
        """The mass of each hypothesis: [slots, beam]."""
        return self.mass[:, TOTAL]

    def rescore(self, gains: Tensor, look_ahead: Tensor) -> Tensor:
        """Let each hypothesis [slots, beam] have this gain, and sort them again. Returns their former places.

        The best one is that whose mass times the look-ahead of its node is the greatest.
        """
        factors = (gains - self.numbers[:, RESCORED].view(torch.float64)).exp()
        self.numbers[:, RESCORED] = gains.view(torch.int64)
        self.mass.mul_(factors.unsqueeze(1))
        order = (self.total * look_ahead).argsort(dim=1, descending=True, stable=True)
        self.nodes.copy_(self.nodes.gather(1, order))
        self.numbers.copy_(self.numbers.gather(2, order.unsqueeze(1).expand_as(self.numbers)))
        self.mass.copy_(self.mass.gather(2, order.unsqueeze(1).expand_as(self.mass)))
        peak = self.total.amax(1, keepdim=True)
        self.mass.div_(peak.unsqueeze(1))
        # The running word is as likely as it was.
        start_mass = self.numbers[:, START_MASS].view(torch.float64)
        start_mass.mul_(factors.gather(1, order)).div_(peak)
        self.scale.add_(peak.squeeze(1).log())
        return order


@dataclass
class RescoredHistories:
    """The histories that the beams of a batch had before a step, and their gains by rescoring: [streams, beam].

    Where a word that ends makes one of them again, it gets the same gain at once, so all hypotheses that are merged
    have the same gain. Words that make a new history are rescored where the step ends.
    """

    hashes: Tensor  # sorted
    gains: Tensor

    @classmethod
    def of(cls, beams: Beams, order: Tensor) -> RescoredHistories:
        """Those of the beams at `order`."""
        numbers = beams.numbers.index_select(0, order)
        hashes, row = numbers[:, HISTORY_HASH].sort(1)
        return cls(hashes, numbers[:, RESCORED].view(torch.float64).gather(1, row))

    def take(self, streams: Tensor) -> RescoredHistories:
        """Those of some streams of the batch."""
        return RescoredHistories(self.hashes.index_select(0, streams), self.gains.index_select(0, streams))

    def gains_of(self, histories: Tensor, otherwise: Tensor) -> Tensor:
        """The gains of these histories [streams, n] if they are among them, and otherwise those given."""
        column = torch.searchsorted(self.hashes, histories).clamp_(max=self.hashes.shape[1] - 1)
        return torch.where(self.hashes.gather(1, column) == histories, self.gains.gather(1, column), otherwise)


@dataclass
class WordEndings:
    """Words that ended in one frame. Tensors are [streams, endings] unless noted otherwise."""

    words: Tensor
    numbers: Tensor  # [streams, NUMBERS, endings]: numbers of the hypotheses that ended a word
    reached: Tensor  # their mass
    depths: Tensor
    inflow: Tensor  # [batch, beam]: the mass that flows into hypotheses waiting at the root
    source: Tensor  # [batch, beam]: the column of the ending from which most of it comes

    def listed(self) -> Tensor:
        """The rows of the tensor that `BeamExpander.step` returns."""
        start_mass = self.numbers[:, START_MASS].view(torch.float64)
        back, start, end = (self.numbers[:, row] for row in (BACK_POINTER, START_FRAME, END_FRAME))
        columns = (back, self.words, start, end, self.reached / start_mass, self.depths)
        return torch.stack([column.double() for column in columns], 2).flatten(0, 1)


class BeamBuffer:
    """Views of one buffer of a BeamWorkspace: the hypotheses of its first `batch` streams.

    The columns after the beam hold the hypotheses that follow when a word ends.
    """

    def __init__(self, nodes: Tensor, numbers: Tensor, mass: Tensor, batch: int) -> None:
        beam = nodes.shape[1]
        self.nodes = nodes[:batch]
        self.flat_nodes = self.nodes.flatten()
        self.numbers = numbers[:batch]
        self.kept, self.ended = self.numbers[:, :, :beam], self.numbers[:, :, beam:]
        self.history, self.context, _, _, _, self.start, self.end, start_mass, _ = self.kept.unbind(1)
        self.start_mass = start_mass.view(torch.float64)
        self.mass = mass[:batch]
        self.total, self.in_blank = self.mass.unbind(1)

    def load(self, beams: Beams, order: Tensor) -> None:
        """Copy the beams at `order` into this buffer."""
        self.nodes.copy_(beams.nodes.index_select(0, order))
        self.kept.copy_(beams.numbers.index_select(0, order))
        self.mass.copy_(beams.mass.index_select(0, order))

    def save(self, beams: Beams, order: Tensor) -> None:
        """Copy this buffer back into the beams at `order`."""
        beams.nodes.index_copy_(0, order, self.nodes)
        beams.numbers.index_copy_(0, order, self.kept)
        beams.mass.index_copy_(0, order, self.mass)

    def copy_rows(self, other: BeamBuffer, rows: slice) -> None:
        """Copy the hypotheses of these streams from the other buffer."""
        self.nodes[rows] = other.nodes[rows]
        self.kept[rows] = other.kept[rows]
        self.mass[rows] = other.mass[rows]


class CandidateBuffer:
    """Views of the candidates for the next frame of the first `batch` streams.

    The columns in order: one to write what is dropped; hypotheses that grew by a phone (in the lexicon and, for
    streams with hotwords, in a second block for their own trie); those that stayed; those that ended a word.
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


class BeamWorkspace:
    """A double buffer for beams, and the candidates in between: each frame reads one buffer and fills the other.

    The views for each batch size are made once and kept. Making them anew would cost as much as the arithmetic.
    """

    def __init__(
        self, batch: int, beam: int, columns: int, endings: int, device: torch.device | str, tries: int = 1
    ) -> None:
        """`tries` is 1 for the lexicon alone, 2 if streams may have a trie of hotwords as well."""
        self._beam, self._columns, self._tries = beam, columns, tries
        grown = columns * beam * tries
        width, size = beam + endings, columns + grown + beam + endings

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(batch, *shape, dtype=torch.int64, device=device)

        def mass(rows: int, columns: int) -> Tensor:
            return torch.zeros(batch, rows, columns, dtype=torch.float64, device=device)

        ids = torch.arange(max(beam, endings), device=device)
        self._buffers = [(numbers(beam), numbers(NUMBERS, width), mass(MASSES, beam)) for _ in range(2)]
        # The column of the buffer from which a candidate takes its numbers, plus `width` if it grew by a phone.
        self._origin = numbers(size)
        self._origin[:, columns : columns + grown] = (ids[:beam] + width).repeat_interleave(columns).repeat(tries)
        self._origin[:, size - endings :] = ids[:endings] + beam
        self._nodes, self._mass = numbers(size), mass(MASSES, size)
        self._views: dict[int, tuple[BeamBuffer, BeamBuffer, CandidateBuffer]] = {}

    def views(self, batch: int) -> tuple[BeamBuffer, BeamBuffer, CandidateBuffer]:
        """Both buffers and the candidates for this many streams."""
        if batch not in self._views:
            one, other = (BeamBuffer(*tensors, batch) for tensors in self._buffers)
            found = CandidateBuffer(
                self._nodes, self._origin, self._mass, self._beam, self._columns, self._tries, batch
            )
            self._views[batch] = (one, other, found)
        return self._views[batch]
