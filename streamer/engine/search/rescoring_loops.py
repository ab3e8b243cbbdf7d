"""The loops that follow which words the neural language model has scored, and that give the hypotheses their gains.

Each call follows all streams of a batch, one after another. The pasts of a slot are places of `PastArrays.pasts`. A
past always stands behind the past without its last word.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled_loops import compiled_loop
from streamer.engine.search.beam_loops import NOBODY, find, index_for, put
from streamer.engine.search.beams import HYPOTHESIS, HistoryArrays, Records

NO_CONTEXT = -1

PAST = np.dtype(
    [
        ("before", np.int32),  # the place of the past without the last word
        ("word", np.int32),
        ("context", np.int32),  # the number of the context of the neural model; NO_CONTEXT if none was needed yet
        ("pending", np.bool_),  # whether the last word has no gain yet
        ("gain", np.float64),  # of all words; while the last one is pending, that of the past before it at its start
    ],
    align=True,
)
"""The words of a hypothesis as the context of the neural model, and their gain."""


class PastArrays(NamedTuple):
    """The pasts of the rows of the beams. The first index is the slot."""

    pasts: Records  # [slots, places]
    used: NDArray[np.int64]  # [slots]: how many places are used
    rows: NDArray[np.int32]  # [slots, beam]: the past of each row


@compiled_loop
def follow_pasts(
    arrays: PastArrays,
    slots: NDArray[np.int64],
    hypotheses: Any,
    records: Any,
    counts: NDArray[np.int64],
    ahead: NDArray[np.float32],
    floor: float,
) -> NDArray[np.int32]:
    """Follow a step of these slots. Return the slots and places of the pasts whose last words must be scored now.

    They belong to rows that are at least `floor` times as likely as the likeliest. A past comes after those before it.
    """
    room = np.int64(0)
    for number in range(len(slots)):
        room += arrays.used[slots[number]] + counts[number]
    chosen, count = np.empty((room, 2), np.int32), 0
    for number in range(len(slots)):
        slot = slots[number]
        rows = hypotheses[slot]
        _follow(arrays, slot, rows, records[number], counts[number])
        count = _choose(arrays, slot, rows, ahead, floor, chosen, count)
    return chosen[:count]


@compiled_loop
def _follow(arrays: PastArrays, slot: int, rows: Any, records: Any, count: int) -> None:
    """Give each row its past. Rows with the same words share a past, though the words may have ended in other ways."""
    places, beam = arrays.rows[slot], len(rows)
    before, moved = places.copy(), False
    for row in range(beam):
        if rows[row].total <= 0:
            places[row] = 0
        elif rows[row].back < beam:
            places[row] = before[rows[row].back]
        else:
            moved = True
    if not moved:
        return
    same = index_for(beam)
    for row in range(beam):
        one = rows[row]
        if one.total > 0 and one.back < beam:
            put(same, places[row], one.history, 0)
    pasts, used = arrays.pasts[slot], arrays.used[slot]
    new, chain = np.full(count, NOBODY, np.int64), np.empty(count, np.int64)
    for row in range(beam):
        one = rows[row]
        if one.total <= 0 or one.back < beam:
            continue
        place = find(same, one.history, 0)
        if place == NOBODY:
            length, number = 0, one.back - beam
            while number >= 0 and new[number] == NOBODY:
                chain[length], length = number, length + 1
                number = records[number].before - beam
            place = int(new[number]) if number >= 0 else int(before[number + beam])
            for link in range(length - 1, -1, -1):
                past = pasts[used]
                past.before, past.word, past.pending = place, records[chain[link]].word, True
                past.context, past.gain = NO_CONTEXT, pasts[place].gain
                place, new[chain[link]], used = used, used, used + 1
            put(same, place, one.history, 0)
        places[row] = place
    arrays.used[slot] = used


@compiled_loop
def _choose(
    arrays: PastArrays,
    slot: int,
    rows: Any,
    ahead: NDArray[np.float32],
    floor: float,
    chosen: NDArray[np.int32],
    count: int,
) -> int:
    pasts, places, greatest = arrays.pasts[slot], arrays.rows[slot], 0.0
    for row in range(len(rows)):
        greatest = max(greatest, rows[row].total * ahead[rows[row].node])
    taken = np.zeros(arrays.used[slot], np.bool_)
    for row in range(len(rows)):
        one = rows[row]
        if one.total <= 0 or one.total * ahead[one.node] < floor * greatest:
            continue
        place, length = np.int64(places[row]), 0
        while pasts[place].pending and not taken[place]:
            taken[place], length, place = True, length + 1, np.int64(pasts[place].before)
        place = np.int64(places[row])
        for link in range(length - 1, -1, -1):
            chosen[count + link, 0], chosen[count + link, 1] = slot, place
            place = np.int64(pasts[place].before)
        count += length
    return count


@compiled_loop
def rescore(
    arrays: PastArrays,
    history: HistoryArrays,
    slots: NDArray[np.int64],
    hypotheses: Any,
    scales: NDArray[np.float64],
    ahead: NDArray[np.float32],
    chosen: NDArray[np.int32],
    gains: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Give the chosen pasts their gains, and sort the rows of their slots again. Drop the pasts that no row needs.

    `chosen` is in the order of `slots`. Return the contexts of the pasts that were dropped.
    """
    room = np.int64(0)
    for slot in slots:
        room += arrays.used[slot]
    free, freed, number = np.empty(room, np.int32), 0, 0
    for slot in slots:
        pasts, first = arrays.pasts[slot], number
        while number < len(chosen) and chosen[number, 0] == slot:
            past = pasts[chosen[number, 1]]
            past.gain, past.pending = pasts[past.before].gain + gains[number], False
            number += 1
        # The other slots are not touched, so no bit of their results depends on the words of these.
        if number > first:
            scales[slot] += _sort(arrays.rows[slot], pasts, history.rows[slot], hypotheses[slot], ahead)
        freed = _drop(arrays, slot, hypotheses[slot], free, freed)
    return free[:freed]


@compiled_loop
def _sort(
    places: NDArray[np.int32], pasts: Any, words: NDArray[np.int32], rows: Any, ahead: NDArray[np.float32]
) -> float:
    """Give each row the gain of its past, and sort the rows by their mass times the look-ahead of their node.

    Return the natural log of the divisor of the masses.
    """
    beam = len(rows)
    factors, ranks, peak = np.zeros(beam), np.zeros(beam), 0.0
    for row in range(beam):
        one = rows[row]
        if one.total > 0:
            gain = pasts[places[row]].gain
            factors[row] = math.exp(gain - one.gain)
            ranks[row] = -one.total * factors[row] * ahead[one.node]
            peak = max(peak, one.total * factors[row])
            one.gain = gain
    order = np.argsort(ranks, kind="mergesort")  # a stable order
    old_places, old_words, old_rows = places.copy(), words.copy(), np.empty(beam, HYPOTHESIS)
    for row in range(beam):
        old_rows[row] = rows[row]
    for row in range(beam):
        source = order[row]
        rows[row], places[row], words[row] = old_rows[source], old_places[source], old_words[source]
        one, factor = rows[row], factors[source] / peak
        one.total, one.in_blank, one.start_mass = one.total * factor, one.in_blank * factor, one.start_mass * factor
    return math.log(peak)


@compiled_loop
def _drop(arrays: PastArrays, slot: int, rows: Any, free: NDArray[np.int32], freed: int) -> int:
    """Drop the pasts that no living row has, and that none of these needs to compute its gain or its context."""
    pasts, used, places = arrays.pasts[slot], arrays.used[slot], arrays.rows[slot]
    kept = np.zeros(used, np.bool_)
    for row in range(len(rows)):
        if rows[row].total > 0:
            kept[places[row]] = True
    for place in range(used - 1, 0, -1):
        if kept[place] and (pasts[place].pending or pasts[place].context == NO_CONTEXT):
            kept[pasts[place].before] = True
    moved, count = np.zeros(used, np.int32), 0
    for place in range(used):
        past = pasts[place]
        if kept[place]:
            before = moved[past.before]
            pasts[count] = past
            pasts[count].before = before
            moved[place], count = count, count + 1
        elif past.context > 0:  # the first context is the start of all sentences
            free[freed], freed = past.context, freed + 1
    arrays.used[slot] = max(count, 1)
    for row in range(len(rows)):
        places[row] = moved[places[row]]
    return freed
