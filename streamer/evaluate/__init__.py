"""Evaluates recognition: recordings with reference texts in; error rates, speed and delays out."""
