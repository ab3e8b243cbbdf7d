"""The characters of tables with pieces of bytes."""

from __future__ import annotations

# The characters that stand for bytes in a table with pieces of bytes, as the training of such models has them.
RANGES = ((256, 287), (32, 126), (288, 305), (308, 318), (321, 328), (330, 382), (384, 422))
STANDS_FOR = [chr(code) for first, last in RANGES for code in range(first, last + 1)]
