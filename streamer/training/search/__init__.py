"""Searches on kept emissions: what they find and cost, tuning of weights, calibration, hotwords."""
