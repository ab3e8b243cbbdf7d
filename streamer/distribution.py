"""The name under which Streamer is installed; on the public index, `streamer` is somebody else's package."""

from typing import Final

NAME: Final = "streamer-asr"


def install_command(part: str = "") -> str:
    """What installs Streamer, or adds one of the optional parts of pyproject.toml to it."""
    return f"pip install '{NAME}[{part}]'" if part else f"pip install {NAME}"
