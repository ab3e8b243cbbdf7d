"""Requests for keys for a short time, in OpenAI's and in Deepgram's form, and the answers to them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.wire.dialects.dialect import Languages
from streamer.wire.dialects.openai_settings import Mistake, Settings, update_settings
from streamer.wire.errors import bad, quote

LARGEST_REQUEST: Final = 16 * 1024  # bytes
# How long a key may be valid, and how long it is if the request does not say it.
OPENAI_BOUNDS_S: Final = (10, 7200)
OPENAI_S: Final = 600
DEEPGRAM_BOUNDS_S: Final = (1, 3600)
DEEPGRAM_S: Final = 30

GRANT_PATH: Final = "/v1/auth/grant"  # Deepgram's


class OpenAISecretRequest:
    """A request for a client secret, with the settings of the sessions that it opens."""

    def __init__(self, body: bytes, models: Mapping[str, Languages], *, flat: bool) -> None:
        """`flat`: the older shape, in which the body is the session. Raise WireError if the request is not valid."""
        request = _object(body)
        session = request if flat else request.get("session") or {}
        expiry = request.get("expires_after") or {}
        if not isinstance(expiry, dict):
            raise bad(ErrorCode.BAD_OPTION, f"'expires_after' must be an object, not {quote(expiry)}.")
        self.seconds = _seconds("expires_after.seconds", expiry.get("seconds"), OPENAI_BOUNDS_S, OPENAI_S)
        self._flat = flat
        try:
            self._settings = update_settings(Settings(), session, models)
        except Mistake as mistake:
            raise bad(ErrorCode.BAD_OPTION, mistake.message) from None
        self.content = json.dumps(session)  # what the short key is for

    def answer(self, secret: str, expires_at: int, session_id: str) -> JsonObject:
        """Return the content of the answer with this secret."""
        key = {"value": secret, "expires_at": expires_at}
        if self._flat:
            return {**self._settings.flat_view(session_id), "client_secret": key}
        return {**key, "session": self._settings.view(session_id)}


class DeepgramGrantRequest:
    """A request for an access token."""

    def __init__(self, body: bytes) -> None:
        """Raise WireError if the request is not valid."""
        self.seconds = _seconds("ttl_seconds", _object(body).get("ttl_seconds"), DEEPGRAM_BOUNDS_S, DEEPGRAM_S)

    def answer(self, token: str) -> JsonObject:
        """Return the content of the answer with this token."""
        return {"access_token": token, "expires_in": self.seconds}


def _object(body: bytes) -> JsonObject:
    try:
        request = json.loads(body) if body.strip() else {}
        if isinstance(request, dict):
            return request
    except (ValueError, RecursionError):
        pass
    raise bad(ErrorCode.BAD_REQUEST, "The body must be a JSON object, or empty.")


def _seconds(name: str, value: object, bounds: tuple[int, int], default: int) -> int:
    if value is None:
        return default
    low, high = bounds
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        raise bad(ErrorCode.BAD_OPTION, f"'{name}' must be a whole number from {low} to {high}, not {quote(value)}.")
    return value
