"""A program with deepgram-sdk that looks up models and projects, and gives a page a token for a short time.

It prints what the SDK made of the answers, as JSON. The environment names the authority of the certificate.
"""

from __future__ import annotations

import json
import sys
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
        "another token": refused(page.auth.v1.tokens.grant),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
