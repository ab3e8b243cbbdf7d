"""The description of the plain HTTP interface in the form of OpenAPI. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.base.option_kinds import Service
from streamer.base.options import OPTIONS, foreign_options
from streamer.wire import native_upload
from streamer.wire.dialects import deepgram, openai_upload
from streamer.wire.dialects.deepgram_options import OPTIONS as DEEPGRAM_OPTIONS
from streamer.wire.dialects.deepgram_options import Treatment
from streamer.wire.upload import EVENTS, JSON, SESSION_OPTIONS

VERSION: Final = "3.1.0"
_BINARY: Final[JsonObject] = {"type": "string", "format": "binary"}
_TEXT: Final[JsonObject] = {"type": "string"}
_WHOLE: Final[JsonObject] = {"type": "integer"}
_NUMBER: Final[JsonObject] = {"type": "number"}
_FLAG: Final[JsonObject] = {"type": "boolean"}
_MEDIA: Final = ("application/octet-stream", "audio/*", "video/*")


# Options of the request itself. Those of the session follow; docs/reference/protocol.md explains them.
_REQUEST_OPTIONS: Final[Mapping[str, tuple[JsonObject, str]]] = {
    "format": ({"enum": list(native_upload.FORMATS), "default": "json"}, "The form of the answer."),
    "stream": (_FLAG, "Send server-sent events while the recording is recognised, even while it is being sent."),
}
_OPENAI_FIELDS: Final[Mapping[str, JsonObject]] = {
    "file": _BINARY,
    "response_format": {"enum": list(openai_upload.FORMATS), "default": "json"},
    "timestamp_granularities[]": {"type": "array", "items": {"enum": list(openai_upload.GRANULARITIES)}},
    "include[]": {"type": "array", "items": {"enum": [openai_upload.LOGPROBS]}},
    "stream": _FLAG,
    **{
        foreign.name: {**({"type": "array", "items": _TEXT} if foreign.name.endswith("[]") else _TEXT)}
        | {"description": foreign.meaning}
        for _, foreign in foreign_options(Service.OPENAI)
    },
}
_PROBLEMS: Final = {
    "400": "The request or an option is not valid.",
    "401": "A key is needed, or this one is not valid.",
    "408": "The body came too slowly.",
    "413": "The recording has too many bytes, or is too long.",
    "415": "The format is not known.",
    "422": "The recording holds no audio, is damaged, or takes too much to be decoded.",
    "429": "The caller has used its share; Retry-After says when to come back.",
    "503": "There is no room now; Retry-After says when to come back.",
}


def document(version: str, largest: int, longest_s: float) -> JsonObject:
    """Return the description. `largest`: the most bytes of a recording. `longest_s`: its most seconds."""
    limits = f"A recording has at most {largest} bytes and {longest_s:g} seconds."
    return {
        "openapi": VERSION,
        "info": {
            "title": "Streamer",
            "version": version,
            "description": f"Speech recognition of recordings. {limits} Live speech: the websocket /v1/stream.",
        },
        "security": [{}, {"key": []}],
        "paths": {
            native_upload.PATH: {"post": _transcribe()},
            openai_upload.PATH: {"post": _openai()},
            openai_upload.TRANSLATIONS: {"post": _openai(translates=True)},
            openai_upload.MODELS: {"get": _get("List the models.", "Models")},
            deepgram.PATH: {"post": _deepgram()},
            "/readyz": {"get": _get("Whether the service can recognise now.", None)},
        },
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _options() -> dict[str, tuple[JsonObject, str]]:
    """Return each option of a recording with its type and its meaning."""
    session: dict[str, tuple[JsonObject, str]] = {}
    for name in SESSION_OPTIONS:
        option = OPTIONS[name]
        session[name] = option.kind.schema(), f"{option.help[0].upper()}{option.help[1:]}."
    return {**_REQUEST_OPTIONS, **session}


def _transcribe() -> JsonObject:
    own = {kind: {"schema": _TEXT} for kind in native_upload.FORMATS.values() if kind != JSON}
    parameters = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": meaning}
        for name, (schema, meaning) in _options().items()
    ]
    fields = {name: {**schema, "description": meaning} for name, (schema, meaning) in _options().items()}
    form = {"type": "object", "required": ["file"], "properties": {**fields, "file": _BINARY}}
    return {
        "operationId": "transcribe",
        "summary": "Transcribe a recording.",
        "description": "The body is the recording, or a form with it as `file`. Options are in the query, or in fields "
        "before the file. Words are recognised while the recording is being sent.",
        "parameters": parameters,
        "requestBody": {
            "required": True,
            "content": {
                **{kind: {"schema": _BINARY} for kind in _MEDIA},
                "multipart/form-data": {"schema": form},
            },
        },
        "responses": {
            "200": _answer("The transcript.", {JSON: _of("Transcript"), EVENTS: {"schema": _TEXT}, **own}),
            **_problems("Problem", _PROBLEMS),
        },
    }


def _openai(*, translates: bool = False) -> JsonObject:
    form = {"type": "object", "required": ["file"], "properties": dict(_OPENAI_FIELDS)}
    content = {JSON: _of("OpenAITranscription"), EVENTS: {"schema": _TEXT}, "text/plain": {"schema": _TEXT}}
    problems = {status: why for status, why in _PROBLEMS.items() if status not in ("415", "422")}
    needs = "It needs a reader of many languages; without one, the answer is 400. " if translates else ""
    return {
        "operationId": "openaiTranslation" if translates else "openaiTranscription",
        "summary": f"{'Translate' if translates else 'Transcribe'} a recording for a client of OpenAI.",
        "description": f"{needs}Fields may come in any order. Fields that are not listed here are ignored.",
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}, JSON: _in_base64()}},
        "responses": {"200": _answer("The transcript.", content), **_problems("OpenAIProblem", problems)},
    }


def _in_base64() -> JsonObject:
    """Return the body that has a recording in base64 beside the fields of the form."""
    data = {"data": {**_TEXT, "description": "The recording in base64."}}
    recording = {"type": "object", "required": ["data"], "properties": data}
    fields = {name: schema for name, schema in _OPENAI_FIELDS.items() if name != "file"}
    properties = {**fields, "input_audio": recording}
    return {"schema": {"type": "object", "required": ["input_audio"], "properties": properties}}


def _deepgram() -> JsonObject:
    used = [
        option for option in DEEPGRAM_OPTIONS if option.treatment is Treatment.USED and "live:" not in option.meaning
    ]
    parameters = [
        {"name": option.name, "in": "query", "required": False, "schema": _TEXT, "description": option.meaning}
        for option in used
    ]
    problems = {status: why for status, why in _PROBLEMS.items() if status not in ("415", "422")}
    content = {JSON: {"schema": {"type": "object"}}}
    return {
        "operationId": "deepgramTranscription",
        "summary": "Transcribe a recording for a client of Deepgram.",
        "description": "Other options are ignored. Live speech is the websocket at the same path.",
        "parameters": parameters,
        "requestBody": {"required": True, "content": {kind: {"schema": _BINARY} for kind in _MEDIA}},
        "responses": {"200": _answer("The transcript.", content), **_problems("DeepgramProblem", problems)},
    }


def _get(summary: str, schema: str | None) -> JsonObject:
    content = {JSON: _of(schema) if schema else {"schema": {"type": "object"}}}
    return {"summary": summary, "responses": {"200": _answer(summary, content)}}


def _schemas() -> JsonObject:
    word = _object(word=_TEXT, start_ms=_WHOLE, end_ms=_WHOLE, confidence=_NUMBER)
    segment = _object(
        start_ms=_WHOLE, end_ms=_WHOLE, text=_TEXT, confidence=_NUMBER, words={"type": "array", "items": word}
    )
    openai_error = _object(
        message=_TEXT, type=_TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]}
    )
    return {
        "Transcript": _object(
            text=_TEXT, duration_ms=_WHOLE, complete=_FLAG, segments={"type": "array", "items": segment}
        ),
        "Problem": _object(error=_object(code=_TEXT, message=_TEXT)),
        "OpenAITranscription": _object(text=_TEXT),
        "OpenAIProblem": _object(error=openai_error),
        "DeepgramProblem": _object(err_code=_TEXT, err_msg=_TEXT, request_id=_TEXT),
        "Models": _object(object=_TEXT, data={"type": "array", "items": _object(id=_TEXT, object=_TEXT)}),
    }


def _problems(schema: str, reasons: Mapping[str, str]) -> JsonObject:
    return {status: _answer(why, {JSON: _of(schema)}) for status, why in reasons.items()}


def _answer(description: str, content: Mapping[str, object]) -> JsonObject:
    return {"description": description, "content": content}


def _of(schema: str) -> JsonObject:
    return {"schema": {"$ref": f"#/components/schemas/{schema}"}}


def _object(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties}
