"""Audio that stands for a text."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.testing import say, silence


def test_a_letter_lasts_as_long_as_any_other() -> None:
    """All letters and spaces have the same length, and the audio ends after the last word."""
    assert len(say("a")) == len(say("z")) == 2 * 1920
    assert len(say("a b")) == 4 * 1920
    assert say("it's").dtype == np.int16
    assert len(silence(1000)) == 16000
    assert not silence(10).any()


def test_what_cannot_be_said_is_named() -> None:
    """Figures, capitals and signs are refused, because the model has no letters for them."""
    with pytest.raises(ValueError, match="'!1H' cannot be said: only small letters"):
        say("Hi 1!")
