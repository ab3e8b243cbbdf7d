"""Measures the punctuation model on text: its answers for segments of true words, beside those that were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamer.engine.punctuation.marks import Case, HeardWord, Mark
from streamer.engine.punctuation.punctuation_model import PunctuationModel
from streamer.training.punctuation.labelled_text import UNTOLD, LabelledText
from streamer.training.punctuation.measurement.mark_scores import MarkScores, written_words

_MARKS, _CASES = list(Mark), list(Case)
_WINDOW = 600  # words that are read at once
_LONG_MS = 1000


def text_scores(model: PunctuationModel, text: LabelledText, words: Sequence[str]) -> MarkScores:
    """The scores of a text without pauses. `words` are those that its numbers stand for."""
    scores = MarkScores()
    for part in _running(text):
        heard = [HeardWord(words[number]) for number in part.words]
        heard[-1] = HeardWord(heard[-1].word, _LONG_MS)
        answers = model.read([heard])[0]
        found = written_words([each.mark for each in answers], [each.case for each in answers])
        wanted = written_words(
            [None if number == UNTOLD else _MARKS[number] for number in part.marks],
            [None if number == UNTOLD else _CASES[number] for number in part.cases],
        )
        for one, other in zip(found, wanted, strict=True):
            scores.add(one, other)
    return scores


def _running(text: LabelledText) -> Iterator[LabelledText]:
    """Its parts without a gap, each as a stream of its own, at most so long that it is read at once."""
    begins = np.flatnonzero(text.begins == 2).tolist()
    for start, stop in zip([0, *begins], [*begins, len(text)], strict=True):
        while start < stop:
            end = stop
            if stop - start > _WINDOW:
                sentences = np.flatnonzero(text.begins[start + 1 : start + _WINDOW]) + start + 1
                end = int(sentences[-1]) if len(sentences) else start + _WINDOW
            yield text.part(start, end)
            start = end
