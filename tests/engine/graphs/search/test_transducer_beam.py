"""The beam search for transducers against brute force: every sequence of tokens, in all frames."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from streamer.engine.graphs.graph_model import FRAMES
from streamer.engine.graphs.hotwords.automaton import ROOT, HotwordAutomaton
from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.engine.graphs.search.rows import Rows
from streamer.engine.graphs.search.token_beam import HOTWORD_BONUS
from streamer.engine.graphs.search.transducer_beam import TransducerBeamSearch
from streamer.engine.graphs.search.transducer_graphs import TransducerGraphs
from streamer.engine.graphs.token_text import Token, TokenText
from streamer.engine.search.search import Hotword
from streamer.engine.work.parts import finish
from streamer.graphs.model_folder import read_model_folder
from streamer.graphs.transducer import ContextTransducer
from streamer.testing.graphs.exact_icefall import JOINED, TOKENS
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder

COUNT, LENGTH = len(TOKENS), 3
EVERYTHING = COUNT**LENGTH


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> TransducerGraphs:
    public = read_model_folder(make_transducer_folder(tmp_path_factory.mktemp("transducer"), exact=False))
    assert isinstance(public.transducer, ContextTransducer)
    return TransducerGraphs(TOKENS, public.transducer)


def enumerated(graphs: TransducerGraphs, frames: Rows, hotwords: HotwordAutomaton) -> dict[tuple[str, ...], float]:
    """Return the probability of each text, with bonuses of hotwords, over all ways to take a token in each frame."""
    found: dict[tuple[int, ...], float] = {(): 0.0}
    for frame in frames:
        contexts = [((*graphs.start, *numbers)[-len(graphs.start) :]) for numbers in found]
        logits = graphs.join(np.repeat(frame[None], len(found), axis=0), graphs.predict(contexts)).astype(float)
        scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        grown: dict[tuple[int, ...], list[float]] = defaultdict(list)
        for (numbers, before), row in zip(found.items(), scores.tolist(), strict=True):
            for token, score in enumerate(row):
                grown[numbers if token in graphs.silent else (*numbers, token)].append(before + score)
        found = {numbers: math.log(sum(map(math.exp, masses))) for numbers, masses in grown.items()}
    texts: dict[tuple[str, ...], float] = defaultdict(float)
    text = TokenText(TOKENS)
    for numbers, score in found.items():
        state = ROOT
        for number in numbers:
            earned, state = hotwords.step(state, number)
            score += earned
        words = text.words([Token(number, 0, 1, 0.0) for number in numbers])
        texts[tuple(word.text for word in words)] += math.exp(score)
    total = sum(texts.values())
    return {said: mass / total for said, mass in texts.items()}


def test_a_wide_beam_is_exact(graphs: TransducerGraphs) -> None:
    """All texts have the probabilities that enumeration gives, with the bonuses of hotwords."""
    divided, phrases = PhraseTokens(TOKENS, None), ("AH", "BI C")
    search = TransducerBeamSearch(TOKENS, graphs, divided, 1, width=EVERYTHING)
    finish(search.prepare(0, [Hotword(phrase) for phrase in phrases], 0))
    frames = np.random.default_rng(1).normal(0, 4, (1, LENGTH, JOINED)).astype(np.float32)
    search.advance([0], {FRAMES: frames[:, :1]})
    search.advance([0], {FRAMES: frames[:, 1:]})
    automaton = HotwordAutomaton((divided.of(phrase), HOTWORD_BONUS) for phrase in phrases)
    wanted = enumerated(graphs, frames[0], automaton)
    found = {tuple(word.text for word in words): share for words, share in search.alternatives(0, EVERYTHING)}
    assert found.keys() == wanted.keys()
    assert len(found) > 1000
    assert all(share == pytest.approx(wanted[said], abs=1e-5) for said, share in found.items())


def test_alternatives(graphs: TransducerGraphs) -> None:
    """The first alternative is the text that is shown; the others have falling probabilities, and all differ."""
    search = TransducerBeamSearch(TOKENS, graphs, PhraseTokens(TOKENS, None), 1)
    frames = np.random.default_rng(2).normal(0, 2, (1, 20, JOINED)).astype(np.float32)
    [shown] = search.advance([0], {FRAMES: frames})
    (words, _), *others = search.alternatives(0, 10)
    assert words == shown.words == search.finish([0])[0].words
    shares = [share for _, share in others]
    assert shares == sorted(shares, reverse=True)
    texts = {tuple(word.text for word in found) for found, _ in search.alternatives(0, 10)}
    assert len(texts) == 1 + len(others) > 2
    assert sum(share for _, share in search.alternatives(0, 10)) == pytest.approx(1)
