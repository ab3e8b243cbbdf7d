"""The description of the HTTP interface: at /openapi.json, and as a page at /docs that needs no other site."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from streamer import __version__
from streamer.bridge.access.upload_limits import UploadLimits
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import Response
from streamer.bridge.http.routes import Handler, Route
from streamer.wire.openapi import document
from streamer.wire.upload import JSON

OPENAPI: Final = "/openapi.json"
PAGE: Final = "/docs"
_Row = tuple[str, Mapping[str, Any], str]  # a name, its schema and its meaning
_HTML: Final = "text/html; charset=utf-8"


class Documentation:
    """The description in both forms, made once."""

    def __init__(self, limits: UploadLimits) -> None:
        self._description = document(__version__, limits.largest, limits.longest_s)

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        text = json.dumps(self._description, indent=2) + "\n"
        yield OPENAPI, Route({"GET": _handler(JSON, text)})
        yield PAGE, Route({"GET": _handler(_HTML, page(self._description))})


def page(description: Mapping[str, Any]) -> str:
    """Write the description as a page."""
    info = description["info"]
    parts = [f"<h1>{_safe(info['title'])} {_safe(info['version'])}</h1>", f"<p>{_safe(info['description'])}</p>"]
    parts.append(f'<p>For programs: <a href="{OPENAPI}">{OPENAPI}</a>. The page for speaking: <a href="/">/</a>.</p>')
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_safe(path)}</code></h2><p>{_safe(operation['summary'])}</p>")
            parts += _operation(operation)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = '<link rel="stylesheet" href="/docs.css">'
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<title>Streamer: HTTP interface</title>{style}</head>\n'
        f"<body><main>\n{body}\n</main></body>\n</html>\n"
    )


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    if "description" in operation:
        yield f"<p>{_safe(operation['description'])}</p>"
    rows = [(each["name"], each["schema"], each["description"]) for each in operation.get("parameters", ())]
    if rows:
        yield "<h3>Query</h3>" + _table(rows)
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        yield f"<h3>Body</h3><p>{', '.join(f'<code>{_safe(kind)}</code>' for kind in content)}</p>"
    if not rows:
        for kind in content.values():
            fields = kind["schema"].get("properties", {}).items()
            yield _table([(name, schema, schema.get("description", "")) for name, schema in fields])
    answers: list[_Row] = [(status, {}, answer["description"]) for status, answer in operation["responses"].items()]
    yield "<h3>Answers</h3>" + _table(answers)


def _table(rows: Sequence[_Row]) -> str:
    lines = [
        f"<tr><td><code>{_safe(name)}</code></td><td>{_safe(_kind(schema))}</td><td>{_safe(meaning)}</td></tr>"
        for name, schema, meaning in rows
    ]
    return "<table>" + "".join(lines) + "</table>"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "minimum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    if "items" in schema:
        return f"several: {_kind(schema['items'])}"
    return {"boolean": "true or false", "integer": "whole number", "string": "text"}.get(str(schema.get("type")), "")


def _safe(text: str) -> str:
    return html.escape(text)


def _handler(kind: str, text: str) -> Handler:
    async def serve(_: Request) -> Response:
        """Answer with this text."""
        return Response(HTTPStatus.OK, {"Content-Type": kind, "Cache-Control": "no-cache"}, text.encode())

    return serve
