"""Asks a service for the link with which others read a session along."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from streamer.base.web_address import reason_of

_PATH: Final = "/v1/captions"
_ANSWER_S: Final = 10.0


class SharingError(Exception):
    """The session cannot be shared. The message is a sentence for the user."""


def captions_address(url: str, token: str, key: str) -> str:
    """Return the address of the page that shows the session with this token. `url`: that of the websocket."""
    parts = urlsplit(url)
    site = ("https" if parts.scheme == "wss" else "http", parts.netloc)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = Request(urlunsplit((*site, _PATH, "", "")), json.dumps({"token": token}).encode(), headers)
    try:
        with urlopen(request, timeout=_ANSWER_S) as answer:
            page = str(json.load(answer)["page"])
    except HTTPError as error:
        raise SharingError(f"there are no captions: {_message(error)}") from error
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        raise SharingError(f"there are no captions: {reason_of(error, _ANSWER_S)}.") from error
    return urlunsplit((*site, "", "", "")) + page


def _message(error: HTTPError) -> str:
    """Return the sentence of the service, or else what HTTP says."""
    try:
        with error:
            return str(json.load(error)["error"]["message"])
    except (OSError, ValueError, LookupError, TypeError):
        return f"{reason_of(error)}."
