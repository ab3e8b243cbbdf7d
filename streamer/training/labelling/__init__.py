"""Finds texts for speech without text: known sentences that were read, or the recogniser's own words if it is sure."""
