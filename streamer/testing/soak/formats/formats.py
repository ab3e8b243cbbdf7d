"""Runs a session in a foreign format, and checks it: each word once, in order, at its time, and no others."""

from __future__ import annotations

from streamer.testing.soak.formats.deepgram_session import DeepgramSession
from streamer.testing.soak.formats.foreign_plan import UPLOADS
from streamer.testing.soak.formats.foreign_session import ForeignSession
from streamer.testing.soak.formats.realtime_session import RealtimeSession
from streamer.testing.soak.formats.upload_session import UploadSession
from streamer.testing.soak.scripted_client import SessionRecord
from streamer.testing.soak.session_check import Verdict, count, word_times
from streamer.testing.soak.session_plan import SessionPlan

SESSIONS: dict[str, type[ForeignSession]] = {
    "deepgram": DeepgramSession,
    "openai_realtime": RealtimeSession,
    **dict.fromkeys(UPLOADS, UploadSession),
}


async def run_foreign(plan: SessionPlan, url: str, began: float) -> SessionRecord:
    """Carry out a plan, and return the record."""
    return await SESSIONS[plan.kind](plan, url, began).run()


def check_foreign(record: SessionRecord, *, disturbed: bool) -> Verdict:
    """Check everything about a session. `disturbed`: there was a fault during the session or just before."""
    verdict, plan = Verdict(), record.plan
    verdict.broken += record.wrong
    ends = plan.ends | ({"failed"} if disturbed else set())
    if record.ended not in ends:
        verdict.broken.append(f"it ended with {record.ended!r} instead of {' or '.join(sorted(ends))}")
    [speech] = plan.speeches
    finals = [event for _, event in record.events]
    words = [word for final in finals for word in final["words"]]
    # If the client has gone in the middle, no words are owed to it.
    owed_ms = record.sent / plan.bytes_per_ms if record.ended == "done" else 0.0
    count([word["word"] for word in words], speech.words, owed_ms, verdict, exact=True)
    if all("start_ms" in word for word in words):
        verdict.broken += word_times(finals, speech.words, plan.late_ms)
    return verdict
