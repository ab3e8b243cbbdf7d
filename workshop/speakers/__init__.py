"""Conversations made of recordings of single speakers, and how well their speakers are told apart."""
