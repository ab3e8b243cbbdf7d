"""Measures rules for the end of a turn on recorded turns: how often each cuts one in two, and how soon it ends one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from streamer.engine.acoustics.activity import ActivityReading, ActivityRule, ActivityTracker, probabilities_of
from streamer.engine.acoustics.streaming_model import ACTIVITY, StreamingModel
from streamer.engine.endpointing import (
    LOOK_MS,
    PATIENCE,
    EndpointRule,
    Judge,
    TurnRule,
    TurnWatch,
    frames_to_end,
    paused,
)
from streamer.engine.search.search import NO_WORDS, Hypothesis, HypothesisWord, Search
from streamer.engine.segment_audio import TimeScale
from workshop.data.alignment import Alignment
from workshop.data.corpus import SAMPLE_RATE, Corpus, Samples, Utterance

SILENCES_MS = (300, 500, 700, 1000, 1500)


@dataclass(frozen=True)
class RuleFigures:
    """The results of a rule for turns as they were spoken, and for those that have a further pause."""

    name: str
    cut_percent: float
    cut_hesitating_percent: float
    delay_ms_median: float
    delay_ms_p90: float


def rules() -> list[tuple[str, EndpointRule]]:
    """Return the rules to compare: fixed silences, and the end of a turn with each eagerness."""
    fixed = [(f"silence of {silence_ms} ms", _fixed(silence_ms)) for silence_ms in SILENCES_MS]
    return [*fixed, *((f"turn, {name}", EndpointRule(turn=True, eagerness=name)) for name in PATIENCE)]


def figures(name: str, rule: EndpointRule, recorded: Iterable[RecordedTurn], judge: Judge | None) -> RuleFigures:
    """Apply a rule to all turns. Only turns that were not cut have delays."""
    cut: dict[bool, list[bool]] = {False: [], True: []}
    delays = []
    for each in recorded:
        ended = end_ms(each, rule, judge)
        if ended is None:
            continue  # nothing was recognised
        cut[each.turn.hesitates].append(ended < each.turn.end_ms)
        if ended >= each.turn.end_ms:
            delays.append(ended - each.turn.end_ms)
    natural, hesitating = (_percent(cut[kind]) for kind in (False, True))
    delay = np.array(delays or [np.nan])
    return RuleFigures(name, natural, hesitating, float(np.median(delay)), float(np.percentile(delay, 90)))


def table(rows: Sequence[RuleFigures]) -> str:
    """Return a table with a line for each rule."""
    lines = [
        "| end of a segment | turns cut in two | those with a further pause | delay median / 90 % |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.cut_percent:.1f} % | {row.cut_hesitating_percent:.1f} % "
        f"| {row.delay_ms_median:.0f} / {row.delay_ms_p90:.0f} ms |"
        for row in rows
    ]
    return "\n".join(lines)


def _percent(cut: Sequence[bool]) -> float:
    return 100 * sum(cut) / len(cut) if cut else float("nan")


def _fixed(silence_ms: int) -> EndpointRule:
    # A silence below the least of a session is cut nearer to the present, and needs less time without activity.
    short = min(silence_ms, EndpointRule.quiet_ms)
    return EndpointRule(silence_ms, look_back_ms=min(EndpointRule.look_back_ms, short // 2), quiet_ms=short)


# Records what the recogniser knows after each step of turns of known length. Rules for their end are tried on it.

LEAD_MS, TAIL_MS = 400, 3200
LONGEST_SECONDS, FEWEST_WORDS = 10.0, 3
HESITATIONS_MS = (200, 1500)
TOGETHER = 16
_FAINT = 3
_FADE = 160  # samples


@dataclass(frozen=True)
class SpokenTurn:
    """The audio of a turn with silence around it. `hesitates`: a pause was put between two of its words."""

    name: str  # the name of the utterance
    hesitates: bool
    audio: Samples
    end_ms: int  # the end of its last word


@dataclass(frozen=True)
class Step:
    """The state of the recogniser after a step."""

    hypothesis: Hypothesis
    activity: ActivityReading
    silent: int  # the number of frames without activity at the beginning of the step
    last: tuple[HypothesisWord, ...] = ()  # the words if the segment ended here, in a pause after the first of them

    @property
    def paused(self) -> int:
        """The number of frames for which the speaker has paused."""
        return paused(self.hypothesis, self.activity.frames, self.activity.quiet)


@dataclass(frozen=True)
class RecordedTurn:
    """A turn and its steps."""

    turn: SpokenTurn
    steps: Sequence[Step]
    frame_ms: float

    @property
    def step_frames(self) -> int:
        """The length of a step."""
        return self.steps[0].activity.frames if self.steps else 0


def spoken_turns(
    corpus: Corpus, alignments: dict[str, Alignment], number: int | None, dice: Generator
) -> list[SpokenTurn]:
    """Return `number` utterances (default: all) as turns, each as it was spoken, and again with a further pause."""
    usable = [
        utterance
        for utterance in corpus.utterances
        if utterance.seconds <= LONGEST_SECONDS
        and len(utterance.text.split()) >= FEWEST_WORDS
        and utterance.name in alignments
        and alignments[utterance.name].aligned
    ]
    turns = []
    for index in dice.permutation(len(usable))[:number]:
        utterance, words = usable[index], alignments[usable[index].name].words
        turns += [_turn(corpus, utterance, words, dice, hesitates=False)]
        turns += [_turn(corpus, utterance, words, dice, hesitates=True)]
    return turns


def record(turns: Sequence[SpokenTurn], model: StreamingModel, search: Search, step_ms: int) -> Iterator[RecordedTurn]:
    """Recognise the turns, without an end of their segments. The search must have TOGETHER slots.

    `step_ms` is a step of the model.
    """
    frame_ms = TimeScale(model.sample_rate, model.frame_samples).frame_ms
    order = sorted(turns, key=lambda turn: len(turn.audio))
    for first in range(0, len(order), TOGETHER):
        group = order[first : first + TOGETHER]
        slots = list(range(len(group)))
        state = model.make_state(TOGETHER)
        model.reset(state, slots)
        search.reset(slots)
        rule = ActivityRule(frame_ms=frame_ms)
        trackers = [ActivityTracker(rule) for _ in group]
        steps: list[list[Step]] = [[] for _ in group]
        size = step_ms * SAMPLE_RATE // 1000
        for end in range(size, len(group[-1].audio) + 1, size):
            samples = np.stack([_piece(turn.audio, end - size, end) for turn in group])
            emissions = model.step(state, slots, samples)
            for slot, hypothesis in enumerate(search.advance(slots, emissions)):
                probabilities = probabilities_of(emissions[ACTIVITY][slot, :, 0].tolist())
                activity = trackers[slot].reading(probabilities)
                active = [probability >= rule.close_below for probability in probabilities]
                step = Step(hypothesis if activity.opened else NO_WORDS, activity, [*active, True].index(True))
                if step.paused * frame_ms >= LOOK_MS and step.hypothesis.running and not step.hypothesis.words:
                    step = replace(step, last=search.finish([slot])[0].words)
                steps[slot].append(step)
        yield from (RecordedTurn(turn, own, frame_ms) for turn, own in zip(group, steps, strict=True))


def end_ms(recorded: RecordedTurn, rule: EndpointRule, judge: Judge | None) -> float | None:
    """Return how much audio was heard when this rule ended the segment; None if it did not end it."""
    watch = TurnWatch(TurnRule(rule.eagerness, rule.longest_pause_ms), judge) if rule.turn else None
    frame_ms = recorded.frame_ms
    before = due = 0  # the frames before the step, and those in it after which the turn ends if they are silent
    for step in recorded.steps:
        if due and step.silent >= due:
            return (before + due) * frame_ms
        before, due, pause_ms = step.activity.frames, 0, None
        if watch is not None:
            paused_ms = step.paused * frame_ms
            spoken = step.activity.spoken
            spoken_ms = None if spoken is None else spoken * frame_ms
            pause_ms = watch.pause_ms(step.hypothesis, paused_ms, lambda step=step: step.last, spoken_ms)  # type: ignore[misc]
            if pause_ms is not None:
                due = frames_to_end(pause_ms, paused_ms, frame_ms, recorded.step_frames)
        ending = rule.segment_end(step.hypothesis, before, frame_ms, step.activity.quiet, pause_ms)
        if ending is not None and (step.hypothesis.words or step.last):
            return before * frame_ms
    return None


def _turn(
    corpus: Corpus, utterance: Utterance, words: Sequence[tuple[str, int, int]], dice: Generator, *, hesitates: bool
) -> SpokenTurn:
    spoken, end_ms = corpus.samples(utterance), words[-1][1] + words[-1][2]
    parts = [_silence(LEAD_MS, dice), spoken]
    pause_ms = 0
    if hesitates:
        low, high = np.log(HESITATIONS_MS)
        pause_ms = int(np.exp(dice.uniform(low, high)))
        behind = int(dice.integers(1, len(words)))  # the pause comes before this word
        place = (words[behind - 1][1] + words[behind - 1][2] + words[behind][1]) // 2 * SAMPLE_RATE // 1000
        fade = np.linspace(0, 1, _FADE)
        before, after = spoken[:place].astype(np.float32), spoken[place:].astype(np.float32)
        before[-_FADE:] *= fade[::-1][-len(before) :]
        after[:_FADE] *= fade[: len(after)]
        parts = [parts[0], before.astype(np.int16), _silence(pause_ms, dice), after.astype(np.int16)]
    audio = np.concatenate([*parts, _silence(TAIL_MS, dice)])
    return SpokenTurn(utterance.name, hesitates, audio, LEAD_MS + end_ms + pause_ms)


def _silence(milliseconds: int, dice: Generator) -> Samples:
    return dice.integers(-_FAINT, _FAINT + 1, milliseconds * SAMPLE_RATE // 1000).astype(np.int16)


def _piece(audio: Samples, start: int, end: int) -> Samples:
    return np.pad(audio[start:end], (0, end - start - len(audio[start:end])))
