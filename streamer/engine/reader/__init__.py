"""Reads whole segments of speech once more, with a public model that has no state: Moonshine."""
