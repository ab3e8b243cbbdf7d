"""Sessions of the soak test that send a recording over HTTP, in the native format, OpenAI's or Deepgram's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from streamer.testing.soak.formats.foreign_session import PASSING, ForeignSession, TriedAgain
from streamer.testing.soak.formats.recorded import BOUNDARY, file_of, form_around, post
from streamer.wire import native_upload, openai_upload
from streamer.wire.dialects import deepgram_live

Word = dict[str, Any]


class UploadSession(ForeignSession):
    """A session with one request. The file is cut into pieces in the proportions of the plan."""

    async def converse(self) -> str:
        """Send the recording, and read the answer."""
        path, kind, before, after = self._request()
        status, content = await post(self.netloc, path, kind, self._body(before, after))
        answer = content.decode()
        if status in PASSING or b"event: error" in content:
            code = _error(answer)
            if code == "failed":
                return "failed"
            raise TriedAgain(code)
        if status != 200:
            return f"status {status} {answer[:200]}"
        self._read(answer)
        self.record.close_code = 1000
        return "done"

    async def _body(self, before: bytes, after: bytes) -> AsyncIterator[bytes]:
        file, length = file_of(self.plan), len(self.plan.audio)
        if before:
            yield before
        place = 0
        async for piece in self.pieces():
            end = len(file) * piece[1] // length if piece is not None else place
            if end > place:
                yield file[place:end]
                place = end
        if after:
            yield after

    def _request(self) -> tuple[str, str, bytes, bytes]:
        """Return the path, the type of the body, and the bytes before and after the file."""
        if self.plan.kind == "openai_file":
            form = f"multipart/form-data; boundary={BOUNDARY}"
            return openai_upload.PATH, form, *form_around({"model": "whisper-1", **self.ways})
        path = deepgram_live.PATH if self.plan.kind == "deepgram_file" else native_upload.PATH
        return f"{path}?{urlencode(self.ways)}", "audio/wav", b"", b""

    def _read(self, answer: str) -> None:
        """Note the words of the answer."""
        ways = self.ways
        if self.plan.kind == "deepgram_file":
            [channel] = json.loads(answer)["results"]["channels"]
            self.final([_of_seconds(word) for word in channel["alternatives"][0]["words"]])
        elif self.plan.kind == "openai_file":
            self._read_openai(answer, ways)
        elif ways.get("format") == "json":
            for segment in json.loads(answer)["segments"]:
                self.final(segment["words"])
        else:
            lines = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith(("data: ", "{"))]
            for event in map(json.loads, lines):
                if event["type"] == "final":
                    self.final(event["words"])
                elif event["type"] == "partial":
                    self.partial(event["text"])

    def _read_openai(self, answer: str, ways: dict[str, Any]) -> None:
        if ways.get("stream"):
            events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
            deltas = "".join(event["delta"] for event in events if event["type"] == "transcript.text.delta")
            if events[-1]["text"] != deltas:
                self.record.wrong.append(f"the deltas {deltas!r} are not the text {events[-1]['text']!r}")
            self.final_text(deltas)
        elif ways["response_format"] == "text":
            self.final_text(answer)
        elif ways["response_format"] == "json":
            self.final_text(json.loads(answer)["text"])
        else:
            self.final([_of_seconds(word) for word in json.loads(answer)["words"]])


def _of_seconds(word: Word) -> Word:
    return {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}


def _error(answer: str) -> str:
    """Return the code of a refusal in any of these formats. It is the whole answer, or an event after others."""
    _, event, data = answer.partition("event: error\n")
    line = data.splitlines()[0] if event else answer
    error = json.loads(line[line.index("{") :])
    if "err_msg" in error:
        return "failed" if "recogniser failed" in error["err_msg"] else str(error["err_code"])
    return str(error.get("error", error)["code"])
