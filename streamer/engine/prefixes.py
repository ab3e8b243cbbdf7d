"""The tensors of the prefix beam: the hypotheses of a batch, and how a step of emissions turns them into the next ones.

The mass of a hypothesis, the sum over all its CTC paths and pronunciations times the language model's share, is kept
linear in float64 and scaled so that the best has about one: merging is adding, and a frame is some sixty small
operations without a loop over hypotheses and without a look at a value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from streamer.engine.lexicon import NOBODY, ROOT, Lexicon
from streamer.engine.search import BLANK

if TYPE_CHECKING:
    from streamer.engine.language import LanguageModel

# Rows of `Hypotheses.numbers`: hash of the words, the last two of them, where their list is, and of the running word
# the first frame, the frame behind its last phone, and the mass with which it began (a float64 in these bits).
HISTORY, BEFORE_LAST, LAST, BACK, START, END, BEGUN = range(7)
# Rows of `Hypotheses.mass`: of the paths that end in a blank and of those that end in the last unit.
IN_BLANK, IN_UNIT = range(2)
NEVER = -1
# Odd numbers of 64 bits; their products wrap around, as a hash wants it.
_HISTORY_MIX, _WORD_MIX, _NODE_MIX = -7046029254386353131, 2685821657736338717, -4417276706812531889
_SMALLEST = 1e-300


@dataclass(frozen=True)
class BeamOptions:
    """How wide a search is and how it weighs; `search.json` of a bundle."""

    beam: int = 32  # hypotheses of a stream
    tokens: int = 8  # phones by which they may grow in a frame
    endings: int = 32  # words that may end in a frame
    language_weight: float = 1.5
    word_bonus: float = 0.0
    blank_penalty: float = 0.0
    boundary_floor: float = 1e-3  # no word ends in a frame whose boundary is less likely than this

    @classmethod
    def load(cls, path: Path | str) -> BeamOptions:
        """Read `search.json`."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"{path} has options that the search does not know: {', '.join(sorted(unknown))}")
        return cls(**values)


@dataclass
class Hypotheses:
    """The beams of some slots, the best hypothesis first; the first dimension of every tensor counts the slots."""

    nodes: Tensor  # [slots, beam]: of the lexicon's trie
    numbers: Tensor  # [slots, rows, beam]
    mass: Tensor  # [slots, 2, beam]
    scale: Tensor  # [slots]: natural log of what the mass was divided by
    frames: Tensor  # [slots]: frames read since the segment's start

    @classmethod
    def make(cls, slots: int, beam: int, device: torch.device | str) -> Hypotheses:
        """Room for so many slots; they must be reset before they are used."""
        return cls(
            nodes=torch.zeros(slots, beam, dtype=torch.int64, device=device),
            numbers=torch.zeros(slots, BEGUN + 1, beam, dtype=torch.int64, device=device),
            mass=torch.zeros(slots, IN_UNIT + 1, beam, dtype=torch.float64, device=device),
            scale=torch.zeros(slots, dtype=torch.float64, device=device),
            frames=torch.zeros(slots, dtype=torch.int64, device=device),
        )

    def take(self, slots: Tensor) -> Hypotheses:
        """The beams of these slots, copied."""
        return Hypotheses(*(tensor.index_select(0, slots) for tensor in vars(self).values()))

    def put(self, slots: Tensor, beams: Hypotheses) -> None:
        """Put beams into these slots."""
        for mine, theirs in zip(vars(self).values(), vars(beams).values(), strict=True):
            mine.index_copy_(0, slots, theirs)

    @property
    def total(self) -> Tensor:
        """The mass of each hypothesis: [slots, beam]."""
        return self.mass[:, IN_BLANK] + self.mass[:, IN_UNIT]

    @property
    def begun(self) -> Tensor:
        """The mass with which each running word began: a view, [slots, beam]."""
        return self.numbers[:, BEGUN].view(torch.float64)


@dataclass
class Running:
    """The words that hypotheses could end with now: [batch, beam, homophones], worth nothing where there is none."""

    words: Tensor
    worth: Tensor
    posteriors: Tensor  # [batch, beam]: geometric mean over the phones


class Prefixes:
    """Grows hypotheses by the units of a head: the lexicon's and the language model's side of the search."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, options: BeamOptions, boundary: int, units: int,
        device: torch.device | str,
    ) -> None:  # fmt: skip
        self.options, self._language, self._boundary = options, language, boundary
        self._phones = torch.tensor([unit for unit in range(units) if unit not in (BLANK, boundary)], device=device)
        self._tokens = min(options.tokens, len(self._phones))
        self.endings = min(options.endings, options.beam * lexicon.homophones)
        self._homophones = torch.arange(lexicon.homophones, device=device)
        self._ids = torch.arange(options.beam, device=device)
        self._earlier = torch.ones(self.endings, self.endings, dtype=torch.bool, device=device).tril(-1)
        unit, parent = lexicon.units, lexicon.parent
        doubled = (unit == unit[parent]) & (parent > ROOT)
        unit[parent == NOBODY] = boundary  # the last unit of those that wait at the root
        first, count = lexicon.first[:-1], lexicon.first.diff()
        self._table = torch.stack((lexicon.base, parent, unit, doubled.long(), first, count, _depths(parent)), 1)
        self._parent = lexicon.parent
        # What the running word will pay at least, paid in advance; nothing at the root, where perhaps nothing follows.
        self._ahead = self.worth(lexicon.look_ahead)
        import os, math
        self._ahead[ROOT] = math.exp(float(os.environ.get("ROOTLA", "0")))
        self._recombine = int(os.environ.get("RECOMB", "0"))
        self._younger = torch.ones(options.beam, options.beam, dtype=torch.bool, device=device).tril(-1)
        self._words = pad(lexicon.words, (0, lexicon.homophones))
        self._likely = self.worth(language.unigrams.to(device)[self._words])

    def worth(self, log_probabilities: Tensor) -> Tensor:
        """What a word of this language model probability multiplies the mass of a hypothesis by."""
        return (log_probabilities.double() * self.options.language_weight + self.options.word_bonus).exp()

    def reset(self, beams: Hypotheses) -> None:
        """Make these beams those of a segment's start: one hypothesis at the root, without words."""
        beams.nodes.fill_(ROOT)
        beams.numbers.zero_()
        # Different even where there is no mass, so that none is taken for another.
        beams.numbers[:, HISTORY] = self._ids
        beams.numbers[:, BEFORE_LAST], beams.numbers[:, LAST] = self._language.start
        beams.numbers[:, BACK] = self._ids
        beams.numbers[:, START] = NEVER
        beams.mass.zero_()
        beams.mass[:, IN_BLANK, 0] = 1.0
        beams.scale.zero_()
        beams.frames.zero_()

    def running(self, beams: Hypotheses, rows: int) -> Running:
        """The words that the first so many hypotheses could end with if the segment ended here."""
        table = self._table[beams.nodes[:, :rows]]
        first, count, depth = table[..., 4:].unbind(-1)
        words = self._words[first[..., None] + self._homophones]
        contexts = beams.numbers[:, BEFORE_LAST : LAST + 1, :rows].transpose(1, 2)
        scores = self._language.score(contexts.unsqueeze(2).expand(*words.shape, 2), words)
        worth = self.worth(scores) * (self._homophones < count[..., None])
        posteriors = (beams.total / beams.begun)[:, :rows].pow(1 / depth.clamp(min=1))
        return Running(words, worth, posteriors)

    def step(self, beams: Hypotheses, log_probabilities: Tensor) -> Tensor:
        """Read a step of emissions [batch, frames, units].

        Returns the words that ended in it, whether their hypotheses are still there or not: [batch, words, 5], where
        their history goes on (a row of the beam before the step, or the beam's size plus the number of an ending), word,
        first frame, frame behind the last, and posterior.
        """
        batch, frames, count = log_probabilities.shape
        device = log_probabilities.device
        scores = log_probabilities.double()
        scores[:, :, BLANK] -= self.options.blank_penalty
        probabilities = scores.exp()
        likely, places = probabilities[:, :, self._phones].topk(self._tokens)
        units = self._phones[places]
        # The column of each unit among the likely ones. One more column, nobody's, is where things are put to be lost.
        ranks = torch.full((batch, frames, count), self._tokens, device=device)
        ranks.scatter_(2, units, torch.arange(self._tokens, device=device).expand_as(units))
        likely, units = pad(likely, (0, 1)).unsqueeze(2), pad(units, (0, 1)).unsqueeze(2)
        boundary = probabilities[:, :, self._boundary, None]
        boundary = boundary * (boundary >= self.options.boundary_floor)
        times = (beams.frames[:, None] + torch.arange(frames, device=device)).unsqueeze(2)
        # On the CPU it pays to look which frames end a word at all; elsewhere looking costs more.
        ending = (boundary > 0).any(0).flatten().tolist() if device.type == "cpu" else [True] * frames
        space = _Space(batch, self.options.beam, self._tokens + 1, self.endings, device)
        scales, endings = [], []
        for frame in range(frames):
            rows = self._table.index_select(0, beams.nodes.flatten()).view(batch, -1, self._table.shape[1])
            ended = None
            if ending[frame]:
                ended = self._end_words(beams, rows, boundary[:, frame], len(endings))
                endings.append(ended.words)
            emitted = _Frame(
                probabilities[:, frame], units[:, frame], likely[:, frame], ranks[:, frame], times[:, frame]
            )
            scales.append(self._grow(beams, rows, emitted, ended, space))
        beams.scale += torch.cat(scales, 1).log().sum(1)
        beams.frames += frames
        return torch.cat(endings, 1) if endings else torch.zeros(batch, 0, 5)

    def _end_words(self, beams: Hypotheses, rows: Tensor, boundary: Tensor, before: int) -> _Ended:
        """The words that end here: hypotheses at the root for the likeliest of them, the same ones merged."""
        beam, homophones = self.options.beam, len(self._homophones)
        total = beams.total
        places = rows[:, :, 4, None] + self._homophones
        guess = self._likely.index_select(0, places.flatten()).view_as(places)
        guess = guess * (self._homophones < rows[:, :, 5, None]) * total[:, :, None]
        values, picked = guess.flatten(1).topk(self.endings)
        source = torch.div(picked, homophones, rounding_mode="floor")
        words = self._words[places.flatten(1).gather(1, picked)]
        numbers = beams.numbers.gather(2, source[:, None].expand(-1, BEGUN + 1, -1))
        scores = self._language.score(numbers[:, BEFORE_LAST : LAST + 1].transpose(1, 2), words)
        reached = total.gather(1, source)
        mass = reached * boundary * self.worth(scores) * (values > 0)
        posteriors = (reached / numbers[:, BEGUN].view(torch.float64)).pow(1 / rows[:, :, 6].gather(1, source))
        listed = torch.stack((numbers[:, BACK], words, numbers[:, START], numbers[:, END]), 2)
        listed = torch.cat((listed.double(), posteriors.unsqueeze(2)), 2)

        history = _mixed(numbers[:, HISTORY], words)
        # Pronunciations of the same words meet here, and meet those who ended earlier and wait at the root.
        waiting = torch.where(beams.nodes == ROOT, beams.numbers[:, HISTORY], NEVER - self._ids)
        same = torch.cat((history, waiting), 1).unsqueeze(2) == history.unsqueeze(1)
        flow = same * mass.unsqueeze(1)
        merged = flow.sum(2)
        repeated = (same[:, : self.endings] & self._earlier).any(2) | same[:, self.endings :].any(1)
        back = torch.arange(self.endings, device=words.device) + (beam + before * self.endings)
        never = torch.full_like(words, NEVER)
        return _Ended(
            words=listed,
            numbers=torch.stack((history, numbers[:, LAST], words, back.expand_as(words), never, never, never), 1),
            mass=merged[:, : self.endings].masked_fill(repeated, 0.0),
            into_beam=merged[:, self.endings :],
            source=flow[:, self.endings :].argmax(2),
        )

    def _grow(
        self, beams: Hypotheses, rows: Tensor, emitted: _Frame, ended: _Ended | None, space: _Space
    ) -> Tensor:
        """One frame: stay, grow by a phone, end a word; then the best of them. Returns what the mass was divided by."""
        beam = self.options.beam
        base, parent, unit = rows[:, :, 0], rows[:, :, 1], rows[:, :, 2]
        history = beams.numbers[:, HISTORY]
        in_blank, in_unit = beams.mass[:, IN_BLANK], beams.mass[:, IN_UNIT]
        total = in_blank + in_unit
        here = emitted.probabilities.gather(1, unit)

        # Into a hypothesis that is in the beam flows what its parent, if that is in the beam too, grows by its unit.
        key, wanted = (torch.add(history, node, alpha=_NODE_MIX) for node in (beams.nodes, parent))
        family = (wanted.unsqueeze(2) == key.unsqueeze(1)).double()
        found = torch.bmm(family, torch.stack((total, in_blank, self._ids.double().expand_as(total) + 1), 2))
        inflow = found.gather(2, rows[:, :, 3:4]).squeeze(2) * here
        source = found[:, :, 2].long()  # 0: nobody, 1: the first hypothesis
        stay_blank = torch.mul(total, emitted.probabilities[:, BLANK, None], out=space.stay_blank)
        stay_unit = in_unit * here
        stay = stay_blank + stay_unit
        origin = source + (beam - 1)
        if ended is not None:
            inflow = inflow + ended.into_beam
            origin = torch.where(beams.nodes == ROOT, ended.source + 2 * beam, origin)
        # Frames and the running word's begin follow the larger part.
        torch.where(inflow > stay, origin, self._ids, out=space.stay_origin)
        torch.add(stay_unit, inflow, out=space.stay_unit)
        torch.mul(stay + inflow, self._ahead.index_select(0, beams.nodes.flatten()).view_as(stay), out=space.stay_rank)
        space.stay_nodes.copy_(beams.nodes)

        children = torch.add(base.unsqueeze(2), emitted.units, out=space.grown_nodes)
        flat = children.reshape(-1)
        real = self._parent.index_select(0, flat).view_as(children) == beams.nodes.unsqueeze(2)
        # After the same phone only what ends in a blank makes a new one of it.
        again = emitted.units == unit.unsqueeze(2)
        grown = torch.where(again, in_blank.unsqueeze(2), total.unsqueeze(2)) * emitted.likely
        torch.mul(grown, real, out=space.grown_unit)
        # What was counted above as inflow is not to be counted twice.
        column = torch.add(emitted.ranks.gather(1, unit), source, alpha=self._tokens + 1)
        space.unit.scatter_(1, column, 0.0)
        torch.mul(space.grown_unit, self._ahead.index_select(0, flat).view_as(children), out=space.grown_rank)

        numbers = beams.numbers
        fresh = numbers[:, START] < 0
        grown_numbers = numbers.clone()
        grown_numbers[:, START] = torch.where(fresh, emitted.times, numbers[:, START])
        grown_numbers[:, END] = emitted.times + 1
        grown_numbers[:, BEGUN] = torch.where(fresh, total.view(torch.int64), numbers[:, BEGUN])
        if ended is None:
            rank, numbers = space.rank[:, : -self.endings], torch.cat((numbers, grown_numbers), 2)
        else:
            space.ended_unit.copy_(ended.mass)
            space.ended_rank.copy_(ended.mass * self._ahead[ROOT])
            rank, numbers = space.rank, torch.cat((numbers, grown_numbers, ended.numbers), 2)
        best, chosen = rank.topk(beam)
        beams.nodes = space.nodes.gather(1, chosen)
        origin = space.origin.gather(1, chosen).unsqueeze(1)
        beams.numbers = numbers.gather(2, origin.expand(-1, BEGUN + 1, -1))
        scale = best[:, :1].clamp(min=_SMALLEST)
        beams.mass = torch.stack((space.blank.gather(1, chosen), space.unit.gather(1, chosen)), 1) / scale.unsqueeze(1)
        beams.begun.div_(scale)
        alive = best > 0
        if self._recombine:
            future = torch.add(torch.add(beams.numbers[:, LAST] * _WORD_MIX, beams.numbers[:, BEFORE_LAST], alpha=_HISTORY_MIX), beams.nodes, alpha=_NODE_MIX)
            worse = (future.unsqueeze(2) == future.unsqueeze(1)) & self._younger
            if self._recombine == 2:
                worse &= (beams.mass[:, IN_BLANK].unsqueeze(2) <= beams.mass[:, IN_BLANK].unsqueeze(1)) & (beams.mass[:, IN_UNIT].unsqueeze(2) <= beams.mass[:, IN_UNIT].unsqueeze(1))
            alive = alive & ~worse.any(2)
            beams.mass *= alive.unsqueeze(1)
        beams.numbers[:, HISTORY] = torch.where(alive, beams.numbers[:, HISTORY], self._ids)
        return scale


@dataclass
class _Frame:
    """What one frame's emissions say."""

    probabilities: Tensor  # [batch, units]
    units: Tensor  # [batch, 1, tokens + 1]: the likeliest phones
    likely: Tensor  # [batch, 1, tokens + 1]: their probabilities, zero in the last column
    ranks: Tensor  # [batch, units]: the column of each unit, the last one for those that are not likely
    times: Tensor  # [batch, 1]


@dataclass
class _Ended:
    """The words that ended in one frame."""

    words: Tensor  # as `Prefixes.step` returns them
    numbers: Tensor  # [batch, rows, endings]: of the hypotheses that they make
    mass: Tensor  # [batch, endings]; zero for those that merged into another or into a hypothesis of the beam
    into_beam: Tensor  # [batch, beam]: what flows into the hypotheses that wait at the root
    source: Tensor  # [batch, beam]: the ending from which most of it comes


class _Space:
    """Where the candidates of a frame lie side by side: a place for what is dropped, grown, stayed, ended."""

    def __init__(self, batch: int, beam: int, columns: int, endings: int, device: torch.device) -> None:
        grown, stay, ended = columns, columns * (1 + beam), columns * (1 + beam) + beam
        size = ended + endings
        self.rank, self.unit, self.blank = torch.zeros(3, batch, size, dtype=torch.float64, device=device).unbind()
        self.nodes = torch.full((batch, size), ROOT, device=device)
        self.origin = torch.zeros(batch, size, dtype=torch.int64, device=device)
        ids = torch.arange(max(beam, endings), device=device)
        self.origin[:, grown:stay] = (ids[:beam] + beam).repeat_interleave(columns)
        self.origin[:, ended:] = ids[:endings] + 2 * beam
        self.stay_rank, self.stay_unit, self.stay_blank, self.stay_nodes, self.stay_origin = (
            tensor[:, stay:ended] for tensor in (self.rank, self.unit, self.blank, self.nodes, self.origin)
        )
        self.grown_rank, self.grown_unit, self.grown_nodes = (
            tensor[:, grown:stay].unflatten(1, (beam, columns)) for tensor in (self.rank, self.unit, self.nodes)
        )
        self.ended_rank, self.ended_unit = self.rank[:, ended:], self.unit[:, ended:]


def _mixed(history: Tensor, words: Tensor) -> Tensor:
    """The hash of a history that goes on with these words."""
    mixed = (history ^ (words * _WORD_MIX)) * _HISTORY_MIX
    return mixed ^ (mixed >> 29)


def _depths(parent: Tensor) -> Tensor:
    """How many units lead to each node."""
    depths = torch.zeros_like(parent)
    above = parent
    while bool((above != NOBODY).any()):
        depths += above != NOBODY
        above = torch.where(above > ROOT, parent[above], NOBODY)
    return depths
