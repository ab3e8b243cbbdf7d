"""Texts for speech that has none: known sentences that were read, and the recogniser's own words where it is sure."""
