"""Searches on kept emissions: what they find, what they cost, and how their weights are tuned."""
