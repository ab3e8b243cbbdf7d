"""What all tests share."""

from __future__ import annotations

import os

# Tests run small computations, often beside a server: one thread each is the fastest. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
