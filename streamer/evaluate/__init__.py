"""Evaluates recognition: computes error rates, speed and delays for recordings with reference texts."""
