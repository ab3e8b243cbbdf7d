"""A model repository for a real Triton whose models read words from levels: what was said is known exactly.

The adapter is that of the shipped model, around another recogniser. Models that cannot work are made here, too.
"""

from __future__ import annotations

from pathlib import Path

from streamer.triton.model_config import CONFIG, config_text, configured, model_config
from streamer.triton.repository import asr_repository, linked_model

SHIPPED = asr_repository() / "streaming_asr"
_LEVELS = """
from streamer.engine.recogniser import Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.testing.level_model import UNITS, LevelModel


def load_recogniser(folder, *, slots, device, idle_limit_s):
    searches = {"lexicon": GreedySearch(UNITS, slots)}
    return Recogniser(LevelModel(), searches, slots=slots, idle_limit_s=idle_limit_s)
"""
Fault = tuple[str, str]
# What is wrong with a model, as the source of its adapter with something put in the place of something else.
FAULTS: dict[str, Fault] = {
    "does not load": ("load_recogniser(\n", 'raise_("no weights")(\n'),
    "fails": ("self._recogniser.step(", 'raise_("no sound")('),
    "says nothing": ("texts = [as_json(event) for event in events]", "texts = []"),
    "talks nonsense": ("text.encode()", "b'nonsense'"),
    "hangs": (
        "with self._lock:\n            owed",
        "import time; time.sleep(0 if self._recogniser.live else 12)\n        with self._lock:\n            owed",
    ),
}
# It works until there is a file `hang` beside it, and then never again.
HANGS_LATER: Fault = (
    FAULTS["hangs"][0],
    "import time; time.sleep(3600 * Path(__file__).resolve().with_name('hang').exists())\n"
    "        with self._lock:\n            owed",
)
_RAISE = """

def raise_(why):
    raise RuntimeError(why)
"""


def level_model(
    repository: Path, name: str, *, slots: int = 64, instances: int = 1, fault: Fault | None = None
) -> None:
    """Puts a model with this name into the repository; with a fault one that cannot work."""
    source = (SHIPPED / "1" / "model.py").read_text()
    loading = "from streamer.engine.bundle import load_recogniser\n"
    assert source.count(loading) == 1
    source = source.replace(loading, _LEVELS + _RAISE)
    if fault:
        right, wrong = fault
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    config = configured(model_config(SHIPPED), name=name, instances=instances, slots=slots)
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / CONFIG).write_text(config_text(config))
    (folder / "1" / "model.py").write_text(source)


def shipped_model(repository: Path, name: str) -> None:
    """Puts the shipped model into the repository under this name."""
    repository.mkdir(parents=True, exist_ok=True)
    linked_model(SHIPPED, repository / name)
