"""Values that several parts share are the same in all of them."""

from __future__ import annotations

from dataclasses import fields

from streamer.base.limits import SEARCHES, STEPS_MS
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.session.deadlines import Limits
from streamer.commands.settings.serve import ServeSettings
from streamer.engine.stream_options import StreamOptions
from streamer.wire.options import Start


def test_a_session_without_options_is_a_stream_without_options() -> None:
    """The defaults of the wire are those of the engine."""
    sent = Start().model_options()
    assert sent.keys() <= {each.name for each in fields(StreamOptions)}
    assert StreamOptions.from_dict(_as_json(sent), STEPS_MS, SEARCHES) == StreamOptions()


def test_a_service_without_settings_waits_as_its_parts_do() -> None:
    """The defaults of `serve` are those of the session and of the port."""
    settings, limits, port = ServeSettings(), Limits(), PortPolicy()
    assert (settings.start_limit, settings.idle_limit, settings.resume_limit) == (
        limits.start_s,
        limits.idle_s,
        limits.resume_s,
    )
    assert (settings.max_message, settings.handshake_limit) == (port.largest_message, port.handshake_s)


def _as_json(options: dict[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
