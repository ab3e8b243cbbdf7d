"""The loops of the prefix beam search. They read a step of emissions, and grow the hypotheses of a slot frame by frame.

They are compiled (`compiled_loop.py`). A hypothesis has the fields of `HYPOTHESIS`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled_loops import compiled_loop, inlined_loop
from streamer.engine.language.language_model import SENTENCE_END
from streamer.engine.language.lexicon import (
    BASE,
    DEPTH,
    DOUBLED,
    FIRST_WORD,
    PARENT,
    ROOT,
    UNIT,
    WORD_COUNT,
    TrieArrays,
)
from streamer.engine.language.ngram_loops import LanguageArrays, score
from streamer.engine.search.beams import HYPOTHESIS, Records
from streamer.engine.search.search import BLANK

_SMALLEST, _SMALL = 1e-250, 1e-100  # masses are scaled when the greatest is smaller than _SMALL


class Rules(NamedTuple):
    """The thresholds and weights of `BeamOptions` for the loops."""

    tokens: int
    endings: int
    homophones: int
    boundary: int  # the unit between words
    language_weight: float
    word_bonus: float
    end_weight: float
    blank_penalty: float
    blank_ceiling: float
    boundary_floor: float
    hotword_floor: float


class RecentWorths(NamedTuple):
    """The worth of words that ended lately [slots, entries]: a word ends in several frames, and in many hypotheses."""

    keys: NDArray[np.int64]  # one more than the number of the word and the two before it; 0 if there is none
    worth: NDArray[np.float64]


class Tables(NamedTuple):
    """The tables that all streams share, and the hotwords of each slot."""

    trie: TrieArrays
    language: LanguageArrays
    bonuses: BonusArrays
    recent: RecentWorths


_CANDIDATE = np.dtype(
    [
        ("total", np.float64),
        ("in_blank", np.float64),
        ("node", np.int32),
        ("source", np.int32),  # the row of the hypothesis with the same words
        ("grew", np.bool_),  # whether it has one phone more
    ],
    align=True,
)
"""A candidate for a hypothesis after a frame."""


class _Ranking(NamedTuple):
    """The ranks of the candidates of a frame, and how many of them are in each bucket (see `best_of`)."""

    ranks: NDArray[np.float64]  # the mass of each candidate, times the look-ahead of its node
    bits: NDArray[np.int64]  # the same memory as whole numbers
    sizes: NDArray[np.int64]  # [buckets]


class _Step(NamedTuple):
    """The inputs and outputs of a step that all its frames share."""

    tables: Tables
    rules: Rules
    slot: int
    former: NDArray[np.int64]  # an index of the histories that were rescored before the step
    gains: NDArray[np.float64]  # the gain of each of these histories
    candidates: Records
    ranking: _Ranking
    records: Records  # the words that ended in the step


# Values are ranked by their first bits, because positive numbers are sorted like their bits. There are eight buckets
# for each power of two. The first one also has what is greater, and the last one all that is less.
_BUCKETS, _BUCKET_SHIFT = 1024, 49
_MOST_INSERTED = 32  # a bucket with more values is sorted in another way


@inlined_loop
def _bucket(first: int, bits: int) -> int:
    """Return the bucket of a value with these bits, if those of the greatest value begin with `first`."""
    return min(max(first - (bits >> _BUCKET_SHIFT), 0), _BUCKETS - 1)


@inlined_loop
def word_worth(tables: Tables, rules: Rules, slot: int, hypothesis: Any, word: int) -> float:
    """Return the factor of a word that ends here in the mass of the hypothesis."""
    language, bonuses = tables.language, tables.bonuses
    older, last = hypothesis.older, hypothesis.last
    if bonuses.roots[slot] == 0:
        key = (np.int64(older) * language.words + last) * language.words + word + 1
        keys, worth = tables.recent.keys[slot], tables.recent.worth[slot]
        place = ((key * _OTHER_MIX) >> 32) & (len(keys) - 1)
        if keys[place] != key:
            keys[place] = key
            worth[place] = math.exp(score(language, older, last, word) * rules.language_weight + rules.word_bonus)
        return worth[place]
    # The trie of the stream has all pronunciations of a hotword, so those in the lexicon would count twice.
    if hypothesis.node < tables.trie.shared and is_own(bonuses, slot, word):
        return 0.0
    # In a context, an unknown word is word 0 of the language model. As the next word, it gets a score of its own.
    if word < language.words:
        chance = score(language, older if older < language.words else 0, last if last < language.words else 0, word)
    else:
        chance = rules.hotword_floor
    bonus = gain_of(bonuses, slot, older, last, word)
    return math.exp(chance * rules.language_weight + rules.word_bonus + bonus)


@inlined_loop
def end_worth(tables: Tables, rules: Rules, slot: int, older: int, last: int, sentence: bool) -> float:
    """Return the factor of the end after these words. `sentence`: it includes the end of the sentence."""
    words, log_worth = tables.language.words, 0.0
    if sentence and rules.end_weight:
        context = older if older < words else 0, last if last < words else 0
        log_worth += score(tables.language, context[0], context[1], SENTENCE_END) * rules.end_weight
    if tables.bonuses.roots[slot]:  # nothing follows, so the bonuses that were lent for incomplete phrases go
        log_worth -= lent_after(tables.bonuses, slot, older, last)
    return math.exp(log_worth)


@compiled_loop
def last_words(
    tables: Tables,
    rules: Rules,
    slot: int,
    rows: Any,
    sentence: bool,
    words: NDArray[np.int64],
    worth: NDArray[np.float64],
    posteriors: NDArray[np.float64],
    whole: NDArray[np.float64],
) -> None:
    """Find the words with which these hypotheses could end, if the segment ended here.

    Write the words [rows, homophones] and their worth, which is 0 where there is no word; the geometric mean over the
    phones of each row; and for each row the worth of ending with no further word, which is 0 in the middle of a word.
    """
    trie = tables.trie
    for row in range(len(rows)):
        one = rows[row]
        if one.total <= 0:
            continue
        if one.node == ROOT:
            whole[row] = end_worth(tables, rules, slot, one.older, one.last, sentence)
        place = trie.table[one.node, FIRST_WORD]
        for number in range(trie.table[one.node, WORD_COUNT]):
            word = trie.words[place + number]
            words[row, number] = word
            worth[row, number] = word_worth(tables, rules, slot, one, word)
            worth[row, number] *= end_worth(tables, rules, slot, one.last, word, sentence)
        if one.start_mass > 0:
            posteriors[row] = (one.total / one.start_mass) ** (1 / max(1, trie.table[one.node, DEPTH]))


class _Flow(NamedTuple):
    """Where the hypotheses of a frame may grow, and what flows into them from others [rows]."""

    units: NDArray[np.int64]  # the last unit of each hypothesis
    free: NDArray[np.int64]  # the units of children that are not in the beam, as bits
    into_own: NDArray[np.int64]  # at the root: those of children in the trie of the stream that are, as bits
    mass: NDArray[np.float64]
    origin: NDArray[np.int64]  # the row from which most of it comes; the row itself if none does


@inlined_loop
def _add(
    candidates: Any,
    ranking: _Ranking,
    number: int,
    first: int,
    least: int,
    node: int,
    total: float,
    in_blank: float,
    source: int,
    grew: bool,
) -> int:
    """Add a candidate whose rank is written already, unless it is too low. Return the number of candidates."""
    bits = ranking.bits[number]
    if bits < least:
        return number
    ranking.sizes[_bucket(first, bits)] += 1
    one = candidates[number]
    one.total, one.in_blank, one.node, one.source, one.grew = total, in_blank, node, source, grew
    return number + 1


@compiled_loop
def _likeliest(probabilities: NDArray[np.float64], rules: Rules) -> NDArray[np.int64]:
    """Return the likeliest phones of a frame."""
    most, number = min(rules.tokens, len(probabilities) - 2), 0
    likely = np.empty(most + 1, np.int64)
    for phone in range(len(probabilities)):
        if phone in (BLANK, rules.boundary):
            continue
        place = number
        while place and probabilities[likely[place - 1]] < probabilities[phone]:
            likely[place] = likely[place - 1]
            place -= 1
        likely[place] = phone
        number = min(number + 1, most)
    return likely[:number]


@compiled_loop
def _end_words(
    step: _Step,
    now: Any,
    alive: int,
    probability: float,
    index: NDArray[np.int64],
    flow: _Flow,
    count: int,
) -> tuple[int, int]:
    """Let the likeliest words end, with this probability of a boundary. Merge equal results.

    The new hypotheses at the root are written after the beam. If the beam already has such a hypothesis, the mass flows
    into it. Return how many were written, and how many words have ended in the step.
    """
    tables, rules, before_step, gains, beam = step.tables, step.rules, step.former, step.gains, len(step.gains)
    table, likely, words = tables.trie.table, tables.trie.likely, tables.trie.words
    guesses = np.empty(alive * rules.homophones)
    rows, places = np.empty(len(guesses), np.int64), np.empty(len(guesses), np.int64)
    number = 0
    for row in range(alive):
        node = now[row].node
        for place in range(table[node, WORD_COUNT]):
            rows[number], places[number] = row, table[node, FIRST_WORD] + place
            guesses[number] = now[row].total * likely[places[number]]
            number += 1
    written = 0
    for guess in best_of(guesses[:number], rules.endings):
        one, word = now[rows[guess]], words[places[guess]]
        mass = one.total * probability * word_worth(tables, rules, step.slot, one, word)
        history, gain = extend_hash(one.history, word), one.gain
        place_before = find(before_step, history, 0)
        if place_before != NOBODY:  # the beam before the step had this history, and it was rescored
            gain = gains[place_before]
            mass *= math.exp(gain - one.gain)
        if mass <= 0:
            continue
        existing = find(index, history, ROOT)
        if existing >= beam:
            now[existing].total += mass
            continue
        if existing != NOBODY:
            flow.mass[existing] += mass
            if flow.origin[existing] != existing:
                continue
            flow.origin[existing] = beam + written
        new = now[beam + written]
        new.history, new.node, new.older, new.last, new.back = history, ROOT, one.last, word, beam + count
        new.start, new.end, new.start_mass, new.gain, new.in_blank = 0, 0, 0.0, gain, 0.0
        new.total = 0.0 if existing != NOBODY else mass
        if existing == NOBODY:
            put(index, beam + written, history, ROOT)
        record = step.records[count]
        record.before, record.word, record.start, record.end = one.back, word, one.start, one.end
        record.phones, record.probability = table[one.node, DEPTH], one.total / one.start_mass
        written, count = written + 1, count + 1
    return written, count


@compiled_loop
def _grow(
    step: _Step, now: Any, alive: int, then: Any, frame: int, probabilities: NDArray[np.float64], count: int
) -> tuple[int, int]:
    """Read a frame. Return the number of living hypotheses, and how many words have ended in the step."""
    trie, beam = step.tables.trie, len(step.gains)
    if not alive:
        return 0, count
    # These numbers are read first, because the processor then waits for many of them at once.
    parents, units, free = np.empty(beam, np.int64), np.empty(beam, np.int64), np.empty(beam, np.int64)
    for row in range(alive):
        node = now[row].node
        parents[row], units[row], free[row] = trie.table[node, PARENT], trie.table[node, UNIT], trie.children[node]
    index = index_for(len(now))
    for row in range(alive):
        one = now[row]
        if one.node == ROOT:
            one.start, one.start_mass = frame, one.total
        put(index, row, one.history, one.node)

    # If the parent of a hypothesis is also in the beam, the mass with which it grows by this unit flows into the
    # hypothesis. If the parent has the same phone, only its paths that end in a blank grow: the others merely prolong
    # the phone of the parent.
    flow = _Flow(units, free, np.zeros(beam, np.int64), np.zeros(beam), np.arange(beam))
    for row in range(alive):
        one = now[row]
        if one.node == ROOT:
            continue
        parent, unit = parents[row], units[row]
        source = find(index, one.history, parent)
        if source == NOBODY:
            continue
        mass = now[source].in_blank if trie.table[one.node, DOUBLED] else now[source].total
        flow.mass[row], flow.origin[row] = mass * probabilities[unit], source
        if parent == ROOT and one.node >= trie.shared:
            flow.into_own[source] |= 1 << unit
        else:
            free[source] &= ~(1 << unit)

    written, boundary = 0, probabilities[step.rules.boundary]
    ending = boundary >= step.rules.boundary_floor
    if ending:
        written, count = _end_words(step, now, alive, boundary, index, flow, count)
    best = _best_candidates(step, now, alive, written, probabilities, flow)
    return _keep(now, then, step.candidates, best, beam, frame, ending), count


@compiled_loop
def _best_candidates(
    step: _Step, now: Any, alive: int, written: int, probabilities: NDArray[np.float64], flow: _Flow
) -> NDArray[np.int64]:
    """Write the candidates after a frame, and return the best of them, the best first.

    Those that cannot be among the best are not written. For this, candidates are counted in buckets by their ranks:
    whoever is in the bucket `last` or after it has enough better ones before it. `least` has the bits of the lowest
    rank that is before it.
    """
    table, ahead, candidates, ranking = step.tables.trie.table, step.tables.trie.ahead, step.candidates, step.ranking
    ranks, bits, sizes = ranking
    root, beam = step.tables.bonuses.roots[step.slot], len(step.gains)
    number, last, least = 0, _BUCKETS, np.int64(1)
    sizes[:] = 0
    ranks[0] = now[0].total * ahead[now[0].node]
    first = bits[0] >> _BUCKET_SHIFT
    for row in range(alive):
        one = now[row]
        in_blank = one.total * probabilities[BLANK]
        stay = in_blank + (one.total - one.in_blank) * probabilities[flow.units[row]]
        # The frames of the running word come from the part with the greater mass.
        source = flow.origin[row] if flow.mass[row] > stay else row
        total = stay + flow.mass[row]
        ranks[number] = total * ahead[one.node]
        number = _add(candidates, ranking, number, first, least, one.node, total, in_blank, source, source != row)
    for row in range(beam, beam + written):
        ranks[number] = now[row].total * ahead[ROOT]
        number = _add(candidates, ranking, number, first, least, ROOT, now[row].total, 0.0, row, False)
    likely, before = _likeliest(probabilities, step.rules), number
    chosen = np.empty(len(likely) + 1, np.int64)
    for row in range(alive):
        while before - sizes[last - 1] >= beam:
            last -= 1
            before -= sizes[last]
            least = (first - last + 1) << _BUCKET_SHIFT
        one, count, choices = now[row], number, 0
        greatest, free = ahead[one.node], flow.free[row]
        for phone in likely:
            # No child has a greater look-ahead than its parent, and the phones after this one are less likely.
            ranks[number] = one.total * probabilities[phone] * greatest
            if bits[number] < least:
                break
            chosen[choices] = phone
            choices += (free >> phone) & 1
        base, unit = table[one.node, BASE], flow.units[row]
        for choice in range(choices):
            phone = chosen[choice]
            total = (one.in_blank if phone == unit else one.total) * probabilities[phone]
            ranks[number] = total * ahead[base + phone]
            number = _add(candidates, ranking, number, first, least, base + phone, total, 0.0, row, True)
        # From the root, a hypothesis may also grow into the trie of the stream.
        if root and one.node == ROOT:
            for phone in likely:
                if table[root + phone, PARENT] == ROOT and not (flow.into_own[row] >> phone) & 1:
                    total = one.total * probabilities[phone]
                    ranks[number] = total * ahead[root + phone]
                    number = _add(candidates, ranking, number, first, least, root + phone, total, 0.0, row, True)
        before += number - count
    return _best_counted(ranking, number, first, beam)


@compiled_loop
def _keep(now: Any, then: Any, candidates: Any, best: NDArray[np.int64], beam: int, frame: int, ending: bool) -> int:
    """Make hypotheses of the best candidates. Return their number."""
    # Two hypotheses at the same node with the same last two words have the same future, so the worse one hardly ever
    # wins. If the beam is full, it is dropped to make room for others. Most such pairs arise where words end.
    crowded = ending and len(best) == beam
    futures = index_for(beam if crowded else 1)
    alive = 0
    for candidate in best:
        chosen, one = candidates[candidate], then[alive]
        then[alive] = now[chosen.source]
        one.node, one.total, one.in_blank = chosen.node, chosen.total, chosen.in_blank
        if chosen.grew:
            one.end = frame + 1
        if crowded:
            context = (np.int64(one.older) << 32) | np.int64(one.last)
            first = find(futures, context, one.node)
            if first == NOBODY:
                put(futures, alive, context, one.node)
            elif then[first].total >= one.total and then[first].in_blank >= one.in_blank:
                continue
        alive += 1
    return alive


@compiled_loop
def _let_all_end_in_blank(rows: Any, alive: int) -> None:
    """Apply frames that were skipped, because only a blank is likely in them."""
    for row in range(alive):
        rows[row].in_blank = rows[row].total


@compiled_loop
def _scale_down(rows: Any, alive: int) -> float:
    """Scale the greatest mass to one. Return the natural log of its former value."""
    peak = _SMALLEST
    for row in range(alive):
        peak = max(peak, rows[row].total)
    for row in range(alive):
        one = rows[row]
        one.total, one.in_blank, one.start_mass = one.total / peak, one.in_blank / peak, one.start_mass / peak
    return math.log(peak)


@compiled_loop
def _load(rows: Any, now: Any, former: NDArray[np.int64], gains: NDArray[np.float64], rescored: bool) -> int:
    """Copy the living rows of a beam with their places, and index their histories and gains if they were rescored."""
    alive = 0
    for row in range(len(rows)):
        if rows[row].total > 0:
            now[alive] = rows[row]
            now[alive].back = row
            if rescored:
                put(former, alive, rows[row].history, 0)
                gains[alive] = rows[row].gain
            alive += 1
    return alive


@compiled_loop
def read_step(
    tables: Tables,
    rules: Rules,
    slot: int,
    rows: Any,
    log_probabilities: NDArray[np.float32],
    before: int,
    rescored: bool,
    records: Any,
) -> tuple[int, float]:
    """Read a step of a slot [frames, units] into the rows of its beam, and write the words that ended in it.

    `before` is the number of frames of the segment before the step. `rescored`: the words of the beam were rescored
    after each earlier step. Return how many words ended, and the natural log of the divisor of the masses.
    """
    beam = len(rows)
    now, then = np.empty(beam + rules.endings, HYPOTHESIS), np.empty(beam + rules.endings, HYPOTHESIS)
    former, gains = index_for(beam), np.zeros(beam)
    alive = _load(rows, now, former, gains, rescored)
    candidates = np.empty(beam * (2 * rules.tokens + 1) + rules.endings, _CANDIDATE)
    ranks = np.empty(len(candidates) + 1)
    ranking = _Ranking(ranks, ranks.view(np.int64), np.empty(_BUCKETS, np.int64))
    step = _Step(tables, rules, slot, former, gains, candidates, ranking, records)
    probabilities = np.empty(log_probabilities.shape[1])
    count, scale, skipped = np.int64(0), 0.0, False  # with a plain 0, which is another type, numba would compile twice
    for number in range(len(log_probabilities)):
        blank = log_probabilities[number, BLANK]
        if math.exp(blank) >= rules.blank_ceiling:
            scale, skipped = scale + blank - rules.blank_penalty, True
            continue
        if skipped:
            _let_all_end_in_blank(now, alive)
        skipped = False
        for unit in range(len(probabilities)):
            probabilities[unit] = math.exp(np.float64(log_probabilities[number, unit]))
        probabilities[BLANK] = math.exp(blank - rules.blank_penalty)
        alive, count = _grow(step, now, alive, then, before + number, probabilities, count)
        now, then = then, now
        if alive and now[0].total < _SMALL:
            scale += _scale_down(now, alive)
    if skipped:
        _let_all_end_in_blank(now, alive)
    scale += _scale_down(now, alive)
    for row in range(beam):
        if row < alive:
            rows[row] = now[row]
        else:
            rows[row].total, rows[row].in_blank, rows[row].node = 0.0, 0.0, ROOT
    return count, scale


@compiled_loop
def read_steps(
    tables: Tables,
    rules: Rules,
    slots: NDArray[np.int64],
    hypotheses: Any,
    log_probabilities: NDArray[np.float32],
    frames: NDArray[np.int64],
    scales: NDArray[np.float64],
    rescored: bool,
    records: Any,
    counts: NDArray[np.int64],
) -> None:
    """Read a step of each of these slots [slots, frames, units], one after another. See `read_step`.

    `frames` and `scales` are those of all slots. `records` gets the words that ended, and `counts` how many, by place.
    """
    for place in range(len(slots)):
        slot = slots[place]
        step = log_probabilities[place]
        counts[place], scale = read_step(
            tables, rules, slot, hypotheses[slot], step, frames[slot], rescored, records[place]
        )
        frames[slot] += len(step)
        scales[slot] += scale


# Compiled loops that find rows by two numbers, and rank values (`compiled_loop.py`).

NOBODY = -1  # means that there is no row
_MIX, _OTHER_MIX = -4417276706812531889, -7046029254386353131  # odd multipliers for a hash; products wrap around


@compiled_loop
def index_for(rows: int) -> NDArray[np.int64]:
    """Return an empty index for this many rows by two numbers. Each entry has a row or NOBODY, and its numbers."""
    size = 2
    while size < 2 * rows:
        size *= 2
    return np.full((size, 3), NOBODY)


@inlined_loop
def _entry(index: NDArray[np.int64], first: int, second: int) -> int:
    """Return the place of the entry for these two numbers, or of the free entry for them."""
    last = len(index) - 1
    entry = (((first + second * _MIX) * _OTHER_MIX) >> 32) & last
    while index[entry, 0] != NOBODY and (index[entry, 1] != first or index[entry, 2] != second):
        entry = (entry + 1) & last
    return entry


@inlined_loop
def find(index: NDArray[np.int64], first: int, second: int) -> int:
    """Return the row with these two numbers; NOBODY if there is none."""
    return index[_entry(index, first, second), 0]


@inlined_loop
def put(index: NDArray[np.int64], row: int, first: int, second: int) -> None:
    """Add this row under these two numbers."""
    entry = _entry(index, first, second)
    index[entry, 0], index[entry, 1], index[entry, 2] = row, first, second


@compiled_loop
def best_of(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the places of the greatest of these values, the greatest first. Equal ones keep order; none is negative.

    Most are only counted in buckets. Those in the buckets of the greatest are nearly in order there.
    """
    bits = values.view(np.int64)
    greatest, sizes = np.int64(0), np.zeros(_BUCKETS, np.int64)
    for place in range(len(bits)):
        greatest = max(greatest, bits[place])
    first = greatest >> _BUCKET_SHIFT
    for place in range(len(bits)):
        sizes[_bucket(first, bits[place])] += 1
    return _best_counted(_Ranking(values, bits, sizes), len(values), first, most)


@compiled_loop
def _best_counted(ranking: _Ranking, count: int, first: int, most: int) -> NDArray[np.int64]:
    """Return the places of the greatest of the first `count` values, which are counted in buckets already."""
    values, bits, ends = ranking
    last, total, largest = 0, np.int64(0), np.int64(0)
    while last < _BUCKETS and total < most:  # the buckets before `last` have enough values
        size = ends[last]
        ends[last], total, largest, last = total, total + size, max(largest, size), last + 1
    places = np.empty(total, np.int64)
    for place in range(count):
        bucket = _bucket(first, bits[place])
        if bucket < last:
            places[ends[bucket]] = place
            ends[bucket] += 1
    if largest > _MOST_INSERTED:
        return places[np.argsort(-values[places], kind="mergesort")][:most]
    for number in range(1, len(places)):
        place = places[number]
        key, before = bits[place], number
        while before and bits[places[before - 1]] < key:
            places[before] = places[before - 1]
            before -= 1
        places[before] = place
    return places[:most]


# Compiled look-ups of the bonuses of hotwords (`compiled_loop.py`).

# Odd 64-bit multipliers for a hash. Their products wrap around.
_HISTORY_MIX, _WORD_MIX = -7046029254386353131, 2685821657736338717


class BonusArrays(NamedTuple):
    """The bonuses by last words, for each slot [slots, entries]. The keys of a row are sorted."""

    roots: NDArray[np.int64]  # [slots]: the base of the root of the trie of each stream; 0 if it has no hotwords
    keys: NDArray[np.int64]  # hashes of one to three words
    earned: NDArray[np.float64]  # the bonus that the hypothesis keeps
    lent: NDArray[np.float64]  # the bonus that it gives back at the next word
    own: NDArray[np.bool_]  # whether the key is one word that the trie of the stream contains


@compiled_loop
def extend_hash(history: int, word: int) -> int:
    """Return the hash of a history of words after this word is appended."""
    mixed = (history ^ (word * _WORD_MIX)) * _HISTORY_MIX
    return mixed ^ (mixed >> 29)


@compiled_loop
def _place(bonuses: BonusArrays, slot: int, key: int) -> int:
    """Return the place of the entry with this key; -1 if there is none."""
    keys = bonuses.keys[slot]
    place = np.searchsorted(keys, key)
    return place if place < len(keys) and keys[place] == key else -1


@compiled_loop
def is_own(bonuses: BonusArrays, slot: int, word: int) -> bool:
    """Return whether a word is in the trie of the stream."""
    place = _place(bonuses, slot, extend_hash(0, word))
    return place >= 0 and bonuses.own[slot, place]


@compiled_loop
def lent_after(bonuses: BonusArrays, slot: int, older: int, last: int) -> float:
    """Return the bonus that is lent to a hypothesis after these two words."""
    lent = 0.0
    for key in (extend_hash(0, last), extend_hash(extend_hash(0, older), last)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            lent = max(lent, bonuses.lent[slot, place])
    return lent


@compiled_loop
def gain_of(bonuses: BonusArrays, slot: int, older: int, last: int, word: int) -> float:
    """Return the bonus of a word after these two words."""
    before = extend_hash(extend_hash(0, older), last)
    earned = 0.0
    for key in (extend_hash(0, word), extend_hash(extend_hash(0, last), word), extend_hash(before, word)):
        place = _place(bonuses, slot, key)
        if place >= 0:
            earned = max(earned, bonuses.earned[slot, place])
    return earned + lent_after(bonuses, slot, last, word) - lent_after(bonuses, slot, older, last)
