"""Hotwords in the beam search: pronunciations, tries and bonuses."""
