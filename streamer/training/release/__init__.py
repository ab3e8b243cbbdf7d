"""Prepares new weights for a release: fits and measures everything that depends on them, and updates the documents."""
