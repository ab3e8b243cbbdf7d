"""How the hypotheses of a prefix beam grow by the frames of a step: the tensor side of the search.

A frame is some sixty small operations for the whole batch, without a loop over hypotheses and without a look at a
value. What is looked at once a step, on the CPU, is which frames matter to whom.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.lexicon import NOBODY, ROOT, Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.frame_reader import Frame, Reader, StepFrames
from streamer.engine.search.hotword_bonuses import HotwordBonuses
from streamer.engine.search.hotwords import Expected
from streamer.engine.search.hypotheses import (
    BACK,
    BEFORE_LAST,
    BEGUN,
    END,
    HISTORY,
    HISTORY_MIX,
    LAST,
    MASSES,
    NODE_MIX,
    NUMBERS,
    START,
    WORD_MIX,
    Beams,
    Candidates,
    Side,
    Workplace,
    mixed,
)
from streamer.engine.search.search import BLANK
from streamer.engine.search.trie_nodes import COUNT, DEPTH, FIRST, TrieNodes

# Words of one pronunciation that are told apart by the language model: the likeliest.
MOST_HOMOPHONES = 8
LEAST_HOMOPHONES = 4  # hotwords may sound alike where no other words do
_SMALLEST = 1e-250
_NOWHERE = -2  # no node has this one as its parent


@dataclass
class OpenWords:
    """The words that hypotheses could end with now: [batch, rows, homophones], worth nothing where there is none."""

    words: Tensor
    worth: Tensor
    posteriors: Tensor  # [batch, rows]: geometric mean over the phones
    whole: Tensor  # [batch, rows]: the worth of ending without such a word: nothing within one


class Prefixes:
    """Grows hypotheses by the units of a head: the lexicon's and the language model's side of the search."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, options: BeamOptions, boundary: int, units: int,
        streams: int, device: torch.device | str,
    ) -> None:  # fmt: skip
        self.options, self._language = options, language
        homophones = min(max(lexicon.homophones, LEAST_HOMOPHONES), MOST_HOMOPHONES)
        phones = torch.tensor([unit for unit in range(units) if unit not in (BLANK, boundary)], device=device)
        self._tokens = min(options.tokens, len(phones))
        looking = torch.device(device).type == "cpu"
        self._reader = Reader(
            phones,
            boundary,
            self._tokens,
            options.blank_penalty,
            options.blank_ceiling,
            options.boundary_floor,
            looking,
        )
        self._endings = min(options.endings, options.beam * homophones)
        self._width = options.beam + self._endings
        self._homophones = torch.arange(homophones, device=device)
        self._ids = torch.arange(self._width, device=device)
        self._beam_ids, self._ending_ids = self._ids[: options.beam], self._ids[: self._endings]
        self._rows = (self._beam_ids + 1) * (self._tokens + 1)  # where each hypothesis' growth begins
        self._nodes = TrieNodes(lexicon, self.worth, language.unigrams.to(device), homophones, boundary)
        self._streams, self._device = streams, device
        self._place = Workplace(streams, options.beam, self._tokens + 1, self._endings, device)
        # For those streams that have hotwords; made when the first one comes.
        self._wider_place: Workplace | None = None
        self._credits: HotwordBonuses | None = None

    def worth(self, log_probabilities: Tensor) -> Tensor:
        """What a word of this language model probability multiplies the mass of a hypothesis by."""
        return (log_probabilities.double() * self.options.language_weight + self.options.word_bonus).exp()

    def reset(self, beams: Beams) -> None:
        """Make these beams those of a segment's start: one hypothesis at the root, without words."""
        beams.nodes.fill_(ROOT)
        beams.numbers.zero_()
        # Different even where there is no mass, so that none is taken for another.
        beams.numbers[:, HISTORY] = self._beam_ids
        beams.numbers[:, BEFORE_LAST], beams.numbers[:, LAST] = self._language.start
        beams.numbers[:, BACK] = self._beam_ids
        beams.mass.zero_()
        beams.mass[:, :, 0] = 1.0
        beams.scale.zero_()
        beams.frames.zero_()

    def expect(self, slot: int, expected: Expected | None) -> None:
        """Let the stream in a slot expect these hotwords; ValueError where there is no room for them."""
        if expected is None:
            self._nodes.remove(slot)
            return
        if self._credits is None:
            self._credits = HotwordBonuses.make(self._streams, self._device)
            sizes = (self._streams, self.options.beam, self._tokens + 1, self._endings)
            self._wider_place = Workplace(*sizes, self._device, tries=2)
        root = self._nodes.put(slot, expected.trie, expected.words, expected.worth)
        self._credits.put(slot, expected.credits, root)

    def credits(self, slots: Tensor) -> HotwordBonuses | None:
        """What the hotwords of these slots earn."""
        return self._credits and self._credits.take(slots)

    def running(self, beams: Beams, rows: int, credits: HotwordBonuses | None = None) -> OpenWords:
        """The words that the first so many hypotheses could end with if the segment ended here."""
        nodes = beams.nodes[:, :rows]
        table = self._nodes.table[nodes]
        first, count, depth = table[..., FIRST:].unbind(-1)
        words = self._nodes.words[first[..., None] + self._homophones]
        worth = self._homophones < count[..., None]
        # Where no word has a rival, all that is asked for is whether there is one: saves a model's look-up a step.
        if rows > 1 or credits or not self._reader.looking or bool((count > 1).any()):
            contexts = beams.numbers[:, BEFORE_LAST : LAST + 1, :rows].transpose(1, 2)
            contexts = contexts.unsqueeze(2).expand(*words.shape, 2).flatten(1, 2)
            sources = nodes.unsqueeze(2).expand_as(words).flatten(1)
            said = words.flatten(1)
            found = self._ended_worth(contexts, said, sources, credits)
            if credits:  # nothing follows: what is lent for more is taken back
                found = found * (-credits.lent_after(contexts[:, :, 1], said)).exp()
            worth = found.view_as(words) * worth
        begun = beams.numbers[:, BEGUN, :rows].view(torch.float64)
        posteriors = (beams.total[:, :rows] / begun).pow(1 / depth.clamp(min=1))
        whole = (nodes == ROOT).double()
        if rows > 1 and self.options.end_weight:
            ends = self._end_worth(beams.numbers[:, BEFORE_LAST : LAST + 1, :rows].transpose(1, 2), words)
            whole, worth = whole * ends[..., 0], worth * ends[..., 1:]
        if credits:
            whole *= (-credits.lent_after(*beams.numbers[:, BEFORE_LAST : LAST + 1, :rows].unbind(1))).exp()
        return OpenWords(words, worth, posteriors, whole)

    def _end_worth(self, contexts: Tensor, words: Tensor) -> Tensor:
        """What a sentence's end multiplies mass by, after the two words of a context and after each of `words`."""
        contexts, words = (ids.masked_fill(ids >= len(self._language.words), 0) for ids in (contexts, words))
        followed = torch.stack((contexts[..., 1:].expand_as(words), words), 3)
        before = torch.cat((contexts.unsqueeze(2), followed), 2)
        end = torch.full_like(before[..., 0], SENTENCE_END)
        return (self._language.score(before, end).double() * self.options.end_weight).exp()

    def _ended_worth(self, contexts: Tensor, words: Tensor, sources: Tensor, credits: HotwordBonuses | None) -> Tensor:
        """What words [streams, n] multiply mass by after the two words before them, where they end at these nodes."""
        if credits is None:
            return self.worth(self._language.score(contexts, words))
        # What the language model does not know is its word 0 in a context, and has a score of its own.
        size = len(self._language.words)
        unknown = words >= size
        scores = self._language.score(contexts.masked_fill(contexts >= size, 0), words.masked_fill(unknown, 0))
        scores = scores.double().masked_fill(unknown, self.options.hotword_floor)
        gains, own = credits.gains(contexts[:, :, 0], contexts[:, :, 1], words)
        # A hotword is found in its own trie, in all its pronunciations: it must not be counted twice.
        twice = own & (sources < self._nodes.shared)
        return (scores * self.options.language_weight + self.options.word_bonus + gains).exp().masked_fill(twice, 0.0)

    def step(self, beams: Beams, log_probabilities: Tensor, credits: HotwordBonuses | None = None) -> Tensor:
        """Read a step of emissions [batch, frames, units]; returns the words that ended in it, [words, 5].

        Of each: where its history goes on (a row of the stream's beam before the step, or the size of the beam plus the
        number of another of these words), word, first frame, frame behind the last, and posterior.
        """
        emitted = self._reader.read(log_probabilities, beams.frames)
        place = self._place if credits is None else self._wider_place
        assert place is not None  # made with the first hotwords
        place.views(len(emitted.order))[0].load(beams, emitted.order)
        if credits:
            credits = credits.take(emitted.order)
        ended: list[_Ended] = []
        for number, frame in enumerate(emitted.frames):
            now, then, candidates = place.views(len(frame.times))
            if number % 2:
                now, then = then, now
            if frame.rested is not None:
                torch.where(frame.rested, now.total, now.in_blank, out=now.in_blank)
            self._grow(now, then, candidates, frame, credits and credits.first(len(frame.times)), ended)
        self._store(beams, emitted, place)
        beams.frames += log_probabilities.shape[1]
        return torch.cat([one.listed() for one in ended]) if ended else torch.zeros(0, 5, dtype=torch.float64)

    def _grow(
        self,
        now: Side,
        then: Side,
        found: Candidates,
        frame: Frame,
        credits: HotwordBonuses | None,
        ended: list[_Ended],
    ) -> None:
        """One frame: stay, grow by a phone, end a word; then the best of them."""
        batch, beam = now.nodes.shape
        rows = self._nodes.table.index_select(0, now.flat_nodes).long().view(batch, beam, -1)
        base, parent, unit, doubled, *_ = rows.unbind(2)
        waiting = now.nodes == ROOT
        torch.where(waiting, frame.times, now.start, out=now.start)
        torch.where(waiting, now.total, now.begun, out=now.begun)

        # Into a hypothesis flows what its parent, if that is in the beam too, grows by its unit. After the same phone
        # only what ends in a blank makes a new one of it.
        here = frame.probabilities.gather(1, unit)
        key = torch.add(now.history, now.nodes, alpha=NODE_MIX)
        wanted = torch.add(now.history, parent, alpha=NODE_MIX)
        keys, row = key.sort(1)
        place = torch.searchsorted(keys, wanted).clamp_(max=beam - 1)
        absent = keys.gather(1, place) != wanted
        source = row.gather(1, place)
        inflow = now.mass.flatten(1).gather(1, torch.add(source, doubled, alpha=beam)) * here
        inflow.masked_fill_(absent, 0.0)
        origin = source + self._width
        in_blank = torch.mul(now.total, frame.blank, out=found.stay_in_blank)
        stay = torch.addcmul(in_blank, now.total - now.in_blank, here)
        if frame.ending:
            ending = self._end_words(now, found, rows, waiting, frame, credits, ended)
            inflow, origin = inflow + ending.inflow, torch.where(waiting, ending.source, origin)
            ended.append(ending)
        else:
            found.ended_total.zero_()
        # Frames of the running word follow the larger part.
        torch.where(inflow > stay, origin, self._beam_ids, out=found.stay_origin)
        torch.add(stay, inflow, out=found.stay_total)
        found.stay_nodes.copy_(now.nodes)

        growing, reached, counted = now.nodes, now.total, (source + 1).masked_fill_(absent, 0)
        if credits:
            # Those that wait at the root may grow into the stream's own trie as well: a second block of candidates.
            base = torch.cat((base, credits.roots.unsqueeze(1).expand_as(base)), 1)
            growing = torch.cat((growing, growing.masked_fill(~waiting, _NOWHERE)), 1)
            reached = torch.cat((reached, reached), 1)
            first = (parent == ROOT) & (now.nodes >= self._nodes.shared) & ~absent
            counted += first * beam
        torch.add(base.unsqueeze(2), frame.units, out=found.grown_nodes)
        torch.mul(reached.unsqueeze(2), frame.likely, out=found.grown_total)
        column = frame.ranks.gather(1, unit)
        found.total.scatter_(1, column + self._rows, now.in_blank * here)
        look = self._nodes.look.index_select(0, found.flat_nodes).view(batch, -1, 2)
        rank = found.total * look[:, :, 1]
        growers = growing.shape[1]
        strange = look[:, found.grown, 0].unflatten(1, (growers, -1)) != growing.float().unsqueeze(2)
        rank[:, found.grown].unflatten(1, (growers, -1)).masked_fill_(strange, 0.0)
        # What has flown in above is not to be counted twice.
        rank.scatter_(1, torch.add(column, counted, alpha=self._tokens + 1), 0.0)

        best, chosen = rank.topk(beam)
        torch.gather(found.mass, 2, chosen.unsqueeze(1).expand(-1, MASSES, -1), out=then.mass)
        torch.gather(found.nodes, 1, chosen, out=then.nodes)
        origin = found.origin.gather(1, chosen)
        torch.gather(now.numbers, 2, (origin % self._width).unsqueeze(1).expand(-1, NUMBERS, -1), out=then.kept)
        torch.where(origin >= self._width, frame.times + 1, then.end, out=then.end)

        dead = best <= 0
        if frame.ending:
            dead = dead | (self._outdone(then) & (frame.boundary > 0) & ~dead[:, -1:])
        then.mass.masked_fill_(dead.unsqueeze(1), 0.0)
        # Those without mass must not be taken for others.
        torch.where(dead, self._beam_ids, then.history, out=then.history)

    def _outdone(self, then: Side) -> Tensor:
        """Those that a better one of the same node and the same last two words, whose future is the same, outdoes.

        They hardly ever win: where the beam is full, so that others had to go for them, their places are free again.
        Looked at where words end, which makes most of them.
        """
        future = torch.add(then.context, then.nodes, alpha=NODE_MIX)
        futures, row = future.sort(stable=True, dim=1)
        first = row.gather(1, torch.searchsorted(futures, future))
        total, blank = (then.mass.gather(2, first.unsqueeze(1).expand(-1, MASSES, -1)) - then.mass).unbind(1)
        return (first < self._beam_ids) & (blank >= 0) & (total >= blank)

    def _end_words(
        self, now: Side, found: Candidates, rows: Tensor, waiting: Tensor, frame: Frame, credits: HotwordBonuses | None,
        before: list[_Ended],
    ) -> _Ended:  # fmt: skip
        """The words that end in a frame: hypotheses at the root for the likeliest of them, the same ones merged."""
        some = len(frame.ending) < len(now.nodes)
        total, numbers, boundary, nodes = now.total, now.kept, frame.boundary, now.nodes
        if some:
            where = torch.tensor(frame.ending, device=rows.device)
            rows, total, numbers, waiting, boundary, nodes = (
                part.index_select(0, where) for part in (rows, total, numbers, waiting, boundary, nodes)
            )
            credits = credits and credits.take(where)
        batch, beam = total.shape
        places = rows[:, :, FIRST, None] + self._homophones
        guess = self._nodes.likely.index_select(0, places.flatten()).view_as(places) * total.unsqueeze(2)
        guess.masked_fill_(self._homophones >= rows[:, :, COUNT, None], 0.0)
        values, picked = guess.flatten(1).topk(self._endings)
        source = torch.div(picked, len(self._homophones), rounding_mode="floor")
        words = self._nodes.words[places.flatten(1).gather(1, picked)]
        theirs = numbers.gather(2, source.unsqueeze(1).expand(-1, NUMBERS, -1))
        contexts = theirs[:, BEFORE_LAST : LAST + 1].transpose(1, 2)
        reached = total.gather(1, source)
        worth = self._ended_worth(contexts, words, nodes.gather(1, source), credits)
        mass = (reached * boundary * worth).masked_fill_(values <= 0, 0.0)

        # Pronunciations of the same words meet here, and meet those who ended earlier and wait at the root.
        history = mixed(theirs[:, HISTORY], words)
        there = torch.where(waiting, numbers[:, HISTORY], NOBODY - self._beam_ids)
        keys, row = torch.cat((there, history), 1).sort(stable=True, dim=1)
        first = row.gather(1, torch.searchsorted(keys, history))
        merged = torch.zeros_like(keys, dtype=mass.dtype).scatter_add_(1, first, mass)
        likeliest = torch.full_like(keys, self._width).scatter_reduce_(
            1, first, (self._ending_ids + beam).expand_as(first), "amin"
        )
        offset = beam + sum(len(one.words) for one in before) * self._endings
        back = offset + torch.arange(batch * self._endings, device=rows.device).view_as(words)
        context = torch.add(words * WORD_MIX, theirs[:, LAST], alpha=HISTORY_MIX)
        begun = torch.zeros_like(words)
        ended = torch.stack((history, context, theirs[:, LAST], words, back, begun, begun, begun), 1)
        inflow, mass, likeliest = merged[:, :beam], merged[:, beam:], likeliest[:, :beam]
        if some:
            now.ended.index_copy_(0, where, ended)
            found.ended_total.zero_().index_copy_(0, where, mass)
            inflow = torch.zeros_like(now.total).index_copy_(0, where, inflow)
            likeliest = torch.zeros_like(now.nodes).index_copy_(0, where, likeliest)
        else:
            now.ended.copy_(ended)
            found.ended_total.copy_(mass)
        return _Ended(words, theirs, reached, rows[:, :, DEPTH].gather(1, source), inflow, likeliest)

    def _store(self, beams: Beams, emitted: StepFrames, place: Workplace) -> None:
        """Back from the working place: every stream from the side on which its last frame left it."""
        one, other, _ = place.views(len(emitted.order))
        sizes = [len(emitted.order), *(len(frame.times) for frame in emitted.frames), 0]
        for number, (size, more) in enumerate(itertools.pairwise(sizes)):
            if number % 2:
                one.take(other, slice(more, size))
        torch.where(emitted.resting, one.total, one.in_blank, out=one.in_blank)
        peak = one.total.amax(1, keepdim=True).clamp(min=_SMALLEST)
        one.mass.div_(peak.unsqueeze(1))
        one.begun.div_(peak)
        beams.scale.index_add_(0, emitted.order, peak.squeeze(1).log() + emitted.scale)
        one.save(beams, emitted.order)


@dataclass
class _Ended:
    """Words that ended in one frame, [streams, endings] where it says nothing else."""

    words: Tensor
    numbers: Tensor  # [streams, NUMBERS, endings]: of the hypotheses that ended
    reached: Tensor  # their mass
    depths: Tensor
    inflow: Tensor  # [batch, beam]: what flows into the hypotheses that wait at the root
    source: Tensor  # [batch, beam]: the place of the ending from which most of it comes

    def listed(self) -> Tensor:
        """As `Prefixes.step` returns them."""
        begun = self.numbers[:, BEGUN].view(torch.float64)
        posteriors = (self.reached / begun).pow(1 / self.depths)
        whole = torch.stack((self.numbers[:, BACK], self.words, self.numbers[:, START], self.numbers[:, END]), 2)
        return torch.cat((whole.double(), posteriors.unsqueeze(2)), 2).flatten(0, 1)
