"""Measures the recogniser and the service on a GPU, or on a CPU in the same way: `scripts/measure/gpu.py`."""
