"""The name under which Streamer is installed. In the public index, the name `streamer` belongs to another package."""

from typing import Final

NAME: Final = "streamer-asr"


def install_command(part: str = "") -> str:
    """Return the command that installs Streamer, or adds one of the optional parts of pyproject.toml."""
    return f"pip install '{NAME}[{part}]'" if part else f"pip install {NAME}"
