"""The loops that follow the words of the hypotheses: what is settled, how much the beam agrees, what has changed.

Each call follows all streams of a batch, one after another. The words of a slot are places of `HistoryArrays.words`. A
word always stands behind the word before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled_loops import compiled_loop
from streamer.engine.language.lexicon import ROOT, WORD_COUNT
from streamer.engine.search.beam_loops import Rules, Tables, last_words
from streamer.engine.search.beams import NO_FRAME, NO_WORD, HistoryArrays

_RECENT = 24  # how many of the last notes are searched for a word; there are never more unsettled words
_NEGLIGIBLE_SHARE = 1e-4  # hypotheses that are less likely than this part of the likeliest do not count


@compiled_loop
def needed_records(rows: Any, records: Any, count: int) -> NDArray[np.bool_]:
    """Return which of the words that ended in a step belong to a living row, or to a word that does."""
    beam, needed = len(rows), np.zeros(count, np.bool_)
    for row in range(beam):
        if rows[row].total > 0 and rows[row].back >= beam:
            needed[rows[row].back - beam] = True
    for number in range(count - 1, -1, -1):
        if needed[number] and records[number].before >= beam:
            needed[records[number].before - beam] = True
    return needed


@compiled_loop
def path_to(words: Any, place: int) -> NDArray[np.int64]:
    """Return the places of the words up to this one, the first one first."""
    length, one = 0, place
    while one:
        length, one = length + 1, words[one].before
    path, one = np.empty(length, np.int64), place
    while one:
        length -= 1
        path[length], one = one, words[one].before
    return path


@compiled_loop
def _agreeing(words: Any, used: int, path: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each place how many words lead to it, and with how many of the path they begin."""
    depths, agreeing = np.zeros(used, np.int64), np.zeros(used, np.int64)
    for place in range(1, used):
        before = words[place].before
        depth = depths[place] = depths[before] + 1
        same = agreeing[before] == depths[before] and depth <= len(path)
        if same and words[path[depth - 1]].word == words[place].word:
            agreeing[place] = depth
        else:
            agreeing[place] = agreeing[before]
    return depths, agreeing


@compiled_loop
def _settle(
    history: HistoryArrays, slot: int, rows: Any, path: NDArray[np.int64], count: int, depths: NDArray[np.int64]
) -> None:
    """Settle the first words of this path, with which all living rows begin, and drop words that no row has."""
    words, used, places = history.words[slot], history.used[slot], history.rows[slot]
    line, shown = history.line[slot], history.shown[slot]
    for number in range(count):
        line[shown.fresh + number] = words[path[number]]
    shown.fresh += count
    shown.settled += count
    kept = np.zeros(used, np.bool_)
    for row in range(len(rows)):
        if rows[row].total > 0:
            kept[places[row]] = True
    for place in range(used - 1, 0, -1):
        if kept[place]:
            kept[words[place].before] = True
    moved, free = np.zeros(used, np.int32), 1
    for place in range(1, used):
        if kept[place] and depths[place] > count:
            one = words[free]
            words[free] = words[place]
            one.before = moved[one.before]
            moved[place], free = free, free + 1
    history.used[slot] = free
    for row in range(len(rows)):
        places[row] = moved[places[row]] if rows[row].total > 0 else 0


@compiled_loop
def follow_words(
    history: HistoryArrays, slots: NDArray[np.int64], hypotheses: Any, records: Any, counts: NDArray[np.int64]
) -> None:
    """Follow a step of these slots. `records` has the words that ended in it, as many for each slot as `counts` says.

    The words with which all living rows begin are settled.
    """
    for number in range(len(slots)):
        slot = slots[number]
        rows = hypotheses[slot]
        history.shown[slot].fresh = 0
        if counts[number] == 0 and not _moved(history, slot, rows):
            continue
        _follow_words(history, slot, rows, records[number], counts[number])


@compiled_loop
def _moved(history: HistoryArrays, slot: int, rows: Any) -> bool:
    """Put the words of the rows in order if no word has ended. Return whether words may have settled."""
    places, beam = history.rows[slot], len(rows)
    before, lost = places.copy(), False
    has = np.zeros(history.used[slot], np.bool_)
    for row in range(beam):
        if rows[row].total > 0:
            if rows[row].back >= beam:
                return True
            has[before[rows[row].back]] = True
    for row in range(beam):
        lost = lost or not has[before[row]]
    if lost:
        return True
    for row in range(beam):
        places[row] = before[rows[row].back] if rows[row].total > 0 else 0
    return False


@compiled_loop
def _follow_words(history: HistoryArrays, slot: int, rows: Any, records: Any, count: int) -> None:
    words, used, places = history.words[slot], history.used[slot], history.rows[slot]
    beam, before, needed = len(rows), places.copy(), needed_records(rows, records, count)
    new = np.zeros(count, np.int32)
    for number in range(count):
        if not needed[number]:
            continue
        record, one = records[number], words[used]
        one.before = before[record.before] if record.before < beam else new[record.before - beam]
        one.word, one.start, one.end = record.word, record.start, record.end
        one.phones, one.probability = record.phones, record.probability
        one.number = history.numbers[slot]
        history.numbers[slot] += 1
        new[number], used = used, used + 1
    history.used[slot] = used
    for row in range(beam):
        back = rows[row].back
        if rows[row].total <= 0:
            places[row] = 0
        else:
            places[row] = before[back] if back < beam else new[back - beam]
    path = path_to(words, places[0])
    depths, agreeing = _agreeing(words, used, path)
    common = len(path) if rows[0].total > 0 else 0
    for row in range(beam):
        if rows[row].total > 0:
            common = min(common, agreeing[places[row]])
    _settle(history, slot, rows, path, common, depths)


@compiled_loop
def show_words(
    tables: Tables,
    rules: Rules,
    history: HistoryArrays,
    slots: NDArray[np.int64],
    hypotheses: Any,
    frames: NDArray[np.int64],
    settle_frames: NDArray[np.int64],
) -> None:
    """Complete a step of these slots: settle words by their age, note agreement, and say what the best row shows."""
    homophones = rules.homophones
    words, worth = np.zeros((1, homophones), np.int64), np.zeros((1, homophones))
    posteriors, whole = np.zeros(1), np.zeros(1)
    for slot in slots:
        rows = hypotheses[slot]
        if settle_frames[slot]:
            _settle_old(history, slot, rows, frames[slot] - settle_frames[slot])
        path = path_to(history.words[slot], history.rows[slot, 0])
        if len(path):
            note_agreement(history, slot, rows, path)
        _show(history, slot, path)
        best, shown = rows[0], history.shown[slot]
        last, start, end, posterior = NO_WORD, NO_FRAME, NO_FRAME, 0.0
        if best.node != ROOT:
            start, end = best.start, best.end
            if tables.trie.table[best.node, WORD_COUNT]:
                worth[:], posteriors[:] = 0.0, 0.0
                last_words(tables, rules, slot, rows[:1], False, words, worth, posteriors, whole)
                place = np.argmax(worth[0])
                # Without any worth, the word is a hotword, which counts only in the trie of the stream.
                if worth[0, place] > 0:
                    last, posterior = words[0, place], posteriors[0]
        if last != shown.last or start != shown.start or end != shown.end or posterior != shown.posterior:
            shown.changed = True
        shown.last, shown.start, shown.end, shown.posterior = last, start, end, posterior


@compiled_loop
def _settle_old(history: HistoryArrays, slot: int, rows: Any, until: int) -> None:
    """Settle the words of the best row that ended by this frame, and drop the rows that differ in them."""
    words, places = history.words[slot], history.rows[slot]
    path, old = path_to(words, places[0]), 0
    for place in path:
        old += words[place].end <= until
    if not old:
        return
    depths, agreeing = _agreeing(words, history.used[slot], path)
    for row in range(len(rows)):
        if agreeing[places[row]] < old:
            rows[row].total, rows[row].in_blank = 0.0, 0.0
    _settle(history, slot, rows, path, old, depths)


@compiled_loop
def note_agreement(history: HistoryArrays, slot: int, rows: Any, path: NDArray[np.int64]) -> None:
    """Note which part of the beam has each unsettled word of the best row at about its time."""
    words, used, places = history.words[slot], history.used[slot], history.rows[slot]
    greatest, total, masses = 0.0, 0.0, np.zeros(used)
    for row in range(len(rows)):
        greatest = max(greatest, rows[row].total)
    for row in range(len(rows)):
        if rows[row].total > _NEGLIGIBLE_SHARE * greatest:
            masses[places[row]] += rows[row].total
    for place in range(used):
        total += masses[place]
    has = np.zeros(used, np.bool_)
    for mine in path:
        word, share = words[mine], 0.0
        for place in range(1, used):
            other = words[place]
            same = other.word == word.word and other.start < word.end and word.start < other.end
            has[place] = same or has[other.before]
            if has[place]:
                share += masses[place]
        _add_note(history, slot, word, share / total if total else 0.0)


@compiled_loop
def _add_note(history: HistoryArrays, slot: int, word: Any, share: float) -> None:
    notes, count = history.notes[slot], history.noted[slot]
    for number in range(count - 1, max(0, count - _RECENT) - 1, -1):
        note = notes[number]
        if note.word == word.word and note.start < word.end and word.start < note.end:
            note.start, note.end, note.steps = word.start, word.end, note.steps + 1
            note.total += share
            return
    note = notes[count]
    note.word, note.start, note.end, note.steps, note.total = word.word, word.start, word.end, 1, share
    history.noted[slot] += 1


@compiled_loop
def _show(history: HistoryArrays, slot: int, path: NDArray[np.int64]) -> None:
    """Complete the line of the best row with its unsettled words, and say how many words are as they were."""
    words, line, told, shown = history.words[slot], history.line[slot], history.told[slot], history.shown[slot]
    fresh, count = shown.fresh, shown.fresh + len(path)
    for number in range(len(path)):
        line[fresh + number] = words[path[number]]
    # What was told before begins where this line begins.
    first, same = shown.settled - fresh, 0
    while same < min(count, shown.told) and line[same].number == told[same]:
        same += 1
    shown.changed = fresh > 0 or same < count or same < shown.told
    for number in range(len(path)):
        told[number] = line[fresh + number].number
    shown.told, shown.same, shown.words = len(path), first + same, first + count
