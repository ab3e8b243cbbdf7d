"""The table of all dialects, and the one of the page that shows how to make one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from streamer.base.events import Done
from streamer.wire.dialects.audio_first import AudioFirst
from streamer.wire.dialects.dialect import STOP, Hangup
from streamer.wire.dialects.formats import FORMATS, ROOTS
from tests.wire.dialects.dialect_steps import final, opened, started, take

PAGE = Path("docs/how-to/your-own-dialect.md")
MOST_LINES = 300


def test_each_format_has_one_path_and_one_name() -> None:
    """No two share one, and the root knows all of them."""
    assert len({kind.path for kind in FORMATS.values()}) == len(FORMATS)
    assert len({kind.protocol for kind in FORMATS.values()}) == len(FORMATS)
    assert set(FORMATS) < set(ROOTS)
    assert all(re.fullmatch("[a-z-]+", name) for name in ROOTS)


def test_a_format_is_a_small_module() -> None:
    """Each that stands on the shared base has less lines than the page says."""
    small = [kind for kind in FORMATS.values() if issubclass(kind, AudioFirst)]
    assert small
    for kind in small:
        assert len(Path(inspect.getfile(kind)).read_text().splitlines()) < MOST_LINES, kind


def test_the_page_shows_a_format_that_works() -> None:
    """What stands there can be copied."""
    [_, code, _] = re.split(r"```(?:python)?\n", PAGE.read_text(), maxsplit=2)
    module: dict[str, Any] = {}
    exec(code, module)
    client = opened(module["Lines"])
    steps = take(client, bytes(640))
    assert (started(steps)["written"], steps[1:]) == (True, [bytes(640)])
    assert take(client, "bye") == [STOP, Hangup(1000)]
    assert [text for message in (final("one"), Done(20)) for text in client.tell(message)] == ["one"]
