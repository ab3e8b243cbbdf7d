"""Reads web addresses: recordings and public models come from there. Standard library only."""


def is_address(text: str) -> bool:
    """Whether this is an address in the web, and not a file."""
    return text.lower().startswith(("https://", "http://"))
