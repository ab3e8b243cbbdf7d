"""A program with deepgram-sdk that looks up models and projects, names an address, and gives a page a token.

It prints what the SDK made of the answers, as JSON. The environment names the authority of the certificate.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deepgram import DeepgramClient  # type: ignore[import-not-found,unused-ignore]
from deepgram.environment import DeepgramClientEnvironment  # type: ignore[import-not-found,unused-ignore]


def refused(ask: Any) -> list[Any]:
    """The error that this raises."""
    try:
        ask()
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), getattr(error, "body", None)]
    return ["answered"]


@contextmanager
def site(recording: Path) -> Iterator[str]:
    """The address of the recording on a site of its own."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(recording.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{recording.name}"
        server.shutdown()


def main(host: str, recording: Path, key: str) -> None:
    """Use the service at this host and port."""
    http, websocket = f"https://{host}", f"wss://{host}"
    here = DeepgramClientEnvironment(base=http, production=websocket, agent=websocket, agent_rest=http)
    client, wrong = (DeepgramClient(api_key=each, environment=here) for each in (key, "wrong"))
    manage = client.manage.v1
    [project] = manage.projects.list().projects
    [model] = manage.models.list().stt
    token = client.auth.v1.tokens.grant(ttl_seconds=60)
    page = DeepgramClient(access_token=token.access_token, environment=here)
    with page.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=16_000):
        opened = True
    with site(recording) as address:
        fetched = client.listen.v1.media.transcribe_url(url=address, model="nova-3")
    recorded = page.listen.v1.media.transcribe_file(request=recording.read_bytes(), model="nova-3")
    told = {
        "project": [project.name, manage.projects.get(project.project_id).project_id == project.project_id],
        "models": [model.name, manage.models.get(model.uuid_).name],
        "models of the project": [each.name for each in manage.projects.models.list(project.project_id).stt],
        "keys": refused(lambda: manage.projects.keys.list(project.project_id)),
        "wrong key": refused(wrong.manage.v1.models.list),
        "expires": token.expires_in,
        "opened": opened,
        "recorded": recorded.results.channels[0].alternatives[0].transcript,
        "fetched": fetched.results.channels[0].alternatives[0].transcript,
        "another token": refused(page.auth.v1.tokens.grant),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
