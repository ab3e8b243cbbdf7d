"""Runs searches on cached emissions: results and cost, tuning of weights, calibration, hotwords."""
