"""Measures the punctuation model on text: compares its marks and capitals with those of the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamer.engine.punctuation.marks import Case, HeardWord, Mark
from streamer.engine.punctuation.punctuation_model import PunctuationModel
from streamer.training.punctuation.labelled_text import UNLABELLED, LabelledText
from streamer.training.punctuation.measurement.mark_scores import MarkScores, written_words

_MARKS, _CASES = list(Mark), list(Case)
_WINDOW = 600  # words that the model reads in one call
_LONG_MS = 1000


def text_scores(model: PunctuationModel, text: LabelledText, words: Sequence[str]) -> MarkScores:
    """Return the scores of a text without pauses. The numbers of the text stand for `words`."""
    scores = MarkScores()
    for part in _running(text):
        heard = [HeardWord(words[number]) for number in part.words]
        heard[-1] = HeardWord(heard[-1].word, _LONG_MS)
        answers = model.read([heard])[0]
        answered = written_words([each.mark for each in answers], [each.case for each in answers])
        expected = written_words(
            [None if number == UNLABELLED else _MARKS[number] for number in part.marks],
            [None if number == UNLABELLED else _CASES[number] for number in part.cases],
        )
        for one, other in zip(answered, expected, strict=True):
            scores.add(one, other)
    return scores


def _running(text: LabelledText) -> Iterator[LabelledText]:
    """Yield the parts of a text without a gap. A part is a stream of its own, and not longer than a window."""
    begins = np.flatnonzero(text.begins == 2).tolist()
    for start, stop in zip([0, *begins], [*begins, len(text)], strict=True):
        while start < stop:
            end = stop
            if stop - start > _WINDOW:
                sentences = np.flatnonzero(text.begins[start + 1 : start + _WINDOW]) + start + 1
                end = int(sentences[-1]) if len(sentences) else start + _WINDOW
            yield text.part(start, end)
            start = end
