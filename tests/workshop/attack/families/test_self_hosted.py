"""What is sent to the formats of services that people run themselves."""

from __future__ import annotations

import random

import pytest

from streamer.wire.dialects import soniox
from workshop.attack.families.self_hosted import FORMATS, texts_without_end


@pytest.mark.parametrize("seed", range(200))
def test_wild_texts_end_no_session(seed: int) -> None:
    """No text is empty, which is the end of Soniox' format, so every word of the speech among them must arrive."""
    [format] = [format for format in FORMATS if format.path == soniox.PATH]
    assert all(texts_without_end(random.Random(seed), format))
