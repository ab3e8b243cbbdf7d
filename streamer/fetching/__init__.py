"""Reads web addresses: recordings and public models come from there. Standard library only."""


def is_address(text: str) -> bool:
    """Return whether this is a web address, and not the name of a file."""
    return text.lower().startswith(("https://", "http://"))
