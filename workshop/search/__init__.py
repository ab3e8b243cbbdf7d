"""Searches on cached emissions: for their results and cost, tuning, calibration and hotwords."""
