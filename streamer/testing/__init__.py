"""For tests of clients: a real service that recognises its test audio exactly, and whose connections can fail.

    from streamer.client import connect
    from streamer.testing import ExactService, say

    with ExactService() as service, connect(service.url) as session:
        session.send(say("hello world"))
        service.cut()  # the network fails; a client that copes loses nothing
        session.stop()
        assert [event["text"] for event in session if event["type"] == "final"] == ["hello world"]

Triton, the bridge and the protocol are the real ones. Only the model is different: it reads letters from the level of
the audio. It needs the packages of `streamer-asr[embedded]`. docs/how-to/testing.md describes the rest.
"""

from streamer.testing.exact_service import ExactService
from streamer.testing.exact_speech import say, silence
from streamer.testing.faulty_proxy import FaultyProxy

__all__ = ["ExactService", "FaultyProxy", "say", "silence"]
