"""Which characters are written without spaces between them."""

from __future__ import annotations

import re
from typing import Final

# Kana, Chinese characters, and the marks and wide forms that stand between them.
_SPACELESS: Final = re.compile(
    "[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003134f]"
)


def is_spaceless(character: str) -> bool:
    """Whether no space stands between this character and others like it."""
    return _SPACELESS.match(character) is not None


def separator(before: str, after: str) -> str:
    """What stands between two words."""
    return "" if before and after and is_spaceless(before[-1]) and is_spaceless(after[0]) else " "
