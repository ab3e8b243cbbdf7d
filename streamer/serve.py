"""The command `streamer serve`: the service in the foreground, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING, Final

from streamer.bridge import logs
from streamer.bridge.entrance import Entrance
from streamer.doorkeeper import EntranceError, entrance, is_local, triton_dial
from streamer.interrupt import run_until_signal
from streamer.triton import TritonError

if TYPE_CHECKING:
    from streamer.triton.dial import Dial

# How long sessions may go on by themselves after SIGTERM. With all that can follow it stays below 30 s.
GRACE_S: Final = 5.0
USAGE: Final = 2


def serve(options: argparse.Namespace) -> int:
    """Runs the service; the exit status, which is 0 after SIGTERM."""
    try:
        guarded, dial = entrance(options), triton_dial(options)
    except EntranceError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return USAGE
    logs.configure(options.log_format, options.log_level)
    if not options.tls_cert and not options.behind_proxy and not is_local(options.host):
        logs.say("without TLS everybody on the way can listen: give --tls-cert, or put a proxy with TLS in front.")
    try:
        status = _serve(options, guarded, dial)
    except TritonError as error:
        return _fail(error)
    return 0 if status == 128 + signal.SIGTERM else status


def _serve(options: argparse.Namespace, guarded: Entrance, dial: Dial | None) -> int:
    from streamer.repository import asr_repository
    from streamer.triton.server import TritonServer

    triton = tracing = None
    if not options.triton:
        triton = TritonServer(asr_repository(), instances=options.instances, slots=options.slots)
        triton.start()
    try:
        # While Triton's processes import torch, this one imports the rest.
        try:
            from streamer.bridge.server import PortError
            from streamer.bridge.service import Service
            from streamer.bridge.session import Limits
            from streamer.bridge.traces import TracesError, Tracing
            from streamer.triton.link import LinkError
        except ImportError as error:
            raise TritonError(f"the service needs {error.name}: pip install 'streamer[embedded]'") from error

        limits = Limits(start_s=options.start_limit, idle_s=options.idle_limit, resume_s=options.resume_limit)

        try:
            tracing = Tracing.towards(options.traces) if options.traces or Tracing.in_environment() else None
        except TracesError as error:
            return _fail(error)

        async def work() -> int:
            try:
                async with Service(
                    triton or options.triton,
                    host=options.host,
                    port=options.port,
                    limits=limits,
                    grace=GRACE_S,
                    entrance=guarded,
                    dial=dial,
                    tracing=tracing,
                ) as service:
                    page = service.url.replace("ws", "http", 1).rpartition("/v1/")[0]
                    logs.say(f"ready: {service.url} (page and probes: {page}/); Ctrl-C ends it")
                    await asyncio.Event().wait()  # for a signal: a recogniser that has gone comes back
            except (PortError, LinkError) as error:
                return _fail(error)
            return 0

        return run_until_signal(work())
    finally:
        if triton:
            triton.stop()
        if tracing:
            tracing.close()


def _fail(reason: object) -> int:
    logs.say(reason, logging.ERROR)
    return 1
