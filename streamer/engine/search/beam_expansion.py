"""Expands the hypotheses of a beam by the frames of a step: the tensor side of the beam search.

A frame takes some sixty small tensor operations for the whole batch. There is no loop over hypotheses. Values
are inspected only on the CPU, once for each step, to find out which frames matter to which streams.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.lexicon import NO_NODE, ROOT, Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_tensors import (
    BACK_POINTER,
    HISTORY_HASH,
    HISTORY_MIX,
    LAST_WORD,
    MASSES,
    NODE_MIX,
    NUMBERS,
    RESCORED,
    SECOND_LAST_WORD,
    START_MASS,
    WORD_MIX,
    BeamBuffer,
    Beams,
    BeamWorkspace,
    CandidateBuffer,
    RescoredHistories,
    WordEndings,
    extend_hash,
)
from streamer.engine.search.emission_reader import BatchFrame, EmissionReader, StepFrames
from streamer.engine.search.hotwords.hotword_bonuses import HotwordBonuses
from streamer.engine.search.hotwords.hotword_compiler import CompiledHotwords
from streamer.engine.search.search import BLANK
from streamer.engine.search.trie_tables import DEPTH, FIRST_WORD, WORD_COUNT, TrieTables
from streamer.engine.work import Work

# Of words with the same pronunciation only the likeliest are considered.
MOST_HOMOPHONES = 8
LEAST_HOMOPHONES = 4  # room for hotwords that sound alike, even if no words of the lexicon do
_SMALLEST = 1e-250
_NO_PARENT = -2  # no node has this one as its parent


@dataclass
class LastWords:
    """The words with which hypotheses could end now: [batch, rows, homophones]. Worth 0 means that there is none."""

    words: Tensor
    worth: Tensor
    posteriors: Tensor  # [batch, rows]: geometric mean over the phones
    whole: Tensor  # [batch, rows]: the worth of ending with no further word; 0 in the middle of a word


class BeamExpander:
    """Expands beams step by step, with the lexicon, the language model and the hotwords of the streams."""

    def __init__(
        self, lexicon: Lexicon, language: LanguageModel, options: BeamOptions, boundary: int, units: int,
        streams: int, device: torch.device | str, first: BeamExpander | None = None,
    ) -> None:  # fmt: skip
        """`first`: that of the first pass. This one shares its tables and hotwords, and has one stream at a time."""
        self.options, self._language = options, language
        homophones = min(max(lexicon.homophones, LEAST_HOMOPHONES), MOST_HOMOPHONES)
        phones = torch.tensor([unit for unit in range(units) if unit not in (BLANK, boundary)], device=device)
        self._tokens = min(options.tokens, len(phones))
        inspecting = torch.device(device).type == "cpu"
        self._reader = EmissionReader(
            phones,
            torch.arange(self._tokens, device=device),
            boundary,
            self._tokens,
            options.blank_penalty,
            options.blank_ceiling,
            options.boundary_floor,
            inspecting,
        )
        self._endings = min(options.endings, options.beam * homophones)
        self._width = options.beam + self._endings
        self._homophones = torch.arange(homophones, device=device)
        self._ids = torch.arange(self._width, device=device)
        self._beam_ids, self._ending_ids = self._ids[: options.beam], self._ids[: self._endings]
        # The first column of each hypothesis among the grown candidates.
        self._rows = (self._beam_ids + 1) * (self._tokens + 1)
        self._device = device
        self._nodes: TrieTables
        self._bonuses: HotwordBonuses
        if first:
            self._nodes, self._bonuses = first._nodes, first._bonuses
        else:
            self._nodes = TrieTables(lexicon, self.worth, language.unigrams.to(device), homophones, boundary, streams)
            self._bonuses = HotwordBonuses.make(streams, device)
        sizes = (1 if first else streams, options.beam, self._tokens + 1, self._endings)
        self._workspace = BeamWorkspace(*sizes, device)
        # For streams with hotwords.
        self._hotword_workspace = BeamWorkspace(*sizes, device, tries=2)

    def worth(self, log_probabilities: Tensor) -> Tensor:
        """The factor by which a word of this language model probability multiplies the mass of a hypothesis."""
        return (log_probabilities.double() * self.options.language_weight + self.options.word_bonus).exp()

    def reset(self, beams: Beams) -> None:
        """Set these beams to the start of a segment: one hypothesis at the root, without words."""
        beams.nodes.fill_(ROOT)
        beams.numbers.zero_()
        # Hypotheses without mass get different hashes too, so that they are never merged.
        beams.numbers[:, HISTORY_HASH] = self._beam_ids
        beams.numbers[:, SECOND_LAST_WORD], beams.numbers[:, LAST_WORD] = self._language.start
        beams.numbers[:, BACK_POINTER] = self._beam_ids
        beams.mass.zero_()
        beams.mass[:, :, 0] = 1.0
        beams.scale.zero_()
        beams.frames.zero_()

    def set_hotwords(self, slot: int, hotwords: CompiledHotwords | None) -> Work[None]:
        """Set the hotwords of the stream in a slot. NotNow if there is no room for them."""
        if hotwords is None:
            self._nodes.remove(slot)
            return
        root = yield from self._nodes.put(slot, hotwords.trie, hotwords.words, hotwords.worth)
        yield from self._bonuses.put(slot, hotwords.bonuses, root)

    def bonuses(self, slots: Tensor) -> HotwordBonuses:
        """The hotword bonuses of these slots."""
        return self._bonuses.take(slots)

    def rescore(self, beams: Beams, gains: Tensor) -> Tensor:
        """Let each hypothesis [slots, beam] have this gain by rescoring. Returns the former places of the rows."""
        return beams.rescore(gains, self._look_ahead(beams))

    def ranks(self, beams: Beams) -> Tensor:
        """What decides which hypotheses are kept [slots, beam]: the mass of each, times its look-ahead."""
        return beams.total * self._look_ahead(beams)

    def _look_ahead(self, beams: Beams) -> Tensor:
        return self._nodes.ahead[beams.nodes]

    def ends_no_word(self, nodes: Sequence[int]) -> bool:
        """Whether no word could end at any of these nodes of the trie. Not known without a wait on some devices."""
        return self._reader.inspecting and not self._nodes.table.numpy()[nodes, WORD_COUNT].any()

    def last_words(self, beams: Beams, rows: int, bonuses: HotwordBonuses | None = None) -> LastWords:
        """The words with which the first `rows` hypotheses could end if the segment ended here."""
        nodes = beams.nodes[:, :rows]
        table = self._nodes.table[nodes]
        first, count, depth = table[..., FIRST_WORD:].unbind(-1)
        words = self._nodes.words[first[..., None] + self._homophones]
        there = self._homophones < count[..., None]
        worth, whole = there.double(), (nodes == ROOT).double()
        contexts = beams.numbers[:, SECOND_LAST_WORD : LAST_WORD + 1, :rows].transpose(1, 2)
        ending = rows > 1 and bool(self.options.end_weight)
        # If no word has a homophone, any worth above 0 will do. That saves a language model look-up in each step.
        if rows > 1 or bonuses or not self._reader.inspecting or bool((count > 1).any()):
            columns = self._columns(there)
            row = torch.div(columns, len(self._homophones), rounding_mode="floor")
            before, said = contexts[:, row], words.flatten(1)[:, columns]
            found = self._word_worth(before, said, nodes[:, row], bonuses)
            if bonuses:  # nothing follows, so take back what was lent for unfinished phrases
                found = found * (-bonuses.lent_after(before[:, :, 1], said)).exp()
            if ending:
                found = found * self._sentence_end_worth(torch.stack((before[:, :, 1], said), 2))
            worth = worth * torch.zeros_like(worth).flatten(1).index_copy_(1, columns, found).view_as(worth)
        if ending:
            whole = whole * self._sentence_end_worth(contexts)
        if bonuses:
            whole = whole * (-bonuses.lent_after(*contexts.unbind(2))).exp()
        start_mass = beams.numbers[:, START_MASS, :rows].view(torch.float64)
        posteriors = (beams.total[:, :rows] / start_mass).pow(1 / depth.clamp(min=1))
        return LastWords(words, worth, posteriors, whole)

    def _columns(self, there: Tensor) -> Tensor:
        """The numbers of the homophones [batch, rows, homophones] that at least one stream has.

        Most rows have none or one. On a device where it takes a wait to find out, all of them.
        """
        columns = there.flatten(1)
        if self._reader.inspecting:
            return columns.any(0).nonzero().squeeze(1)
        return torch.arange(columns.shape[1], device=self._device)

    def _sentence_end_worth(self, contexts: Tensor) -> Tensor:
        """The factors for the end of the sentence after these contexts [..., 2]."""
        known = contexts.masked_fill(contexts >= len(self._language.words), 0)
        end = torch.full_like(known[..., 0], SENTENCE_END)
        return (self._language.score(known, end).double() * self.options.end_weight).exp()

    def _word_worth(self, contexts: Tensor, words: Tensor, sources: Tensor, bonuses: HotwordBonuses | None) -> Tensor:
        """The factors for words [streams, n] that follow these contexts and end at these nodes of the trie."""
        if bonuses is None:
            return self.worth(self._language.score(contexts, words))
        # In a context an unknown word is word 0 of the language model. As a word it gets a score of its own.
        size = len(self._language.words)
        unknown = words >= size
        scores = self._language.score(contexts.masked_fill(contexts >= size, 0), words.masked_fill(unknown, 0))
        scores = scores.double().masked_fill(unknown, self.options.hotword_floor)
        gains, own = bonuses.gains(contexts[:, :, 0], contexts[:, :, 1], words)
        # The stream's own trie has all pronunciations of a hotword, so those in the lexicon would count twice.
        twice = own & (sources < self._nodes.shared)
        return (scores * self.options.language_weight + self.options.word_bonus + gains).exp().masked_fill(twice, 0.0)

    def step(
        self, beams: Beams, log_probabilities: Tensor, bonuses: HotwordBonuses | None = None, rescored: bool = False
    ) -> Tensor:
        """Read a step of emissions [batch, frames, units]. Returns the words that ended in it as a tensor [words, 6].

        The columns: the history before the word (a row of the stream's beam before the step, or the size of the beam
        plus the row of another of these words), the word, its first frame, the frame after its last, the probability
        of its phones, and how many it has.
        `rescored` says that the words of the beams were rescored where the steps before this one ended.
        """
        emitted = self._reader.read(log_probabilities, beams.frames)
        workspace = self._workspace if bonuses is None else self._hotword_workspace
        workspace.views(len(emitted.order))[0].load(beams, emitted.order)
        if bonuses:
            bonuses = bonuses.take(emitted.order)
        before = RescoredHistories.of(beams, emitted.order) if rescored else None
        ended: list[WordEndings] = []
        for number, frame in enumerate(emitted.frames):
            now, then, candidates = workspace.views(len(frame.times))
            if number % 2:
                now, then = then, now
            if frame.after_blanks is not None:
                torch.where(frame.after_blanks, now.total, now.in_blank, out=now.in_blank)
            self._grow(now, then, candidates, frame, bonuses and bonuses.first(len(frame.times)), before, ended)
        self._store(beams, emitted, workspace)
        beams.frames += log_probabilities.shape[1]
        return torch.cat([one.listed() for one in ended]) if ended else torch.zeros(0, 6, dtype=torch.float64)

    def _grow(
        self,
        now: BeamBuffer,
        then: BeamBuffer,
        found: CandidateBuffer,
        frame: BatchFrame,
        bonuses: HotwordBonuses | None,
        rescored: RescoredHistories | None,
        ended: list[WordEndings],
    ) -> None:
        """Expand by one frame: collect candidates that stay, grow by a phone or end a word, and keep the best."""
        batch, beam = now.nodes.shape
        rows = self._nodes.table.index_select(0, now.flat_nodes).long().view(batch, beam, -1)
        base, parent, unit, doubled, *_ = rows.unbind(2)
        at_root = now.nodes == ROOT
        torch.where(at_root, frame.times, now.start, out=now.start)
        torch.where(at_root, now.total, now.start_mass, out=now.start_mass)

        # If the parent of a hypothesis is in the beam too, what it grows by this unit flows into the hypothesis. After
        # the same phone only paths that end in a blank do: the others merely prolong the phone of the parent.
        here = frame.probabilities.gather(1, unit)
        key = torch.add(now.history, now.nodes, alpha=NODE_MIX)
        wanted = torch.add(now.history, parent, alpha=NODE_MIX)
        keys, row = key.sort(1)
        index = torch.searchsorted(keys, wanted).clamp_(max=beam - 1)
        absent = keys.gather(1, index) != wanted
        source = row.gather(1, index)
        inflow = now.mass.flatten(1).gather(1, torch.add(source, doubled, alpha=beam)) * here
        inflow.masked_fill_(absent, 0.0)
        origin = source + self._width
        in_blank = torch.mul(now.total, frame.blank, out=found.stay_in_blank)
        stay = torch.addcmul(in_blank, now.total - now.in_blank, here)
        if frame.ending:
            ending = self._end_words(now, found, rows, at_root, frame, bonuses, rescored, ended)
            inflow, origin = inflow + ending.inflow, torch.where(at_root, ending.source, origin)
            ended.append(ending)
        else:
            found.ended_total.zero_()
        # The frames of the running word are those of the larger part.
        torch.where(inflow > stay, origin, self._beam_ids, out=found.stay_origin)
        torch.add(stay, inflow, out=found.stay_total)
        found.stay_nodes.copy_(now.nodes)

        growing, reached, counted = now.nodes, now.total, (source + 1).masked_fill_(absent, 0)
        if bonuses:
            # From the root a hypothesis may also grow into the stream's own trie: a second block of candidates.
            base = torch.cat((base, bonuses.roots.unsqueeze(1).expand_as(base)), 1)
            growing = torch.cat((growing, growing.masked_fill(~at_root, _NO_PARENT)), 1)
            reached = torch.cat((reached, reached), 1)
            first = (parent == ROOT) & (now.nodes >= self._nodes.shared) & ~absent
            counted += first * beam
        torch.add(base.unsqueeze(2), frame.units, out=found.grown_nodes)
        torch.mul(reached.unsqueeze(2), frame.likely, out=found.grown_total)
        column = frame.ranks.gather(1, unit)
        found.total.scatter_(1, column + self._rows, now.in_blank * here)
        rank = found.total * self._nodes.ahead.index_select(0, found.flat_nodes).view(batch, -1)
        parents = self._nodes.parents.index_select(0, found.flat_nodes).view(batch, -1)[:, found.grown]
        growers = growing.shape[1]
        strange = parents.unflatten(1, (growers, -1)) != growing.int().unsqueeze(2)
        rank[:, found.grown].unflatten(1, (growers, -1)).masked_fill_(strange, 0.0)
        # Do not count the mass again that has flowed into another hypothesis above.
        rank.scatter_(1, torch.add(column, counted, alpha=self._tokens + 1), 0.0)

        best, chosen = rank.topk(beam)
        torch.gather(found.mass, 2, chosen.unsqueeze(1).expand(-1, MASSES, -1), out=then.mass)
        torch.gather(found.nodes, 1, chosen, out=then.nodes)
        origin = found.origin.gather(1, chosen)
        torch.gather(now.numbers, 2, (origin % self._width).unsqueeze(1).expand(-1, NUMBERS, -1), out=then.kept)
        torch.where(origin >= self._width, frame.times + 1, then.end, out=then.end)

        dead = best <= 0
        if frame.ending:
            dead = dead | (self._redundant(then) & (frame.boundary > 0) & ~dead[:, -1:])
        then.mass.masked_fill_(dead.unsqueeze(1), 0.0)
        # Hypotheses without mass must not be merged with others.
        torch.where(dead, self._beam_ids, then.history, out=then.history)

    def _redundant(self, then: BeamBuffer) -> Tensor:
        """Which hypotheses have a better one at the same node with the same last two words.

        Both have the same future, so the worse one hardly ever wins. If the beam is full, its row is freed for
        others. This is checked where words end, because most of these hypotheses arise there.
        """
        future = torch.add(then.context, then.nodes, alpha=NODE_MIX)
        futures, row = future.sort(stable=True, dim=1)
        # In order, because a sorted search takes half the time.
        first = torch.empty_like(row).scatter_(1, row, row.gather(1, torch.searchsorted(futures, futures)))
        total, blank = (then.mass.gather(2, first.unsqueeze(1).expand(-1, MASSES, -1)) - then.mass).unbind(1)
        return (first < self._beam_ids) & (blank >= 0) & (total >= blank)

    def _end_words(
        self, now: BeamBuffer, found: CandidateBuffer, rows: Tensor, at_root: Tensor, frame: BatchFrame,
        bonuses: HotwordBonuses | None, rescored: RescoredHistories | None, before: list[WordEndings],
    ) -> WordEndings:  # fmt: skip
        """Add a hypothesis at the root for each of the likeliest words that end in this frame; merge equal ones."""
        some = len(frame.ending) < len(now.nodes)
        total, numbers, boundary, nodes = now.total, now.kept, frame.boundary, now.nodes
        if some:
            where = torch.tensor(frame.ending, device=rows.device)
            rows, total, numbers, at_root, boundary, nodes = (
                part.index_select(0, where) for part in (rows, total, numbers, at_root, boundary, nodes)
            )
            bonuses = bonuses and bonuses.take(where)
        batch, beam = total.shape
        indices = rows[:, :, FIRST_WORD, None] + self._homophones
        # Overlapping rows of the table, so the homophones of a node are copied at once.
        likely = self._nodes.likely.unfold(0, len(self._homophones), 1).index_select(0, indices[:, :, 0].flatten())
        guess = likely.view_as(indices) * total.unsqueeze(2)
        guess.masked_fill_(self._homophones >= rows[:, :, WORD_COUNT, None], 0.0)
        values, picked = guess.flatten(1).topk(self._endings)
        source = torch.div(picked, len(self._homophones), rounding_mode="floor")
        words = self._nodes.words[indices.flatten(1).gather(1, picked)]
        theirs = numbers.gather(2, source.unsqueeze(1).expand(-1, NUMBERS, -1))
        contexts = theirs[:, SECOND_LAST_WORD : LAST_WORD + 1].transpose(1, 2)
        reached = total.gather(1, source)
        worth = self._word_worth(contexts, words, nodes.gather(1, source), bonuses)
        mass = (reached * boundary * worth).masked_fill_(values <= 0, 0.0)

        # Merge pronunciations of the same words, and merge them into hypotheses that already wait at the root.
        history = extend_hash(theirs[:, HISTORY_HASH], words)
        gains = theirs[:, RESCORED]
        if rescored:
            former = gains.view(torch.float64)
            again = rescored.take(torch.tensor(frame.ending, device=rows.device)).gains_of(history, former)
            gains = again.view(torch.int64)
            mass.mul_((again - former).exp_())
        there = torch.where(at_root, numbers[:, HISTORY_HASH], NO_NODE - self._beam_ids)
        keys, row = torch.cat((there, history), 1).sort(stable=True, dim=1)
        first = row.gather(1, torch.searchsorted(keys, history))
        merged = torch.zeros_like(keys, dtype=mass.dtype).scatter_add_(1, first, mass)
        likeliest = torch.full_like(keys, self._width).scatter_reduce_(
            1, first, (self._ending_ids + beam).expand_as(first), "amin"
        )
        offset = beam + sum(len(one.words) for one in before) * self._endings
        back = offset + torch.arange(batch * self._endings, device=rows.device).view_as(words)
        context = torch.add(words * WORD_MIX, theirs[:, LAST_WORD], alpha=HISTORY_MIX)
        start_mass = torch.zeros_like(words)
        ended = torch.stack(
            (history, context, theirs[:, LAST_WORD], words, back, start_mass, start_mass, start_mass, gains), 1
        )
        inflow, mass, likeliest = merged[:, :beam], merged[:, beam:], likeliest[:, :beam]
        if some:
            now.ended.index_copy_(0, where, ended)
            found.ended_total.zero_().index_copy_(0, where, mass)
            inflow = torch.zeros_like(now.total).index_copy_(0, where, inflow)
            likeliest = torch.zeros_like(now.nodes).index_copy_(0, where, likeliest)
        else:
            now.ended.copy_(ended)
            found.ended_total.copy_(mass)
        return WordEndings(words, theirs, reached, rows[:, :, DEPTH].gather(1, source), inflow, likeliest)

    def _store(self, beams: Beams, emitted: StepFrames, workspace: BeamWorkspace) -> None:
        """Copy the workspace back into the beams. How many frames a stream had says which buffer is current."""
        one, other, _ = workspace.views(len(emitted.order))
        sizes = [len(emitted.order), *(len(frame.times) for frame in emitted.frames), 0]
        for number, (size, more) in enumerate(itertools.pairwise(sizes)):
            if number % 2:
                one.copy_rows(other, slice(more, size))
        torch.where(emitted.ends_in_blanks, one.total, one.in_blank, out=one.in_blank)
        peak = one.total.amax(1, keepdim=True).clamp(min=_SMALLEST)
        one.mass.div_(peak.unsqueeze(1))
        one.start_mass.div_(peak)
        beams.scale.index_add_(0, emitted.order, peak.squeeze(1).log() + emitted.scale)
        one.save(beams, emitted.order)
