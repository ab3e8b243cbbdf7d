"""How the client goes on when another session of the service continues: pure, fed with messages."""

from __future__ import annotations

import pytest

from streamer.client.recovery import Progress
from streamer.client.sending import describe_audio
from tests.client.progress_cases import CASES, FAILURE, RESTART, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_told(case: Case) -> None:
    """Every event is passed on once, with the times, segments and numbers of one session."""
    progress = Progress(describe_audio(case.options))
    told = []
    for message in case.said:
        if message is RESTART:
            told += progress.restart(min(progress.cuts_ms))
        elif message is FAILURE:
            progress.failures += 1
        else:
            told += progress.receive(message)
    assert case.told is None or told == case.told
    assert case.cuts is None or progress.cuts_ms == case.cuts
    assert case.after is None or progress.after == case.after
    assert progress.failures == case.failures
    assert progress.release() == case.released
    assert progress.release() == []
