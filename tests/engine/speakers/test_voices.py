"""Prints become voices: while they are heard, and in a second look at all of them."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.speakers.networks import PRINT_NUMBERS, RATE, Run, VoiceNetworks
from streamer.engine.speakers.voices import (
    NOBODY,
    Pieces,
    Voices,
    look_again,
    read_pieces,
    told_until,
    turns_of,
    written_pieces,
)
from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks
from tests.engine.speakers.talks import conversation

STEP = 5 * RATE // 2


def _print(voice: int, chance: np.random.Generator, noise: float = 0.03) -> np.ndarray:  # type: ignore[type-arg]
    """Return a print of one of several voices that have nothing in common."""
    vector = np.zeros(PRINT_NUMBERS)
    vector[voice] = 1.0
    vector += chance.normal(0, noise, PRINT_NUMBERS)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _run(start_s: float, seconds: float, print: np.ndarray | None) -> Run:  # type: ignore[type-arg]
    return Run(round(start_s * RATE), round((start_s + seconds) * RATE), seconds, print)


def _pieces(order: list[int], seconds: float = 3.0, noise: float = 0.03) -> Pieces:
    chance = np.random.default_rng(1)
    runs = [_run(4.0 * at, seconds, _print(voice, chance, noise)) for at, voice in enumerate(order)]
    return Voices().take(runs, 0, 0)


def test_a_voice_that_returns_keeps_its_number() -> None:
    assert _pieces([5, 7, 5, 9, 7, 5])["voice"].tolist() == [0, 1, 0, 2, 1, 0]


def _between(one: int, other: int, share: float) -> np.ndarray:  # type: ignore[type-arg]
    """Return a print that is between those of two voices."""
    vector = np.zeros(PRINT_NUMBERS)
    vector[one], vector[other] = 1 - share, share
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def test_a_voice_that_was_taken_for_another_gets_a_number_of_its_own() -> None:
    """A sound between two voices makes them one at first. When more of both was heard, they are two."""
    prints = [_between(1, 2, share) for share in (0.0, 0.45, 0.9, 0.0, 1.0, 0.0, 1.0)]
    runs = [_run(4.0 * at, 3.0, print) for at, print in enumerate(prints)]
    told = Voices().take(runs, 0, 0)["voice"].tolist()
    assert told[:2] == [0, 0]
    assert told[-4:] == [0, 1, 0, 1]


def test_a_short_sound_may_be_less_like_its_voice() -> None:
    """What makes two long sounds two voices is no more than the doubt about a short one."""
    other = np.zeros(PRINT_NUMBERS, np.float32)
    other[1], other[2] = 0.38, np.sqrt(1 - 0.38**2)
    first = _run(0.0, 3.0, _between(1, 2, 0.0))
    for seconds, told in ((3.0, [0, 1]), (1.0, [0, 0])):
        assert Voices().take([first, _run(4.0, seconds, other)], 0, 0)["voice"].tolist() == told


def test_two_voices_that_turn_out_to_be_one_are_merged_once() -> None:
    """The second number is told no more, and nothing is merged a second time, even from a memory."""
    voices, chance = Voices(), np.random.default_rng(1)
    lone = [_run(4.0 * at, 3.0, _print(voice, chance)) for at, voice in enumerate([5, 7, 5, 7])]
    assert voices.take(lone, 0, 0)["voice"].tolist() == [0, 1, 0, 1]
    assert voices.merge() is None
    bridge = [_run(20.0 + 4.0 * at, 3.0, _between(5, 7, 0.5)) for at in range(6)]
    told = voices.take(bridge, 0, 0)["voice"].tolist()
    assert set(told) <= {0, 1}
    assert voices.merge() == (1, 0)
    again = Voices(voices.written)
    assert again.take([_run(60.0, 3.0, _print(7, chance))], 0, 0)["voice"].tolist() == [0]
    assert again.merge() is None


def test_enrolled_voices_have_the_first_numbers() -> None:
    """Whoever was enrolled is known from the first word on, whether in sight of a memory or in a second look."""
    chance, voices = np.random.default_rng(1), Voices()
    before = [
        voices.enrol([_run(0.0, 3.0, _print(each, chance))], -10 * RATE * (at + 1), at)
        for at, each in enumerate((7, 5))
    ]
    assert [len(pieces) for pieces in before] == [1, 1]
    runs = [_run(4.0 * at, 3.0, _print(voice, chance)) for at, voice in enumerate([9, 5, 7, 9])]
    told = Voices(voices.written).take(runs, 0, 0)
    assert told["voice"].tolist() == [2, 1, 0, 2]
    everything = np.concatenate([*before, told])
    for count in (0, 3):
        again = look_again(everything, count)
        assert [voice for *_, voice in turns_of(again)] == [2, 1, 0, 2]


def test_an_enrolled_voice_is_never_forgotten_or_merged_into_another() -> None:
    chance, voices = np.random.default_rng(1), Voices()
    for at in range(2):
        voices.enrol([_run(0.0, 8.0, _print(5, chance))], -10 * RATE * (at + 1), at)
    for _ in range(40):
        voices.take([_run(4.0 * at, 3.0, _print(7, chance)) for at in range(10)], 0, 0)
    assert voices.merge() is None
    assert voices.take([_run(0.0, 3.0, _print(5, chance))], 0, 0)["voice"].tolist() == [0]


def test_a_recording_in_which_nobody_speaks_enrols_nobody() -> None:
    chance = np.random.default_rng(1)
    assert len(Voices().enrol([_run(0, 0.5, _print(5, chance)), _run(1, 2.0, None)], -10 * RATE, 0)) == 0


def test_a_memory_goes_on_where_it_was_written() -> None:
    chance = np.random.default_rng(1)
    runs = [_run(4.0 * at, 3.0, _print(voice, chance)) for at, voice in enumerate([5, 7, 9, 7])]
    whole = Voices()
    expected = whole.take(runs, 0, 0)["voice"].tolist()
    memory, found = b"", []
    for run in runs:
        voices = Voices(memory)
        found += voices.take([run], 0, 0)["voice"].tolist()
        memory = voices.written
    assert found == expected
    assert memory == whole.written


@pytest.mark.parametrize("memory", [b"x", b"\x05\x00" + bytes(12)])
def test_what_is_no_memory_is_refused(memory: bytes) -> None:
    with pytest.raises(ValueError, match=r"memory|buffer"):
        Voices(memory)


def test_a_short_sound_is_no_new_voice() -> None:
    chance = np.random.default_rng(1)
    voices = Voices()
    runs = [_run(0, 3.0, _print(5, chance)), _run(4, 0.5, _print(7, chance)), _run(5, 0.2, None)]
    assert voices.take(runs, 0, 0)["voice"].tolist() == [0, 0, 0]


def test_the_first_sound_belongs_to_nobody_if_it_has_no_print() -> None:
    pieces = Voices().take([_run(0, 0.2, None)], 0, 0)
    assert pieces["voice"].tolist() == [NOBODY]
    assert turns_of(pieces) == []


def test_there_are_no_more_voices_than_are_known() -> None:
    chance = np.random.default_rng(1)
    runs = [_run(4.0 * at, 3.0, _print(voice, chance)) for at, voice in enumerate([1, 2, 3, 4])]
    assert max(Voices().take(runs, 0, 0, most=2)["voice"]) == 1


def test_pieces_begin_where_the_sound_is_new() -> None:
    chance = np.random.default_rng(1)
    pieces = Voices().take([_run(1.0, 4.0, _print(1, chance))], 10 * RATE, 13 * RATE)
    assert (pieces["start"][0], pieces["end"][0]) == (13 * RATE, 15 * RATE)


def test_speech_that_has_just_begun_is_told_later() -> None:
    """A short run at the end of a window waits, unless too little would be told; what overlaps it is cut there."""
    chance = np.random.default_rng(1)
    long, short = _run(0.0, 4.0, _print(1, chance)), _run(3.0, 1.0, _print(2, chance))
    end = 4 * RATE
    assert told_until([long, short], 0, 0, end) == 3 * RATE
    assert told_until([long, short], 0, 2 * RATE + 1, end) == end
    assert told_until([long, _run(3.0, 0.8, None)], 0, 0, end) == end  # it is over
    assert told_until([], 0, 0, end) == end
    pieces = Voices().take([long, short], 0, 0, until=3 * RATE)
    assert pieces["end"].tolist() == [3 * RATE]


def test_written_pieces_can_be_joined() -> None:
    first, second = _pieces([1, 2]), _pieces([3])
    joined = read_pieces(written_pieces(first) + written_pieces(second))
    assert (joined == np.concatenate([first, second])).all()


def test_a_second_look_joins_what_was_told_as_two() -> None:
    pieces = _pieces([5, 7, 5, 7, 5])
    pieces["voice"] = [0, 1, 2, 1, 3]  # as if the voice had not been recognised again
    assert look_again(pieces)["voice"].tolist() == [0, 1, 0, 1, 0]


def test_a_second_look_divides_what_was_told_as_one() -> None:
    pieces = _pieces([5, 7, 9, 7])
    pieces["voice"] = 0
    assert look_again(pieces)["voice"].tolist() == [0, 1, 2, 1]


def test_a_second_look_finds_as_many_voices_as_it_is_told() -> None:
    pieces = _pieces([5, 5, 7, 7, 9, 9])
    for count in (1, 2, 3):
        assert len(set(look_again(pieces, count)["voice"].tolist())) == count


def test_a_short_sound_takes_the_place_of_nobody_if_the_number_is_known() -> None:
    chance = np.random.default_rng(1)
    order, lengths = [5, 7, 5, 9, 7], [3.0, 3.0, 3.0, 1.0, 3.0]
    runs = [_run(4.0 * at, lengths[at], _print(voice, chance)) for at, voice in enumerate(order)]
    # The second and the first voice are more alike than either is like the cough in between.
    alike = [run if at == 3 else _run(4.0 * at, 3.0, _like(run.print)) for at, run in enumerate(runs)]
    found = look_again(Voices().take(alike, 0, 0), 2)["voice"].tolist()
    assert [found[at] for at in (0, 1, 2, 4)] == [0, 1, 0, 1]


def _like(print: np.ndarray | None) -> np.ndarray:  # type: ignore[type-arg]
    """Return a print with something that all others with it have too."""
    assert print is not None
    vector = print.copy()
    vector[100] += 0.6
    return vector / np.linalg.norm(vector)


def test_a_second_look_gives_short_sounds_to_the_nearest() -> None:
    chance = np.random.default_rng(1)
    runs = [_run(0, 3.0, _print(5, chance)), _run(10, 3.0, _print(7, chance)), _run(13.1, 0.2, None)]
    assert look_again(Voices().take(runs, 0, 0))["voice"].tolist() == [0, 1, 1]


def test_a_second_look_at_nothing_is_nothing() -> None:
    assert len(look_again(_pieces([]))) == 0
    silent = Voices().take([_run(0, 0.2, None)], 0, 0)
    assert look_again(silent)["voice"].tolist() == [NOBODY]


def test_a_second_look_at_hours_of_speech_finds_the_voices() -> None:
    order = [number * 7 % 5 for number in range(4_500)]
    found = look_again(_pieces(order))["voice"]
    assert len(set(found.tolist())) == 5
    assert len({(voice, told) for voice, told in zip(order, found.tolist(), strict=True)}) == 5


def test_turns_join_the_pieces_of_a_voice() -> None:
    pieces = _pieces([5, 5, 7], seconds=3.9)
    assert turns_of(pieces) == [(0, round(7.9 * RATE), 0), (8 * RATE, round(11.9 * RATE), 1)]


def test_two_people_are_told_apart_in_windows_of_their_conversation() -> None:
    library = find_speaker_networks()
    assert library is not None
    networks = VoiceNetworks(read_speaker_networks(library))
    samples, spoken = conversation()
    memory, parts, since = b"", [], 0
    for end in [*range(STEP, len(samples), STEP), len(samples)]:
        begin = max(0, end - 10 * RATE)
        voices = Voices(memory)
        parts.append(voices.take(networks.hear(samples[begin:end], since - begin), begin, since))
        memory, since = voices.written, end
    pieces = np.concatenate(parts)
    for told in (pieces, look_again(pieces), look_again(pieces, 2)):
        turns = turns_of(told)
        assert {voice for *_, voice in turns} == {0, 1}
        for start, end, who in spoken:
            own = sum(max(0, min(end, b) - max(start, a)) for a, b, voice in turns if voice == who)
            others = sum(max(0, min(end, b) - max(start, a)) for a, b, voice in turns if voice != who)
            assert own > 0.6 * (end - start)
            assert others < 0.1 * (end - start)
