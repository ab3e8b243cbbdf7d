"""Texts for speech without text: known sentences that were read, or words that the recogniser is sure of."""
