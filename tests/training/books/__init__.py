"""Tests of the books for the language model."""
