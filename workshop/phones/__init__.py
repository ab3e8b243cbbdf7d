"""Sequences of phones: an n-gram over them, the CTC-CRF loss that needs it, and alignments."""
