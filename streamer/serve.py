"""The command `streamer serve`: the service in the foreground, until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from typing import Final

from streamer.interrupt import run_until_signal
from streamer.triton import TritonError

# How long sessions may go on by themselves after SIGTERM. With all that can follow it stays below 30 s.
GRACE_S: Final = 5.0


def serve(options: argparse.Namespace) -> int:
    """Runs the service; the exit status, which is 0 after SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        status = _serve(options)
    except TritonError as error:
        return _fail(error)
    return 0 if status == 128 + signal.SIGTERM else status


def _serve(options: argparse.Namespace) -> int:
    from streamer.repository import asr_repository
    from streamer.triton.server import TritonServer

    triton = TritonServer(asr_repository(), instances=options.instances, slots=options.slots)
    triton.start()
    try:
        # While Triton's processes import torch, this one imports the rest.
        try:
            from streamer.bridge.server import PortError
            from streamer.bridge.service import Service
            from streamer.triton.link import LinkError
        except ImportError as error:
            raise TritonError(f"the service needs {error.name}: pip install 'streamer[embedded]'") from error

        async def work() -> int:
            try:
                async with Service(triton, host=options.host, port=options.port, grace=GRACE_S) as service:
                    page = service.url.replace("ws://", "http://").rpartition("/v1/")[0]
                    _say(f"ready: {service.url} (page and probes: {page}/); Ctrl-C ends it")
                    await service.lost()
            except (PortError, LinkError) as error:
                return _fail(error)
            return _fail("the recogniser has gone; its last words are above, if it had any.")

        return run_until_signal(work())
    finally:
        triton.stop()


def _fail(reason: object) -> int:
    _say(str(reason))
    return 1


def _say(message: str) -> None:
    print(f"streamer: {message}", file=sys.stderr, flush=True)
