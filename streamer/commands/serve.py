"""The command `streamer serve`: the service in the foreground, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.address import DEFAULT_HOST, DEFAULT_PORT
from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.telemetry import logs
from streamer.commands.arguments.access import EntranceError, add_entrance_arguments, entrance, is_local, triton_dial
from streamer.commands.arguments.parser import USAGE, count, port, within
from streamer.commands.interrupt import run_until_signal
from streamer.commands.session_limit import SLOTS, Finding, circumstances
from streamer.distribution import install_command
from streamer.triton import MODEL, TritonError, check_name

if TYPE_CHECKING:
    from streamer.bridge.service import Service
    from streamer.triton.dialer import Dialer

# How long sessions may go on by themselves after SIGTERM. With all that can follow it stays below 30 s.
DRAIN_LIMIT_S: Final = 5.0
LONGEST_DRAIN_S: Final = 86_400.0
RESOLVE_S: Final = 30.0
AUTO: Final = "auto"
# The slots of the model as it is shipped. With fewer, sessions that start anew after a failure might find no place.
USUAL_SLOTS: Final = 64

EXAMPLES: Final = """\
examples:
  streamer serve                          for programs and pages of this machine: http://127.0.0.1:8080
  streamer serve --port 9000 --sessions auto   no more sessions than this machine carries
  streamer key alice >> keys
  streamer serve --host 0.0.0.0 --keys keys --tls-cert cert.pem   for others, who show a key
  streamer serve --triton gpu1:8001,gpu2:8001                     in front of Tritons that run already
  streamer serve --repository models --model mine_1               … `streamer roll mine_2` goes over to another

It stays in the foreground until Ctrl-C or SIGTERM; `/readyz` tells when it is ready. docs/operations.md says what to
watch, docs/security.md who may come in. The exit status is 0 after SIGTERM."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `serve` accepts."""
    add = parser.add_argument
    add("--host", default=DEFAULT_HOST, help=f"address to listen on ({DEFAULT_HOST})")
    add("--port", type=port, default=DEFAULT_PORT, help=f"port to listen on, 0 for any free one ({DEFAULT_PORT})")
    add(
        "--triton",
        type=_tritons,
        metavar="HOST:PORT[,…]",
        help="gRPC addresses of Tritons that run already, instead of an embedded one; a name may stand for several",
    )
    add(
        "--resolve-every",
        type=within(0.1, 3600),
        default=RESOLVE_S,
        metavar="SECONDS",
        help=f"how often the names of --triton are asked for again ({RESOLVE_S:g})",
    )
    add("--model", type=_model, default=MODEL, metavar="NAME", help=f"the model in Triton's repository ({MODEL})")
    add("--repository", type=Path, metavar="FOLDER", help="of the embedded Triton's models (the one that is shipped)")
    add("--instances", type=count, help="processes that recognise (as in the model's config.pbtxt)")
    add("--slots", type=count, help="streams for each of them (as in the model's config.pbtxt)")
    add(
        "--sessions",
        type=_sessions,
        metavar="N|auto",
        help="most sessions at a time, and slots for them; 'auto' measures how many this machine carries (all slots)",
    )
    add(
        "--drain-limit",
        type=within(0, LONGEST_DRAIN_S),
        default=DRAIN_LIMIT_S,
        metavar="SECONDS",
        help=f"after SIGTERM sessions may go on for so long, then they get their finals and end ({DRAIN_LIMIT_S:g})",
    )
    add("--control", type=Path, metavar="PATH", help="where to listen for `streamer roll` (docs/operations.md)")
    add("--log-format", choices=logs.FORMATS, default="text", help="of the log on standard error (text)")
    add("--log-level", choices=logs.LEVELS, default="info", help="the least that is logged (info)")
    add("--traces", metavar="URL", help="send OpenTelemetry traces to this collector (OTLP over gRPC)")
    add_entrance_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the service; the exit status, which is 0 after a single SIGTERM."""
    try:
        guarded, dial = entrance(options), triton_dial(options)
    except EntranceError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return USAGE
    if options.repository and options.triton:
        print("streamer: --repository is about the embedded Triton: --triton needs none.", file=sys.stderr)
        return USAGE
    logs.configure(options.log_format, options.log_level)
    if not options.tls_cert and not options.behind_proxy and not is_local(options.host):
        logs.say("without TLS everybody on the way can listen: give --tls-cert, or put a proxy with TLS in front.")
    try:
        return _serve(options, guarded, dial)
    except TritonError as error:
        return _fail(error)


def _serve(options: argparse.Namespace, guarded: PortPolicy, dial: Dialer | None) -> int:
    from streamer.triton.repository import asr_repository
    from streamer.triton.server import TritonServer

    triton = tracing = None
    sessions = options.sessions
    hurrying: list[asyncio.Future[None]] = []
    if not options.triton:
        folder = options.repository or asr_repository()
        slots = options.slots or _slots(options)
        triton = TritonServer(folder, models=[options.model], instances=options.instances, slots=slots)
        triton.start()
    try:
        # While Triton's processes import torch, this one imports the rest.
        try:
            from streamer.bridge.control import ControlError
            from streamer.bridge.server import PortError
            from streamer.bridge.service import Service
            from streamer.bridge.session.session import Limits
            from streamer.bridge.telemetry.traces import TracesError, Tracing
            from streamer.triton.link import LinkError
        except ImportError as error:
            raise TritonError(f"the service needs {error.name}: {install_command('embedded')}") from error

        if sessions == AUTO:
            known = None if triton is None else circumstances(folder, options.model, options.instances, slots)
            sessions = Finding(known)
        limits = Limits(start_s=options.start_limit, idle_s=options.idle_limit, resume_s=options.resume_limit)

        try:
            tracing = Tracing.towards(options.traces) if options.traces or Tracing.in_environment() else None
        except TracesError as error:
            return _fail(error)

        service = Service(
            triton or options.triton,
            host=options.host,
            port=options.port,
            sessions=sessions,
            limits=limits,
            grace=options.drain_limit,
            entrance=guarded,
            dial=dial,
            tracing=tracing,
            model=options.model,
            resolve_s=options.resolve_every,
        )

        async def work() -> int:
            try:
                async with service, _controlled(service, options.control):
                    page = service.url.replace("ws", "http", 1).rpartition("/v1/")[0]
                    logs.say(f"ready: {service.url} (page and probes: {page}/); Ctrl-C ends it")
                    await asyncio.Event().wait()  # for a signal: a recogniser that has gone comes back
            except (PortError, LinkError, ControlError) as error:
                return _fail(error)
            return 0

        def hurry() -> None:
            logs.say("a second signal: what is still open is cut off.", logging.WARNING)
            hurrying.append(asyncio.ensure_future(service.hurry()))

        status = run_until_signal(work(), hurry)
        return 0 if status == 128 + signal.SIGTERM and not hurrying else status
    finally:
        if triton:
            triton.stop()
        if tracing and not hurrying:
            tracing.close()


@asynccontextmanager
async def _controlled(service: Service, given: Path | None) -> AsyncIterator[None]:
    """Listens for whoever runs the service; ControlError if that is not possible where they said."""
    from streamer.bridge.control import Control, ControlError, default_path

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(Control(service.upstreams, given or default_path(service.port)))
        except ControlError as error:
            if given:
                raise
            logs.say(f"`streamer roll` will not reach this service: {error}", logging.WARNING)
        yield


def _model(text: str) -> str:
    try:
        return check_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sessions(text: str) -> int | str:
    return text if text == AUTO else count(text)


def _slots(options: argparse.Namespace) -> int | None:
    """For each instance as many as the sessions need, and one for the probe; None if that is for the model to say."""
    if options.sessions is None:
        return None
    if options.sessions == AUTO:
        return SLOTS
    return int(max(USUAL_SLOTS, -(-options.sessions // (options.instances or 1)) + 1))


def _tritons(text: str) -> list[str]:
    addresses = [address.strip() for address in text.split(",")]
    for address in addresses:
        host, _, number = address.rpartition(":")
        if not host or not number.isdecimal() or not 0 < int(number) <= 65535:
            raise argparse.ArgumentTypeError(f"'{address}' is no address of a Triton: that is HOST:PORT.")
    return addresses


def _fail(reason: object) -> int:
    logs.say(reason, logging.ERROR)
    return 1
