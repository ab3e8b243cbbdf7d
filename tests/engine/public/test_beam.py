"""The beam search for CTC against brute force: every path through all frames."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from streamer.engine.public.beam import HOTWORD_BONUS, CtcBeamSearch, RecurrentBeamSearch, TransducerBeamSearch
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.greedy import MOST_IN_A_FRAME, RecurrentGreedySearch
from streamer.engine.public.hotwords import ROOT, HotwordAutomaton, PhraseTokens
from streamer.engine.public.token_text import Token, TokenText
from streamer.engine.public.transducers import RecurrentGraphs, Rows, TransducerGraphs
from streamer.engine.search.search import Hotword, Hypothesis
from streamer.engine.waiting import finish
from streamer.models.layout import ContextTransducer, RecurrentTransducer
from streamer.models.model_folder import read_model_folder
from workshop.graphs.exact_icefall import JOINED, make_transducer_folder
from workshop.graphs.exact_icefall import TOKENS as TOKENS_of_transducer_beam
from workshop.graphs.exact_nemo import TOKENS as TOKENS_of_nemo
from workshop.graphs.exact_nemo import make_nemo_folder

TOKENS = ("<blk>", "▁a", "b", "▁c")
Frames = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def emissions(seed: int, frames: int, sharpness: float = 1.5) -> Frames:
    """Return random log-probabilities."""
    scores = np.random.default_rng(seed).normal(0, sharpness, (1, frames, len(TOKENS)))
    return (scores - np.log(np.exp(scores).sum(-1, keepdims=True))).astype(np.float32)


def search(phrases: Sequence[str] = (), *, settle_frames: int = 0, **bounds: float) -> CtcBeamSearch:
    """Return a search whose only slot is prepared."""
    found = CtcBeamSearch(TOKENS, 0, PhraseTokens(TOKENS, None), 1, **bounds)  # type: ignore[arg-type]
    finish(found.prepare(0, [Hotword(phrase) for phrase in phrases], settle_frames))
    return found


def texts(hypothesis: Hypothesis) -> list[str]:
    """Return the texts of the words."""
    return [word.text for word in hypothesis.words]


@pytest.mark.parametrize("phrases", [(), ("ab", "c a")])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_is_exact(seed: int, phrases: tuple[str, ...]) -> None:
    """The probability of each sequence is the sum over its paths, with the bonuses of hotwords."""
    frames = emissions(seed, 5)
    beam = search(phrases, width=4**5, reach=math.inf)
    beam.advance([0], {FRAMES: frames[:, :2]})
    beam.advance([0], {FRAMES: frames[:, 2:]})
    wanted: dict[str, float] = defaultdict(float)
    hotwords = HotwordAutomaton((PhraseTokens(TOKENS, None).of(phrase), HOTWORD_BONUS) for phrase in phrases)
    for path in itertools.product(range(len(TOKENS)), repeat=5):
        score, state = sum(frames[0, at, number] for at, number in enumerate(path)), ROOT
        numbers = [number for number, _ in itertools.groupby(path) if number]
        for number in numbers:
            earned, state = hotwords.step(state, number)
            score += earned
        wanted["".join(TOKENS[number] for number in numbers)] += math.exp(score)
    total = sum(wanted.values())
    found = {"".join(f"▁{w.text}" for w in words): share for words, share in beam.alternatives(0, 4**5)}
    # A word that begins without its mark is written as a whole word, too.
    merged: dict[str, float] = defaultdict(float)
    for text, mass in wanted.items():
        merged[text if text[:1] in ("▁", "") else f"▁{text}"] += mass / total
    assert found.keys() == merged.keys()
    assert all(share == pytest.approx(merged[text], abs=1e-6) for text, share in found.items())


@pytest.mark.parametrize("seed", range(5))
def test_any_split_into_steps_is_the_same(seed: int) -> None:
    """Reading in one step and reading frame by frame give the same tokens, times and probabilities."""
    frames = emissions(seed, 40)
    whole, split = search(["ab"]), search(["ab"])
    whole.advance([0], {FRAMES: frames})
    for at in range(40):
        split.advance([0], {FRAMES: frames[:, at : at + 1]})
    assert split.tokens(0) == whole.tokens(0)
    assert split.alternatives(0, 9) == whole.alternatives(0, 9)


@pytest.mark.parametrize("settle_frames", [0, 6])
@pytest.mark.parametrize("seed", range(5))
def test_stable_words_stay(seed: int, settle_frames: int) -> None:
    """Stable words are in every later hypothesis. With a limit of age, words become stable when they are that old."""
    beam = search(["ab", "c a"], settle_frames=settle_frames)
    frames = emissions(seed, 80, sharpness=4)
    stable: list[str] = []
    for at in range(80):
        [found] = beam.advance([0], {FRAMES: frames[:, at : at + 1]})
        assert texts(found)[: len(stable)] == stable
        assert all(list(map(_text, words))[: len(stable)] == stable for words, _ in beam.alternatives(0, 9))
        stable = texts(found)[: found.stable]
        if settle_frames:
            assert all(word.end > at + 1 - settle_frames for word in found.words[found.stable : -1])
    assert len(stable) > 5


def _text(word: object) -> str:
    return str(getattr(word, "text", ""))


def test_times() -> None:
    """A token begins in its first frame and ends after its last one."""
    rows = [0, 1, 1, 0, 2, 2, 2, 0, 3, 0]
    frames = np.full((1, len(rows), len(TOKENS)), -12.0, dtype=np.float32)
    frames[0, range(len(rows)), rows] = -0.01
    beam = search()
    beam.advance([0], {FRAMES: frames[:, :5]})
    [found] = beam.advance([0], {FRAMES: frames[:, 5:]})
    assert [(word.text, word.start, word.end) for word in found.words] == [("ab", 1, 7), ("c", 8, 9)]
    assert found.stable == 1


COUNT, LENGTH = len(TOKENS_of_transducer_beam), 3
EVERYTHING = COUNT**LENGTH


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> TransducerGraphs:
    public = read_model_folder(make_transducer_folder(tmp_path_factory.mktemp("transducer"), exact=False))
    assert isinstance(public.transducer, ContextTransducer)
    return TransducerGraphs(TOKENS_of_transducer_beam, public.transducer)


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
    text = TokenText(TOKENS_of_transducer_beam)
    for numbers, score in found.items():
        state = ROOT
        for number in numbers:
            earned, state = hotwords.step(state, number)
            score += earned
        words = text.words([Token(number, 0, 1, 0.0) for number in numbers])
        texts[tuple(word.text for word in words)] += math.exp(score)
    total = sum(texts.values())
    return {said: mass / total for said, mass in texts.items()}


def test_transducer_beam_a_wide_beam_is_exact(graphs: TransducerGraphs) -> None:
    """All texts have the probabilities that enumeration gives, with the bonuses of hotwords."""
    divided, phrases = PhraseTokens(TOKENS_of_transducer_beam, None), ("AH", "BI C")
    search = TransducerBeamSearch(TOKENS_of_transducer_beam, graphs, divided, 1, width=EVERYTHING)
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
    search = TransducerBeamSearch(TOKENS_of_transducer_beam, graphs, PhraseTokens(TOKENS_of_transducer_beam, None), 1)
    frames = np.random.default_rng(2).normal(0, 2, (1, 20, JOINED)).astype(np.float32)
    [shown] = search.advance([0], {FRAMES: frames})
    (words, _), *others = search.alternatives(0, 10)
    assert words == shown.words == search.finish([0])[0].words
    shares = [share for _, share in others]
    assert shares == sorted(shares, reverse=True)
    texts = {tuple(word.text for word in found) for found, _ in search.alternatives(0, 10)}
    assert len(texts) == 1 + len(others) > 2
    assert sum(share for _, share in search.alternatives(0, 10)) == pytest.approx(1)


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> RecurrentGraphs:
    public = read_model_folder(make_nemo_folder(tmp_path_factory.mktemp("nemo"), exact=False))
    assert isinstance(public.transducer, RecurrentTransducer)
    return RecurrentGraphs(public.transducer)


def recurrent_search(graphs: RecurrentGraphs, *phrases: str, width: int = 4) -> RecurrentBeamSearch:
    """Return a search with two slots. The first is prepared for these hotwords."""
    search = RecurrentBeamSearch(TOKENS_of_nemo, graphs, PhraseTokens(TOKENS_of_nemo, None), 2, width=width)
    finish(search.prepare(0, [Hotword(phrase) for phrase in phrases], 0))
    return search


def recurrent_frames(seed: int, sharpness: float = 3) -> Frames:
    """Return random frames of an encoder for two slots."""
    return np.random.default_rng(seed).normal(0, sharpness, (2, 24, JOINED)).astype(np.float32)


def scored(graphs: RecurrentGraphs, frames: Rows, tokens: Sequence[Token]) -> float:
    """Return the log-probability of these tokens in their frames, computed one token after another."""
    total, prediction = 0.0, graphs.first

    def log_probs(frame: int) -> Rows:
        logits = graphs.join(frames[frame][None], prediction.row[None])[0].astype(float)
        found: Rows = logits - np.log(np.exp(logits).sum())
        return found

    for frame in range(len(frames)):
        own = [token.number for token in tokens if token.frame == frame]
        for number in own:
            total += log_probs(frame)[number]
            [prediction] = graphs.read([prediction], [number])
        if len(own) < MOST_IN_A_FRAME:
            total += log_probs(frame)[graphs.blank]
    return total


@pytest.mark.parametrize("seed", range(3))
def test_recurrent_a_beam_of_one_is_greedy(recurrent: RecurrentGraphs, seed: int) -> None:
    """With room for one sequence, the beam takes the likeliest token every time, up to the most in a frame."""
    beam, greedy = recurrent_search(recurrent, width=1), RecurrentGreedySearch(TOKENS_of_nemo, recurrent, 2)
    frames = recurrent_frames(seed, sharpness=6)
    for search in (beam, greedy):
        search.advance([0, 1], {FRAMES: frames[:, :10]})
        search.advance([0, 1], {FRAMES: frames[:, 10:]})
    for slot in range(2):
        found, wanted = beam.tokens(slot), greedy.tokens(slot)
        assert [(one.number, one.frame) for one in found] == [(one.number, one.frame) for one in wanted]
        assert len(found) > 10


@pytest.mark.parametrize("seed", range(3))
def test_recurrent_scores_are_those_of_the_tokens(recurrent: RecurrentGraphs, seed: int) -> None:
    """The best sequence has the probability of its own way, which is not worse than that of the greedy search."""
    search, greedy = recurrent_search(recurrent), RecurrentGreedySearch(TOKENS_of_nemo, recurrent, 2)
    frames = recurrent_frames(seed)
    for each in (search, greedy):
        each.advance([0, 1], {FRAMES: frames})
    for slot in range(2):
        best = search._beams[slot].hypotheses[0].score
        assert best == pytest.approx(scored(recurrent, frames[slot], search.tokens(slot)), abs=1e-3)
        assert best >= scored(recurrent, frames[slot], greedy.tokens(slot)) - 1e-3


def test_recurrent_hotwords_win_where_they_are_likely(recurrent: RecurrentGraphs) -> None:
    """A hotword changes only its own slot, and in company each slot has what it has alone."""
    frames = recurrent_frames(5, sharpness=6)
    together = recurrent_search(recurrent, "AH", "B", "C")
    together.advance([0, 1], {FRAMES: frames})
    plain = recurrent_search(recurrent)
    plain.advance([0], {FRAMES: frames[:1]})
    plain.advance([1], {FRAMES: frames[1:]})
    assert together.tokens(1) == plain.tokens(1)
    assert together.tokens(0) != plain.tokens(0)
    hot = [TOKENS_of_nemo.index(f"▁{letter}") for letter in "ABC"]
    counts = [sum(token.number in hot for token in search.tokens(0)) for search in (together, plain)]
    assert counts[0] > counts[1]
    alone = recurrent_search(recurrent, "AH", "B", "C")
    for at in range(frames.shape[1]):
        alone.advance([0], {FRAMES: frames[:1, at : at + 1]})
    assert alone.tokens(0) == together.tokens(0)
