"""The figures about modules, packages and arrows."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here


def test_rooms_are_what_stands_directly_in_the_product(tmp_path: Path) -> None:
    """Modules, packages and lines are counted by house, and two imports of one room are one arrow."""
    files = {
        "streamer/__init__.py": '"""The package."""\n',
        "streamer/base/__init__.py": "",
        "streamer/base/text.py": "import re\n\n\n",
        "streamer/wire/__init__.py": "",
        "streamer/wire/events.py": "from streamer.base import text\nfrom streamer.base.text import join\n",
        "streamer/wire/dialects/__init__.py": "",
        "streamer/wire/dialects/openai.py": "from streamer.wire.events import Event\nimport streamer.base.text\n",
        "streamer/__main__.py": "from streamer import __version__\nfrom streamer.wire import events\n",
        "workshop/turns.py": "import streamer.base\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    lines = run_here("measure/rooms.py", tmp_path).stdout.splitlines()
    assert lines[2:4] == ["| `streamer/` | 4 | 4 | 9 | 2 |", "| `workshop/` | 1 | 0 | 1 | 1 |"]
    assert lines[-1] == "3 rooms, 2 arrows"
