"""Checks whether this machine has what Streamer needs, and says how to repair what is wrong. Changes nothing."""
